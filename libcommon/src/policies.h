/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_POLICIES_H
#define REPRISE_POLICIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "backoff.h"
#include "reprise/policy.h"
#include "retry.h"
#include "string_list.h"

/* What is behind reprise/policy.h. Built by config_policies.c, read-only afterwards. */

enum rp_profile { RP_PROFILE_FAST, RP_PROFILE_MEDIUM, RP_PROFILE_NO_RETRY, RP_N_PROFILES };

/* A category as rp_classify returns it, which is a pointer to `category`, the first member. */
struct rp_category_entry {
    struct rp_category category;
    int profile; /* enum rp_profile: the backoff of policies that take it from the category */
};

struct rp_builtin_category {
    struct rp_category_entry entry;
    const char *const *classes, *const *messages; /* end with NULL */
};

/* The built-in categories; the last one is UNKNOWN. */
extern const struct rp_builtin_category rp_builtin_categories[];
extern const size_t rp_n_builtin_categories;
/* By profile. */
extern const struct rp_backoff rp_profile_backoff[RP_N_PROFILES];

/* A pattern, borrowed, and what it stands for. */
#define RP_RULE_PAIRS 8
struct rp_rule {
    const char *pattern;
    const struct rp_category *category;
    size_t n_pairs; /* neighbouring letters that a text must have for the pattern to match */
    uint16_t pairs[RP_RULE_PAIRS];
};

struct rp_rule_list {
    struct rp_rule *items;
    size_t n;
};

struct rp_rules {
    struct rp_rule_list exact; /* sorted by pattern once rp_rules_sort was called; none twice */
    struct rp_rule_list globs, messages;
};

RP_NODISCARD int rp_rules_add_class(struct rp_rules *rules, const char *pattern,
                                    const struct rp_category *category);
RP_NODISCARD int rp_rules_add_message(struct rp_rules *rules, const char *pattern,
                                      const struct rp_category *category);
/* Sorts; returns an exact pattern that is there twice, NULL when there is none. */
const char *rp_rules_sort(struct rp_rules *rules);
void rp_rules_clear(struct rp_rules *rules);

/* How often and after how long. */
struct rp_schedule {
    struct rp_retry_rule stated; /* `retry` as the file has it; owned */
    /* What holds; all three must allow. */
    const struct rp_retry_rule *rule; /* NULL: none */
    int max_attempts;                 /* 0: none */
    int64_t deadline_ms;              /* 0: none */
    struct rp_backoff backoff;
    int jitter_percent; /* -1: not stated */
};
#define RP_SCHEDULE_UNSTATED                                                                       \
    {                                                                                              \
        .stated.kind = -1, .backoff.kind = -1, .jitter_percent = -1                                \
    }

extern const struct rp_schedule rp_default_schedule;

/* One of these for each preset, in the order of their names. */
extern const char *const rp_preset_names[]; /* ends with NULL */
extern const struct rp_schedule rp_presets[];

/* The part of a schedule that refuses, as rp_retry_refusal; a shorthand is written to `part`. */
const struct rp_retry_rule *rp_schedule_refusal(const struct rp_schedule *s, int32_t attempt,
                                                int64_t waited_ms, struct rp_retry_rule *part);

struct rp_override {
    char *name;                         /* the category's, as the file writes it */
    const struct rp_category *category; /* resolved when all is read */
    struct rp_schedule schedule;        /* filled up from the policy's */
};

struct rp_overrides {
    struct rp_override *items;
    size_t n;
};

struct rp_policy {
    char *name;
    int preset; /* its place; -1: none */
    char *target, *fallback;
    bool track;
    bool built_in; /* the default of a file that has none */
    struct rp_schedule schedule;
    struct rp_strings retryable, non_retryable;
    struct rp_overrides overrides;
};

/* A category as the file has it. */
struct rp_category_draft {
    char *name;
    int persistent, profile; /* -1: not stated */
    struct rp_strings classes, messages;
};

#define RP_CLASS_MEMOS 256u

struct rp_policies {
    atomic_int refs;
    _Atomic(struct rp_class_memo *) *memos; /* RP_CLASS_MEMOS places of classify.c */
    struct rp_category_draft *drafts; /* own the configured patterns and new categories' names */
    size_t n_drafts;
    struct rp_category_entry *categories; /* never moves once rules point to it */
    size_t n_categories;
    struct rp_rules configured, builtin;
    struct rp_policy *items;
    size_t n_items;
    const struct rp_policy **exact, **globs; /* sorted by name; the most specific first */
    size_t n_exact, n_globs;
    const struct rp_policy *fallback_policy; /* `default` */
};

/* With one reference and nothing in it. NULL: no memory. */
struct rp_policies *rp_policies_new(void);
/* Makes the tables that rp_policies_match looks into. -1: no memory. */
RP_NODISCARD int rp_policies_index(struct rp_policies *p);

/* By name, in either case; NULL: there is none such. */
const struct rp_category *rp_category_find(const struct rp_policies *p, struct rp_bytes name);

/* What a policy does with an error, before executions are counted. */
struct rp_policy_plan {
    const struct rp_schedule *schedule;
    const struct rp_override *override; /* NULL: the policy's own schedule */
    struct rp_backoff backoff;          /* never by_category */
    const char *listed;                 /* the pattern of retryable or non_retryable that matched */
    bool stops;                         /* at once: NON_RETRYABLE */
};
void rp_policy_plan(const struct rp_policy *policy, const struct rp_category *category,
                    const struct rp_failed_task *task, struct rp_policy_plan *out);

/* How much of an error is looked at. What lies beyond costs nothing. */
#define RP_MAX_CAUSES        32
#define RP_MAX_CLASS_BYTES   512
#define RP_MAX_MESSAGE_BYTES 4096

/* `b`, cut. */
static inline struct rp_bytes rp_bytes_head(struct rp_bytes b, size_t most)
{
    return (struct rp_bytes){b.data, b.len < most ? b.len : most};
}

/* As strcmp, where `name` is the first and may hold anything. */
static inline int rp_bytes_compare(struct rp_bytes name, const char *text)
{
    size_t len = strlen(text), least = name.len < len ? name.len : len;
    int c = least == 0 ? 0 : memcmp(name.data, text, least);
    return c != 0 ? c : name.len < len ? -1 : name.len > len;
}

#endif
