/* SPDX-License-Identifier: Apache-2.0 */
#include "retention_types.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "clock.h"
#include "day.h"
#include "export_name.h"
#include "filter.h"
#include "log.h"
#include "purge.h"

/* Rows of one export, and of one list of what is to go. */
#define RUN_ROWS     100000
#define MAX_PAUSE_MS INT64_C(1000)

struct rule {
    struct retention *r;
    struct rp_db *db;
    const struct rp_type_keep *keep;
    const struct rp_query *where;
    const char *filter, *reason;
    int64_t deleted, batch_mono_ms;
};

static void rest(int64_t ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

/* Rests for as long as it worked, so that half of what the disk can do is left to the others. */
static bool go_on(void *opaque, const struct rp_purge_progress *progress)
{
    struct rule *rule = opaque;
    int64_t now = rp_mono_ms(), pause_ms = now - rule->batch_mono_ms;
    if (progress->deleted > 0 && rule->batch_mono_ms > 0)
        rest(pause_ms < MAX_PAUSE_MS ? pause_ms : MAX_PAUSE_MS);
    rule->batch_mono_ms = rp_mono_ms();
    return !atomic_load(rule->r->stop);
}

static int purge_some(struct rule *rule, bool *more, struct rp_error *err)
{
    const char *folder = rule->r->config->retention.export_dir;
    char name[160], path[EXPORT_NAME_SIZE], day[DAY_TEXT_SIZE];
    struct rp_purge_progress done;
    day_text(day_of(rp_wall_ms()), day);
    (void)snprintf(name, sizeof name, "dead-letters-of-%.100s-until-%s", rule->keep->type, day);
    if (*folder != '\0' && export_name(folder, name, path, err) != 0)
        return -1;
    const struct rp_purge p = {
        .action = "retention",
        .actor = "reprise-archiver",
        .reason = rule->reason,
        .filter = rule->filter,
        .where = rule->where,
        .limit = RUN_ROWS,
        .export_path = *folder == '\0' ? NULL : path,
        .go_on = go_on,
        .opaque = rule,
    };
    int failed = rp_purge_run(rule->db, &p, &done, err);
    rule->deleted += done.deleted;
    rp_series_add(rule->r->metrics->rows_dropped, (double)done.deleted);
    *more =
        failed == 0 && done.deleted > 0 && done.matched == RUN_ROWS && !atomic_load(rule->r->stop);
    return failed;
}

static int purge_all(struct rule *rule, struct rp_error *err)
{
    bool more = true;
    int failed = 0;
    int64_t began_ms = rp_mono_ms();
    while (failed == 0 && more)
        failed = purge_some(rule, &more, err);
    if (rule->deleted > 0)
        rp_log(RP_LOG_INFO, "type-deleted", rp_f_str("type", rule->keep->type),
               rp_f_int("rows", rule->deleted), rp_f_int("took_ms", rp_mono_ms() - began_ms));
    return failed;
}

/* "type = 'mail.*' and dead_at < 2026-11-14T03:00:00.000Z". What was archived late is kept as long:
 * nobody could have seen it before. */
static int make_filter(struct rule *rule, int64_t until_ms, struct rp_filter *filter,
                       struct rp_query *where, struct rp_buf *text, struct rp_error *err)
{
    char until[40];
    time_t seconds = (time_t)(until_ms / 1000);
    struct tm tm;
    (void)strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    if (rp_filter_is(filter, "type", rule->keep->type, err) != 0 ||
        rp_filter_flag(filter, "until", until, err) != 0 ||
        rp_filter_sql(filter, where, err) != 0 || rp_filter_text(filter, text, err) != 0)
        return -1;
    rp_query_add(where, " AND d.archived_at < ");
    rp_query_param(where, until);
    rp_query_add(where, "::timestamptz");
    return rp_buf_append(text, "", 1, err);
}

/* A pattern finds its types among the counts, which are few, and the types their rows by an index:
 * with the pattern alone every dead letter would be looked at. `*any`: there is one. */
static int add_types(struct rule *rule, int64_t now_ms, struct rp_query *where, bool *any,
                     struct rp_error *err)
{
    struct rp_filter *filter;
    struct rp_query q = {0};
    PGresult *types;
    if (rp_filter_new(now_ms, &filter, err) != 0)
        return -1;
    rp_query_add(&q, "SELECT array_agg(DISTINCT d.task_type) FROM dead_letter_count AS d WHERE ");
    int failed = rp_filter_is(filter, "type", rule->keep->type, err) != 0 ||
                         rp_filter_sql(filter, &q, err) != 0
                     ? -1
                     : rp_query_run(&q, rule->db, &types, err);
    rp_query_clear(&q);
    rp_filter_free(filter);
    if (failed != 0)
        return -1;
    *any = !PQgetisnull(types, 0, 0);
    rp_query_add(where, " AND d.task_type = ANY (");
    rp_query_param(where, PQgetvalue(types, 0, 0));
    rp_query_add(where, "::text[])");
    PQclear(types);
    return 0;
}

static int delete_type(struct retention *r, struct rp_db *db, const struct rp_type_keep *keep,
                       int64_t now_ms, struct rp_error *err)
{
    int64_t until_ms = day_scheduled(now_ms, r->config->retention.schedule_minute) - keep->keep_ms;
    struct rp_filter *filter;
    struct rp_query where = {0};
    struct rp_buf text = {0};
    char reason[80];
    bool any = false;
    struct rule rule = {.r = r, .db = db, .keep = keep, .where = &where, .reason = reason};
    (void)snprintf(reason, sizeof reason, "retention.by_type says %" PRId64 " hours",
                   keep->keep_ms / 3600000);
    if (rp_filter_new(now_ms, &filter, err) != 0)
        return -1;
    int failed = make_filter(&rule, until_ms, filter, &where, &text, err);
    rule.filter = (const char *)text.data;
    if (failed == 0)
        failed = add_types(&rule, now_ms, &where, &any, err);
    if (failed == 0 && any)
        failed = purge_all(&rule, err);
    rp_query_clear(&where);
    rp_buf_clear(&text);
    rp_filter_free(filter);
    return failed;
}

int retention_delete_types(struct retention *r, struct rp_db *db, int64_t now_ms,
                           struct rp_error *err)
{
    const struct rp_type_keeps *types = &r->config->retention.by_type;
    int failed = 0;
    /* One that somebody's trigger keeps, say, keeps none of the others. */
    for (size_t i = 0; i < types->n && !atomic_load(r->stop) && (failed == 0 || rp_db_alive(db));
         i++) {
        struct rp_error later;
        if (delete_type(r, db, &types->items[i], now_ms, failed == 0 ? err : &later) != 0)
            failed = -1;
    }
    return failed;
}
