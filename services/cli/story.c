/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dead_letter.h"
#include "explain.h"
#include "kafka.h"
#include "replay_message.h"
#include "term.h"

#define INDENT     "  "
#define MAX_CAUSES 32
#define MAX_EVENTS 100 /* the query asks for one more */

const char story_columns[] =
    ", (extract(epoch FROM d.first_failed_at) * 1000)::bigint AS first_failed_ms,"
    " (extract(epoch FROM d.failed_at) * 1000)::bigint AS failed_ms,"
    " (extract(epoch FROM d.decided_at) * 1000)::bigint AS decided_ms,"
    " to_char(d.status_at, 'YYYY-MM-DD HH24:MI:SS') || ' UTC' AS status_when,"
    " to_char(d.came_back_at, 'YYYY-MM-DD HH24:MI:SS') || ' UTC' AS came_back_when,"
    " lpad(to_hex(d.fingerprint), 16, '0') AS group_hex,"
    " octet_length(d.payload) AS payload_bytes,"
    " EXISTS (SELECT FROM unnest(d.header_keys, d.header_values) AS h (key, value)"
    "  WHERE key = '" RP_HDR_FALLBACK "' AND value = '1') AS was_fallback,"
    " (SELECT string_agg(l.id::text, ', ' ORDER BY l.dead_at) FROM dead_letter AS l"
    "  WHERE l.task_id = d.task_id AND l.replay_of = d.id AND l.replay_of_at = d.dead_at)"
    " AS came_of_it";

/* All that is on record of the task, in order. Executions between the first failure and the last
 * one are not: nobody keeps them. */
static const char events_sql[] =
    "SELECT to_char(at, 'YYYY-MM-DD HH24:MI:SS.MS'), what FROM (SELECT * FROM ("
    " SELECT min(first_failed_at) AS at, 0 AS place, 'failed for the first time' AS what"
    "  FROM dead_letter WHERE task_id = $1 AND attempt > 1"
    " UNION ALL SELECT failed_at, 1, 'execution ' || attempt || ' failed: ' || error_class"
    "  || coalesce(': ' || nullif(left(error_message, 80), ''), '')"
    "  FROM dead_letter WHERE task_id = $1"
    " UNION ALL SELECT decided_at, 2, 'dead letter ' || id || ': ' || reason || coalesce(' by "
    "policy '"
    "  || policy, '') || coalesce(', ' || detail, '') FROM dead_letter WHERE task_id = $1"
    " UNION ALL SELECT j.created_at, 3, 'replay ' || j.job || ' by ' || j.created_by || ': ' || "
    "j.reason"
    "  || CASE WHEN i.edited IS NOT NULL THEN ' (edited)' ELSE '' END"
    "  || coalesce(' (refused: ' || i.refused || ')', '')"
    "  FROM replay_job AS j JOIN replay_item AS i ON i.job = j.job AND i.task_id = $1 WHERE j.job "
    "IN"
    "   (SELECT replay_job FROM dead_letter WHERE task_id = $1"
    "    UNION SELECT job FROM archive WHERE task_id = $1)"
    ") AS e WHERE at IS NOT NULL ORDER BY at DESC, place DESC LIMIT 101) AS l ORDER BY at, place";

struct story {
    const struct rp_config *config;
    struct rp_db *db;
    const PGresult *result;
    int row;
    struct story_targets *targets;
};

static const char *text(const struct story *s, const char *column)
{
    int at = PQfnumber(s->result, column);
    return at < 0 || PQgetisnull(s->result, s->row, at) ? NULL : PQgetvalue(s->result, s->row, at);
}

static bool is_true(const struct story *s, const char *column)
{
    const char *value = text(s, column);
    return value != NULL && *value == 't';
}

/* What came from outside is made safe for a terminal. */
static void print_line(const char *label, const char *value)
{
    (void)printf(INDENT "%-14s", label);
    term_print(stdout, rp_str(value), SIZE_MAX);
    (void)putchar('\n');
}

RP_PRINTF(2, 3) static void print_words(const char *label, const char *fmt, ...)
{
    char words[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    print_line(label, words);
}

static void print_events(const struct story *s)
{
    const char *values[] = {text(s, "task_id")};
    PGresult *events;
    struct rp_error err;
    if (rp_db_query(s->db, events_sql, 1, values, &events, &err) != 0) {
        print_words("", "(cannot be asked: %s)", err.text);
        return;
    }
    int n = PQntuples(events), first = n > MAX_EVENTS ? n - MAX_EVENTS : 0;
    if (first > 0)
        print_words("", "(what was before is left out)");
    for (int i = first; i < n; i++)
        print_words("", "%s  %s", PQgetvalue(events, i, 0), PQgetvalue(events, i, 1));
    PQclear(events);
}

static const char *meaning(const char *reason)
{
    static const char *const meanings[RP_N_REASONS] = {
        [RP_EXHAUSTED] = "its policy allows no more executions",
        [RP_DEADLINE_EXCEEDED] = "its policy's deadline is over",
        [RP_NON_RETRYABLE] = "an error of this category is not retried",
        [RP_NO_TARGET] = "nobody names a target, or there was no such topic",
        [RP_TARGET_FORBIDDEN] = "targets.allow or the brokers' ACLs refused its target",
        [RP_UNDECODABLE] = "the event's bytes cannot be read",
        [RP_OVERSIZED] = "the record is larger than its topic takes",
        [RP_CANCELLED] = "somebody cancelled it",
        [RP_INVALID] = "the event can be read, but breaks the contract",
        [RP_OTHER] = "for a reason that this version does not know",
    };
    for (int i = 0; i < RP_N_REASONS; i++)
        if (strcmp(reason, rp_reason_name((enum rp_reason)i)) == 0)
            return meanings[i];
    return "";
}

static int64_t number(const struct story *s, const char *column, int64_t fallback)
{
    const char *value = text(s, column);
    return value == NULL ? fallback : strtoll(value, NULL, 10);
}

/* The causes as the rows have them: [[class, message], ...]. The strings live in `json`. */
static size_t read_causes(const json_t *json, struct rp_cause causes[MAX_CAUSES])
{
    size_t n = 0;
    for (; n < json_array_size(json) && n < MAX_CAUSES; n++) {
        const json_t *pair = json_array_get(json, n);
        causes[n] = (struct rp_cause){rp_str(json_string_value(json_array_get(pair, 0))),
                                      rp_str(json_string_value(json_array_get(pair, 1)))};
    }
    return n;
}

static void print_verdict(const struct story *s, const struct rp_decision *d,
                          const struct rp_policy *policy)
{
    char delay[EXPLAIN_TIME_TEXT];
    const char *reason = d->verdict == RP_DEAD ? rp_reason_name((enum rp_reason)d->reason) : "";
    if (d->verdict == RP_RETRY)
        print_words("today", "policy %s would retry it, %s after it failed", rp_policy_name(policy),
                    explain_time(d->delay_ms, delay));
    else if (d->verdict == RP_FALLBACK)
        print_words("today", "policy %s would give it a last try by %s", rp_policy_name(policy),
                    rp_policy_fallback(policy));
    else if (strcmp(reason, text(s, "reason")) == 0)
        print_words("today", "policy %s decides the same: %s", rp_policy_name(policy), d->why);
    else
        print_words("today", "policy %s would make it %s: %s", rp_policy_name(policy), reason,
                    d->why);
}

/* What today's policies say of the same failure at the same moment. */
static void decide_again(const struct story *s, const struct rp_failed_task *task)
{
    const struct rp_policies *p = s->config->policies;
    const struct rp_policy *policy = rp_policies_match(p, task->task_type);
    const struct rp_category *category = rp_classify(p, task);
    const int64_t failed_ms = number(s, "failed_ms", 0);
    const struct rp_failure failure = {
        .task = task,
        .attempt = task->attempt,
        .first_failed_at_ms = number(s, "first_failed_ms", failed_ms),
        .failed_at_ms = failed_ms,
        .now_ms = number(s, "decided_ms", failed_ms),
        .was_fallback = is_true(s, "was_fallback"),
    };
    struct rp_decision decision;
    struct rp_rng rng;
    rp_rng_init(&rng, 1);
    rp_decide(policy, category, &failure, &rng, &decision);
    const char *was = text(s, "category");
    if (was != NULL && strcmp(was, category->name) != 0)
        print_words("", "the error is of category %s today, and was %s", category->name, was);
    print_verdict(s, &decision, policy);
}

static void print_today(const struct story *s)
{
    struct rp_cause causes[MAX_CAUSES];
    const char *pairs = text(s, "causes");
    json_t *json = pairs == NULL ? NULL : json_loads(pairs, 0, NULL);
    const int64_t attempt = number(s, "attempt", 1), attempts = number(s, "attempts", attempt);
    const struct rp_failed_task task = {
        .task_id = rp_str(text(s, "task_id")),
        .task_type = rp_str(text(s, "task_type")),
        .attempt = (int32_t)(attempts > attempt ? attempts : attempt),
        .error_class = rp_str(text(s, "error_class")),
        .error_message = rp_str(text(s, "error_message")),
        .error_category = rp_str(text(s, "error_category")),
        .causes = causes,
        .n_causes = read_causes(json, causes),
    };
    if (task.attempt >= 1)
        decide_again(s, &task);
    json_decref(json);
}

static void print_why(const struct story *s)
{
    const char *reason = text(s, "reason");
    print_words("reason", "%s: %s", reason, meaning(reason));
    if (text(s, "policy") != NULL)
        print_words("decided by", "policy %s, category %s", text(s, "policy"),
                    text(s, "category") == NULL ? "not known" : text(s, "category"));
    if (text(s, "detail") != NULL)
        print_line("detail", text(s, "detail"));
    /* Of the others, it is not the policy that decides. */
    if (text(s, "task_type") != NULL &&
        (strcmp(reason, "EXHAUSTED") == 0 || strcmp(reason, "DEADLINE_EXCEEDED") == 0 ||
         strcmp(reason, "NON_RETRYABLE") == 0))
        print_today(s);
}

static void print_since(const struct story *s)
{
    const char *job = text(s, "job"), *when = text(s, "status_when");
    print_words("status", "%s%s%s%s%s", text(s, "status"), when == NULL ? "" : " since ",
                when == NULL ? "" : when, job == NULL ? "" : ", by replay ",
                job == NULL ? "" : job);
    if (number(s, "replays", 0) > 0)
        print_words("replayed", "%s time%s", text(s, "replays"),
                    number(s, "replays", 0) == 1 ? "" : "s");
    if (text(s, "came_back_when") != NULL)
        print_words("came back", "dead again, %s%s%s", text(s, "came_back_when"),
                    text(s, "came_of_it") == NULL ? "" : ": dead letter ",
                    text(s, "came_of_it") == NULL ? "" : text(s, "came_of_it"));
    if (text(s, "replay_of") != NULL)
        print_words("comes from", "dead letter %s, sent again by replay %s", text(s, "replay_of"),
                    text(s, "replay_job"));
    print_words("group", "%s; `reprise dlq list --group %s` shows those like it",
                text(s, "group_hex"), text(s, "group_hex"));
}

/* Whether the target would take it, as a replay finds it. */
static int open_targets(const struct rp_config *config, struct story_targets *t,
                        struct rp_error *err)
{
    if (t->maker != NULL)
        return 0;
    rp_replay_options_init(&t->options);
    if (t->client == NULL && rp_kafka_new_admin(config, &t->client, err) != 0)
        return -1;
    return rp_replay_maker_new(config, &t->options, "-", t->client, &t->maker, err);
}

void story_targets_clear(struct story_targets *t)
{
    rp_replay_maker_free(t->maker);
    if (t->client != NULL)
        rd_kafka_destroy(t->client);
    rp_replay_options_clear(&t->options);
}

/* Whether a replay may send it there: false is certain, as things are. */
static bool print_target(const struct story *s)
{
    struct rp_error err;
    const char *refused = NULL;
    struct rp_bytes topic = rp_str(text(s, "target"));
    int rc = open_targets(s->config, s->targets, &err);
    if (rc == 0)
        rc = rp_replay_judge_target(s->targets->maker, rp_str(text(s, "task_type")), &topic,
                                    &refused, &err);
    const char *target = text(s, "target") == NULL ? "the policy's" : text(s, "target");
    if (rc != 0) {
        print_words("target", "%s; whether it takes it is not known: %s", target, err.text);
        return true;
    }
    int64_t bytes = number(s, "payload_bytes", 0), max_bytes = RP_NO_LIMIT;
    if (refused == NULL)
        max_bytes = rp_replay_max_payload(s->targets->maker, topic);
    if (bytes > max_bytes)
        print_words("target", "%s: takes %" PRId64 " bytes, less than the payload has", target,
                    max_bytes);
    else
        print_words("target", "%s: %s", target, refused == NULL ? "is there" : refused);
    return refused == NULL && bytes <= max_bytes;
}

/* Why no replay sends it, as that would say; NULL where one may. */
static const char *lacks_what(const struct story *s)
{
    if (text(s, "task_id") == NULL)
        return text(s, "raw") == NULL ? "the dead letter itself could not be decoded" : NULL;
    bool whole = text(s, "payload") != NULL || text(s, "record") != NULL;
    return strcmp(text(s, "reason"), "OVERSIZED") == 0 && !whole
               ? "its payload was too large to be kept"
               : NULL;
}

static void print_replay(const struct story *s)
{
    const char *status = text(s, "status"), *id = text(s, "id");
    const char *lacks = lacks_what(s);
    if (lacks != NULL) {
        print_words("", "not possible: %s", lacks);
        return;
    }
    if (text(s, "task_id") == NULL) {
        print_line("", "there is no task to send; the bytes can go to the router again:");
        print_words("", "reprise dlq replay --id %s --to router --reason WHY", id);
        return;
    }
    bool may_go = print_target(s);
    if (strcmp(status, "replaying") == 0) {
        print_words("", "a replay has it: reprise replay show %s", text(s, "job"));
        return;
    }
    if (!may_go)
        print_line("as it is", "not possible as things are");
    else if (strcmp(status, "dead") == 0)
        print_words("as it is", "reprise dlq replay --id %s --reason WHY", id);
    else
        print_words("once more", "reprise dlq replay --id %s --status %s --reason WHY", id, status);
    print_words("changed", "reprise dlq edit %s --reason WHY", id);
}

void story_print(const struct rp_config *config, struct rp_db *db, const PGresult *result, int row,
                 struct story_targets *targets)
{
    const struct story s = {config, db, result, row, targets};
    if (text(&s, "task_id") != NULL) {
        (void)printf("what happened, UTC\n");
        print_events(&s);
    }
    (void)printf("why it stopped\n");
    print_why(&s);
    (void)printf("since then\n");
    print_since(&s);
    (void)printf("to send it again\n");
    print_replay(&s);
}
