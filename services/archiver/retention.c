/* SPDX-License-Identifier: Apache-2.0 */
#include "retention.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "day.h"
#include "log.h"
#include "retention_day.h"
#include "retention_jobs.h"
#include "retention_types.h"

/* After a failure, and while another archiver is at it. */
#define AGAIN_MS INT64_C(60000)
/* While rows of a day are being replayed. */
#define HELD_AGAIN_MS INT64_C(3600000)
/* What a clock may differ from the database's: one that is wrong must not drop anything, nor make
 * days. */
#define MAX_SKEW_MS    INT64_C(3600000)
#define GROUPS_AT_ONCE "50000"

static const char lock[] = "SELECT pg_try_advisory_lock(hashtext('reprise: retention'))::int";
static const char unlock[] = "SELECT pg_advisory_unlock(hashtext('reprise: retention'))::int";

/* The value of a query's only column and row. */
static int query_int(struct rp_db *db, const char *sql, int n, const char *const *values,
                     int64_t *out, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(db, sql, n, values, &result, err) != 0)
        return -1;
    *out = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return 0;
}

static int add_days_ahead(struct rp_db *db, int64_t now_ms, struct rp_error *err)
{
    char today[DAY_TEXT_SIZE];
    const char *values[] = {today};
    int64_t added;
    day_text(day_of(now_ms), today);
    return query_int(db,
                     "SELECT count(*) FILTER (WHERE dead_letter_add_day($1::date + n))"
                     " FROM generate_series(-1, 3) AS n",
                     1, values, &added, err);
}

static int check_clock(struct rp_db *db, int64_t now_ms, struct rp_error *err)
{
    int64_t theirs;
    if (rp_db_wall_ms(db, &theirs, err) != 0)
        return -1;
    if (theirs < now_ms - MAX_SKEW_MS || theirs > now_ms + MAX_SKEW_MS)
        return rp_fail(err, RP_E_RANGE, RP_RETRIABLE,
                       "this machine's clock and the database's are %" PRId64 " s apart",
                       (now_ms - theirs) / 1000);
    return 0;
}

/* Whether the clock has not jumped, by the database's word. */
static int has_seen_yesterday(struct rp_db *db, bool *out, struct rp_error *err)
{
    int64_t seen;
    if (query_int(db, "SELECT dead_letter_saw_yesterday()::int", 0, NULL, &seen, err) != 0)
        return -1;
    *out = seen == 1;
    if (!*out)
        rp_log(RP_LOG_WARN, "retention-waits",
               rp_f_str("why", "nobody wrote statistics a day ago, so the clock may have jumped"),
               rp_f_str("effect", "nothing is dropped or deleted for a day"));
    return 0;
}

/* Of several failures the first one is told. */
static void keep_first(int rc, const struct rp_error *one, int *failed, struct rp_error *err)
{
    if (rc != 0 && *failed == 0)
        *failed = rp_fail_as(err, one);
}

static int drop_days(struct retention *r, struct rp_db *db, int64_t now_ms, bool *held,
                     struct rp_error *err)
{
    char keep_from[DAY_TEXT_SIZE];
    const char *values[] = {keep_from};
    PGresult *days;
    int failed = 0;
    day_text(
        day_keep_from(now_ms, r->config->retention.schedule_minute, r->config->retention.keep_ms),
        keep_from);
    if (rp_db_query(db,
                    "SELECT day, (extract(epoch FROM day) * 1000)::bigint FROM dead_letter_day"
                    " WHERE day < $1::date ORDER BY day",
                    1, values, &days, err) != 0)
        return -1;
    rp_log(RP_LOG_INFO, "retention-run", rp_f_str("keep_from", keep_from),
           rp_f_int("days_to_drop", PQntuples(days)));
    /* One that cannot go keeps none of the others. */
    for (int i = 0; i < PQntuples(days) && rp_db_alive(db) && !atomic_load(r->stop); i++) {
        struct rp_error one;
        int rc = retention_drop_day(r, db, PQgetvalue(days, i, 0),
                                    strtoll(PQgetvalue(days, i, 1), NULL, 10), held, &one);
        keep_first(rc, &one, &failed, err);
    }
    PQclear(days);
    return failed;
}

static int clean_groups(struct retention *r, struct rp_db *db, struct rp_error *err)
{
    const int64_t most = atoll(GROUPS_AT_ONCE);
    int64_t cleaned = most;
    while (cleaned >= most && !atomic_load(r->stop))
        if (query_int(db, "SELECT error_group_clean(" GROUPS_AT_ONCE ")", 0, NULL, &cleaned, err) !=
            0)
            return -1;
    return 0;
}

/* All of it, whatever of it fails; the error is the first one's. */
static int keep_all(struct retention *r, struct rp_db *db, int64_t now_ms, bool *held,
                    struct rp_error *err)
{
    struct rp_error one;
    bool seen;
    if (has_seen_yesterday(db, &seen, err) != 0)
        return -1;
    if (!seen) {
        *held = true;
        return 0;
    }
    int failed = drop_days(r, db, now_ms, held, err);
    if (rp_db_alive(db))
        keep_first(retention_delete_types(r, db, now_ms, &one), &one, &failed, err);
    if (rp_db_alive(db))
        keep_first(retention_delete_jobs(r, db, &one), &one, &failed, err);
    if (rp_db_alive(db))
        keep_first(clean_groups(r, db, &one), &one, &failed, err);
    return failed;
}

static int run(struct retention *r, struct rp_db *db, int64_t now_ms, struct rp_error *err)
{
    int64_t locked;
    bool held = false;
    if (check_clock(db, now_ms, err) != 0 || add_days_ahead(db, now_ms, err) != 0 ||
        query_int(db, lock, 0, NULL, &locked, err) != 0)
        return -1;
    r->next_ms = now_ms + AGAIN_MS;
    if (locked != 1)
        return 0;
    int failed = keep_all(r, db, now_ms, &held, err);
    /* After a failure it goes with the connection, at the latest. */
    struct rp_error unlock_err;
    if (rp_db_alive(db) && query_int(db, unlock, 0, NULL, &locked, &unlock_err) != 0 && failed == 0)
        failed = rp_fail_as(err, &unlock_err);
    if (failed == 0 && !atomic_load(r->stop))
        r->next_ms = day_scheduled(now_ms, r->config->retention.schedule_minute) + DAY_MS;
    if (held && r->next_ms > now_ms + HELD_AGAIN_MS)
        r->next_ms = now_ms + HELD_AGAIN_MS;
    return failed;
}

int retention_serve(struct retention *r, struct rp_db *db, int64_t now_ms, struct rp_error *err)
{
    /* What is more than a day ahead was said by a clock that was. */
    if (now_ms < r->next_ms && r->next_ms <= now_ms + DAY_MS)
        return 0;
    if (run(r, db, now_ms, err) == 0)
        return 0;
    r->next_ms = now_ms + AGAIN_MS;
    rp_series_add(r->metrics->retention_failures, 1);
    return rp_fail_in(err, "retention");
}
