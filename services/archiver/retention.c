/* SPDX-License-Identifier: Apache-2.0 */
#include "retention.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "day.h"
#include "log.h"

#define DAYS_AHEAD 3
/* After a failure, and while another archiver is at it. */
#define AGAIN_MS INT64_C(60000)
/* What a clock may differ from the database's: one that is wrong must not drop anything. */
#define MAX_SKEW_MS INT64_C(3600000)

static const char lock[] = "SELECT pg_try_advisory_lock(hashtext('reprise: retention'))::int";
static const char unlock[] = "SELECT pg_advisory_unlock(hashtext('reprise: retention'))::int";

/* The value of a query's only column and row; `fallback` where it is null or there is no row. */
static int query_int(struct rp_db *db, const char *sql, int n, const char *const *values,
                     int64_t fallback, int64_t *out, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(db, sql, n, values, &result, err) != 0)
        return -1;
    bool some = PQntuples(result) > 0 && !PQgetisnull(result, 0, 0);
    *out = some ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : fallback;
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
                     1, values, 0, &added, err);
}

static int check_clock(struct rp_db *db, int64_t now_ms, struct rp_error *err)
{
    int64_t theirs;
    if (query_int(db, "SELECT floor(extract(epoch FROM now()) * 1000)::bigint", 0, NULL, 0, &theirs,
                  err) != 0)
        return -1;
    if (theirs < now_ms - MAX_SKEW_MS || theirs > now_ms + MAX_SKEW_MS)
        return rp_fail(err, RP_E_RANGE, RP_RETRIABLE,
                       "this machine's clock and the database's are %" PRId64 " s apart",
                       (now_ms - theirs) / 1000);
    return 0;
}

/* Looks what has to go. The lock is taken only for something to do. */
static int begin(struct retention *r, struct rp_db *db, const char *keep_from, int64_t now_ms,
                 struct rp_error *err)
{
    const char *values[] = {keep_from};
    int64_t days, locked;
    if (add_days_ahead(db, now_ms, err) != 0 || check_clock(db, now_ms, err) != 0 ||
        query_int(db, "SELECT count(*) FROM dead_letter_day WHERE day < $1::date", 1, values, 0,
                  &days, err) != 0)
        return -1;
    rp_log(RP_LOG_INFO, "retention-run", rp_f_str("keep_from", keep_from),
           rp_f_int("days_to_drop", days));
    r->next_ms = day_scheduled(now_ms, r->minute) + DAY_MS;
    if (days == 0)
        return 0;
    if (query_int(db, lock, 0, NULL, 0, &locked, err) != 0)
        return -1;
    r->running = locked == 1;
    if (!r->running)
        r->next_ms = now_ms + AGAIN_MS;
    return 0;
}

static int finish(struct retention *r, struct rp_db *db, struct rp_error *err)
{
    int64_t unlocked;
    r->running = false;
    return query_int(db, unlock, 0, NULL, 0, &unlocked, err);
}

static int drop_oldest(struct retention *r, struct rp_db *db, const char *keep_from,
                       struct rp_error *err)
{
    PGresult *result;
    char reason[80];
    int64_t began_ms = rp_mono_ms();
    (void)snprintf(reason, sizeof reason, "retention.keep is %" PRId64 " hours",
                   r->keep_ms / 3600000);
    const char *values[] = {keep_from, reason};
    if (rp_db_query(db,
                    "SELECT day, dead_letter_drop_day(day, 'reprise-archiver', $2) FROM"
                    " (SELECT min(day) AS day FROM dead_letter_day WHERE day < $1::date) AS oldest"
                    " WHERE day IS NOT NULL",
                    2, values, &result, err) != 0)
        return -1;
    bool none = PQntuples(result) == 0;
    if (!none && !PQgetisnull(result, 0, 1)) {
        int64_t rows = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
        rp_log(RP_LOG_INFO, "day-dropped", rp_f_str("day", PQgetvalue(result, 0, 0)),
               rp_f_int("rows", rows), rp_f_int("took_ms", rp_mono_ms() - began_ms));
        rp_series_add(r->metrics->days_dropped, 1);
        rp_series_add(r->metrics->rows_dropped, (double)rows);
    }
    PQclear(result);
    return none ? finish(r, db, err) : 0;
}

int retention_serve(struct retention *r, struct rp_db *db, int64_t now_ms, struct rp_error *err)
{
    char keep_from[DAY_TEXT_SIZE];
    if (!r->running && now_ms < r->next_ms)
        return 0;
    day_text(day_keep_from(now_ms, r->minute, r->keep_ms), keep_from);
    int failed = r->running ? drop_oldest(r, db, keep_from, err)
                            : begin(r, db, keep_from, now_ms, err);
    if (failed == 0)
        return 0;
    /* The lock is kept: it goes with the connection, or with the next run's end. */
    r->running = false;
    r->next_ms = now_ms + AGAIN_MS;
    return rp_fail_in(err, "retention");
}
