/* SPDX-License-Identifier: Apache-2.0 */
#include "retention_day.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "crash_point.h"
#include "day.h"
#include "export_name.h"
#include "log.h"
#include "purge.h"

/* How long a day waits for its replays. In ms, and the same in SQL. */
#define HOLD_MS (7 * DAY_MS)
#define HOLD    "interval '7 days'"

/* Whether something of it is being replayed, and has been waited for. */
enum { IS_FREE, IS_HELD, HAS_WAITED };
/* What dead_letter_drop_day answers, when it drops nothing. */
enum { REPLAYING = -1, OTHER_ROWS = -2, NO_SUCH_DAY = -3 };

struct day {
    struct retention *r;
    struct rp_db *db;
    const char *day;
    bool even_replaying;         /* it is dropped, whatever is replayed */
    char path[EXPORT_NAME_SIZE]; /* of the export; "": none */
    int64_t exported, began_mono_ms;
};

static bool go_on(void *opaque, const struct rp_purge_progress *progress)
{
    const struct retention *r = opaque;
    (void)progress;
    return !atomic_load(r->stop);
}

/* An export of a day that was not dropped after all is not whole, or will be made again. */
static void forget_export(struct day *d)
{
    if (d->path[0] != '\0' && unlink(d->path) != 0)
        rp_log(RP_LOG_WARN, "export-left", rp_f_str("file", d->path));
}

static int export(struct day *d, struct rp_error *err)
{
    struct rp_query where = {0};
    struct rp_purge_progress progress;
    char name[64];
    (void)snprintf(name, sizeof name, "dead-letters-%s", d->day);
    if (export_name(d->r->config->retention.export_dir, name, d->path, err) != 0)
        return -1;
    rp_query_add(&where, "(d.dead_at >= ");
    rp_query_param(&where, d->day);
    rp_query_add(&where, "::timestamptz AND d.dead_at < ");
    rp_query_param(&where, d->day);
    rp_query_add(&where, "::timestamptz + interval '1 day')");
    const struct rp_purge p = {
        .where = &where, .export_path = d->path, .go_on = go_on, .opaque = d->r};
    int failed = rp_purge_export(d->db, &p, &progress, err);
    rp_query_clear(&where);
    d->exported = progress.exported;
    RP_CRASH_POINT(day_exported);
    if (failed == 0 && d->exported == 0) /* and then there is no file */
        d->path[0] = '\0';
    return failed;
}

static int query_int(const struct day *d, const char *sql, int n, const char *const *values,
                     int64_t *out, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(d->db, sql, n, values, &result, err) != 0)
        return -1;
    *out = PQgetisnull(result, 0, 0) ? NO_SUCH_DAY : strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

/* Looked at before an export is made in vain. A day that is to go since `keep` is shorter now waits
 * for what was planned before. */
static int is_held(struct day *d, int64_t latest_ms, bool *held, struct rp_error *err)
{
    static const char sql[] =
        "WITH r AS (SELECT DISTINCT job FROM dead_letter_state WHERE status = 'replaying'"
        "  AND dead_at >= $1::timestamptz AND dead_at < $1::timestamptz + interval '1 day')"
        " SELECT CASE WHEN NOT EXISTS (SELECT FROM r) THEN 0"
        " WHEN now() < to_timestamp($2::bigint / 1000) OR EXISTS (SELECT FROM r JOIN replay_job"
        "  USING (job) WHERE created_at > now() - " HOLD ") THEN 1 ELSE 2 END";
    char latest[24];
    const char *values[] = {d->day, latest};
    int64_t answer;
    (void)snprintf(latest, sizeof latest, "%" PRId64, latest_ms);
    if (query_int(d, sql, 2, values, &answer, err) != 0)
        return -1;
    *held = answer == IS_HELD;
    d->even_replaying = answer == HAS_WAITED;
    return 0;
}

/* `*out` is how many rows went, or one of the answers above. Unless there are `rows` in it, the day
 * stays; NULL: whatever there is. */
static int drop(const struct day *d, const char *rows, int64_t *out, struct rp_error *err)
{
    static const char sql[] = "SELECT dead_letter_drop_day($1::date, 'reprise-archiver', $2,"
                              " $3, $4, jsonb_strip_nulls(jsonb_build_object('export', $5::text)))";
    char reason[80];
    (void)snprintf(reason, sizeof reason, "retention.keep is %" PRId64 " hours",
                   d->r->config->retention.keep_ms / 3600000);
    const char *values[] = {d->day, reason, d->even_replaying ? "t" : "f", rows,
                            d->path[0] == '\0' ? NULL : d->path};
    return query_int(d, sql, 5, values, out, err);
}

static void tell(const struct day *d, int64_t rows)
{
    rp_log(RP_LOG_INFO, "day-dropped", rp_f_str("day", d->day), rp_f_int("rows", rows),
           rp_f_str("export", d->path), rp_f_int("took_ms", rp_mono_ms() - d->began_mono_ms));
    rp_series_add(d->r->metrics->days_dropped, 1);
    rp_series_add(d->r->metrics->rows_dropped, (double)rows);
}

/* Takes the locks of a drop and gives them back: somebody who reads for long would have all of the
 * day exported in vain, again each minute. No day has so few rows, so `*go_on` is that all else is
 * well. */
static int try_drop(const struct day *d, bool *held, bool *go_on, struct rp_error *err)
{
    int64_t answer;
    if (drop(d, "-9223372036854775808", &answer, err) != 0)
        return -1;
    *held = *held || answer == REPLAYING;
    *go_on = answer == OTHER_ROWS;
    return 0;
}

/* Puts the day's counts right, for which writers wait: so it may not take long. */
static int recount(const struct day *d, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_script(d->db,
                     "BEGIN; SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '10s'",
                     err) != 0 ||
        rp_db_query(d->db, "SELECT dead_letter_recount($1::date)", 1, &d->day, &result, err) != 0) {
        (void)rp_db_undo(d->db);
        return -1;
    }
    PQclear(result);
    return rp_db_script(d->db, "COMMIT", err);
}

/* Where nobody changed the day meanwhile, somebody did so before, behind the triggers' back: it
 * would be exported in vain again and again. */
static int refuse_other_rows(const struct day *d, struct rp_error *err)
{
    static const char sql[] = "SELECT count(*) FROM dead_letter WHERE dead_at >= $1::timestamptz"
                              " AND dead_at < $1::timestamptz + interval '1 day'";
    int64_t rows;
    if (query_int(d, sql, 1, &d->day, &rows, err) != 0)
        return -1;
    if (rows != d->exported)
        return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "the day %s changed while it was exported",
                       d->day);
    struct rp_error why;
    bool mended = recount(d, &why) == 0;
    return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE,
                   "the day %s has other rows than its counts say; to count it anew: %s", d->day,
                   mended ? "done" : why.text);
}

static int drop_exported(struct day *d, const char *expected, bool *held, struct rp_error *err)
{
    int64_t rows;
    if (drop(d, expected, &rows, err) != 0) {
        /* What the server refused did not happen. Without its answer nobody knows, so it stays. */
        if (rp_db_alive(d->db) && rp_db_sqlstate(d->db)[0] != '\0')
            forget_export(d);
        return -1;
    }
    if (rows >= 0) {
        tell(d, rows);
        return 0;
    }
    if (rows == NO_SUCH_DAY)
        return 0; /* somebody has dropped it meanwhile, and this is what is left of it */
    forget_export(d);
    if (rows == OTHER_ROWS)
        return refuse_other_rows(d, err);
    *held = *held || rows == REPLAYING;
    return 0;
}

static int export_and_drop(struct day *d, bool *held, struct rp_error *err)
{
    char expected[24];
    bool go_on;
    if (d->r->config->retention.export_dir[0] == '\0')
        return drop_exported(d, NULL, held, err);
    if (try_drop(d, held, &go_on, err) != 0)
        return -1;
    if (!go_on)
        return 0;
    if (export(d, err) != 0)
        return -1;
    (void)snprintf(expected, sizeof expected, "%" PRId64, d->exported);
    return drop_exported(d, expected, held, err);
}

int retention_drop_day(struct retention *r, struct rp_db *db, const char *day, int64_t day_ms,
                       bool *held, struct rp_error *err)
{
    struct day d = {.r = r, .db = db, .day = day, .began_mono_ms = rp_mono_ms()};
    bool this_is_held;
    int64_t latest_ms = day_ms + DAY_MS + r->config->retention.keep_ms + HOLD_MS;
    if (is_held(&d, latest_ms, &this_is_held, err) != 0)
        return -1;
    if (!this_is_held)
        return export_and_drop(&d, held, err);
    rp_log(RP_LOG_WARN, "day-held", rp_f_str("day", day), rp_f_str("why", "it is being replayed"));
    *held = true;
    return 0;
}
