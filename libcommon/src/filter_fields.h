/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FILTER_FIELDS_H
#define REPRISE_FILTER_FIELDS_H

#include <stdbool.h>

/* What can be asked of a dead letter: the only source of the language, its help, and the flags.
 *
 *     X(symbol, name, flag, placeholder, kind, column of the view archive, countable, help) */
#define RP_FILTER_FLAGS(X)                                                                         \
    X(TYPE, "type", "type", "TYPE", NAME, "task_type", true,                                       \
      "of this task type; * and ? are wildcards, a,b is either")                                   \
    X(CATEGORY, "category", "category", "NAME", NAME, "category", true,                            \
      "of this category, for example TIMEOUT")                                                     \
    X(CLASS, "class", "class", "CLASS", NAME, "error_class", true,                                 \
      "failed with this error class, for example *Timeout*")                                       \
    X(MESSAGE, "message", "message", "TEXT", TEXT, "error_message", false,                         \
      "with this in the error's message; ~REGEX: matching it")                                     \
    X(DETAIL, "detail", "detail", "TEXT", TEXT, "detail", false,                                   \
      "with this in what the decision says; ~REGEX: matching it")                                  \
    X(STATUS, "status", "status", "STATUS", STATUS, "status", true,                                \
      "dead, replaying, replayed or discarded")                                                    \
    X(GROUP, "group", "group", "HEX", GROUP, "fingerprint", true,                                  \
      "of this group of `dlq groups`; its first digits will do")                                   \
    X(SINCE, "since", "since", "TIME", TIME, "dead_at", true,                                      \
      "dead since then: 30m, 12h, 7d ago, or 2026-11-21T03:00Z")                                   \
    X(UNTIL, "until", "until", "TIME", TIME, "dead_at", true, "dead before then")                  \
    X(ID, "id", "id", "ID", INT, "id", false, "the dead letter of this id")                        \
    X(TASK, "task", "task", "ID", NAME, "task_id", false, "of the task of this id")                \
    X(TARGET, "target", "target", "TOPIC", NAME, "target", false, "whose target is this topic")    \
    X(POLICY, "policy", "policy", "NAME", NAME, "policy", false, "that this policy decided")       \
    X(SOURCE, "source", "source", "NAME", NAME, "source", false, "that this program reported")     \
    X(ATTEMPTS, "attempts", "attempts", "N", INT, "attempts", false, "executed so often; >=3, <5") \
    X(REPLAYS, "replays", "replays", "N", INT, "replays", false, "replayed so often; >=1, 0")      \
    X(JOB, "job", "job", "JOB", NAME, "job", false, "that this replay took")                       \
    X(SENT_BY, "sent_by", "sent-by", "JOB", NAME, "replay_job", false,                             \
      "whose task this replay had sent before it died")                                            \
    X(CAME_BACK, "came_back", "came-back", NULL, BOOL, "came_back_at", false,                      \
      "replayed, and dead again")
/* Commands that act on dead letters have another use for --reason; there it is --dead-for. */
#define RP_FILTER_REASON_FLAG(X)                                                                   \
    X(REASON, "reason", "reason", "REASON", REASON, "reason", true,                                \
      "dead for this reason: exhausted, non_retryable, ...")
#define RP_FILTER_NO_FLAGS(X)                                                                      \
    X(DEAD_AT, "dead_at", NULL, "TIME", TIME, "dead_at", true, "when it died")                     \
    X(FAILED_AT, "failed_at", NULL, "TIME", TIME, "failed_at", false, "when its task last failed") \
    X(STATUS_AT, "status_at", NULL, "TIME", TIME, "status_at", false,                              \
      "when its status last changed; none while it never has")
#define RP_FILTER_FIELDS(X) RP_FILTER_FLAGS(X) RP_FILTER_REASON_FLAG(X) RP_FILTER_NO_FLAGS(X)

enum rp_filter_kind {
    RP_FILTER_NAME,   /* text, by globs */
    RP_FILTER_TEXT,   /* text, by a part of it */
    RP_FILTER_REASON, /* one of rp_reason_name */
    RP_FILTER_STATUS,
    RP_FILTER_GROUP, /* 16 hex digits, or the first of them */
    RP_FILTER_TIME,
    RP_FILTER_INT,
    RP_FILTER_BOOL, /* whether the column has a value */
};

#define RP_FILTER_SYMBOL(symbol, ...) RP_FIELD_##symbol,
enum rp_filter_field { RP_FILTER_FIELDS(RP_FILTER_SYMBOL) RP_N_FIELDS };
#undef RP_FILTER_SYMBOL

struct rp_filter_field_info {
    const char *name, *flag, *placeholder;
    enum rp_filter_kind kind;
    const char *column;
    bool countable;
    const char *help;
};

extern const struct rp_filter_field_info rp_filter_fields[RP_N_FIELDS];

/* By name, or by flag; letters in either case, - as good as _. RP_N_FIELDS: there is none. */
enum rp_filter_field rp_filter_field(const char *name);

#endif
