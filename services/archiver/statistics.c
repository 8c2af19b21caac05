/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "crash_point.h"
#include "log.h"

/* How old the gauges may be. */
#define GAUGES_MS INT64_C(15000)
#define AGAIN_MS  INT64_C(60000)
#define FOLD_MS   INT64_C(10000)
/* At a time; an archive of 30 days has 720. */
#define FOLD_HOURS "100"
/* More than the backlog has series. */
#define MOST_ROWS "1000"

/* In one statement they might take longer than it may, and would then be as many the next time. */
static int fold(struct rp_db *db, struct rp_error *err)
{
    int64_t end_mono_ms = rp_mono_ms() + FOLD_MS;
    bool more = true;
    while (more && rp_mono_ms() < end_mono_ms) {
        PGresult *result;
        if (rp_db_query(db, "SELECT dead_letter_fold(" FOLD_HOURS ")", 0, NULL, &result, err) != 0)
            return -1;
        more = strcmp(PQgetvalue(result, 0, 0), FOLD_HOURS) == 0;
        PQclear(result);
    }
    return 0;
}

/* Retention looks at statistics to see whether the clock can be right, and so does not wait for
 * them for good where there is too much to count. */
static int skip(struct rp_db *db, const char *every, struct rp_error *err)
{
    static const char sql[] = "SELECT dead_letter_skip_snapshot($1::float8 * interval '1 ms')";
    const char *values[] = {every};
    PGresult *result;
    if (rp_db_query(db, sql, 1, values, &result, err) != 0)
        return -1;
    PQclear(result);
    return 0;
}

/* Whoever comes first in an interval writes it down; the others find it done. */
static int take(struct statistics *s, struct rp_db *db, struct rp_error *err)
{
    static const char sql[] = "SELECT dead_letter_snapshot($1::float8 * interval '1 ms',"
                              " $2::float8 * interval '1 ms')::int";
    char every[32], keep[32];
    PGresult *result;
    (void)snprintf(every, sizeof every, "%" PRId64, s->config->statistics_ms);
    (void)snprintf(keep, sizeof keep, "%" PRId64, s->config->retention.statistics_ms);
    const char *values[] = {every, keep};
    if (rp_db_query(db, sql, 2, values, &result, err) != 0) {
        struct rp_error second;
        if (rp_db_alive(db))
            (void)skip(db, every, &second);
        return -1;
    }
    bool taken = PQgetvalue(result, 0, 0)[0] == '1';
    PQclear(result);
    RP_CRASH_POINT(statistics_taken);
    if (taken)
        rp_log(RP_LOG_DEBUG, "statistics-taken");
    return fold(db, err);
}

/* Rows that share a series (beyond a family's bound all are "other") are added up in it. */
struct gauges {
    struct rp_series *series[METRICS_BACKLOG_SERIES + 8];
    double values[METRICS_BACKLOG_SERIES + 8];
    size_t n;
};

static void add(struct gauges *g, struct rp_series *series, double value)
{
    size_t i = 0;
    while (i < g->n && g->series[i] != series)
        i++;
    if (i == sizeof g->series / sizeof *g->series)
        return;
    if (i == g->n) {
        g->series[g->n++] = series;
        g->values[i] = 0;
    }
    g->values[i] += value;
}

/* Of the counts. */
enum { TYPE, REASON, CATEGORY, STATUS, N, FIRST_HOUR };

static struct rp_bytes column(const PGresult *rows, int i, int n)
{
    return (struct rp_bytes){PQgetvalue(rows, i, n), (size_t)PQgetlength(rows, i, n)};
}

/* What is gone since the last time is at 0. */
static void set_gauges(struct metrics_archiver *m, const PGresult *rows)
{
    struct gauges g = {0};
    for (size_t i = 0; i < m->n_backlog; i++)
        add(&g, m->backlog_seen[i], 0);
    for (size_t i = 0; i < METRICS_STATUSES; i++)
        add(&g, m->dead_letters[i], 0);
    for (int i = 0; i < PQntuples(rows); i++) {
        double n = strtod(PQgetvalue(rows, i, N), NULL);
        const struct rp_bytes labels[] = {column(rows, i, TYPE), column(rows, i, REASON),
                                          column(rows, i, CATEGORY)};
        struct rp_bytes status = column(rows, i, STATUS);
        add(&g, metrics_archiver_status(m, status), n);
        if (rp_bytes_equal(status, rp_str("dead")))
            add(&g, metrics_archiver_backlog(m, labels), n);
    }
    for (size_t i = 0; i < g.n; i++)
        rp_series_set(g.series[i], g.values[i]);
}

/* The first hour with a dead letter of status `dead`, in seconds; "" where there is none. */
static const char *first_hour(const PGresult *rows)
{
    const char *first = "";
    for (int i = 0; i < PQntuples(rows); i++) {
        const char *hour = PQgetvalue(rows, i, FIRST_HOUR); /* "" where it is null */
        if (*hour != '\0' && (*first == '\0' || strtoll(hour, NULL, 10) < strtoll(first, NULL, 10)))
            first = hour;
    }
    return first;
}

static int set_oldest(struct statistics *s, struct rp_db *db, const char *hour,
                      struct rp_error *err)
{
    static const char sql[] =
        "SELECT extract(epoch FROM now() - d.dead_at) FROM archive AS d WHERE d.status = 'dead'"
        " AND d.dead_at >= to_timestamp($1::bigint) ORDER BY d.dead_at LIMIT 1";
    const char *values[] = {hour};
    PGresult *result;
    double age = 0;
    if (*hour != '\0') {
        if (rp_db_query(db, sql, 1, values, &result, err) != 0)
            return -1;
        if (PQntuples(result) > 0)
            age = strtod(PQgetvalue(result, 0, 0), NULL);
        PQclear(result);
    }
    rp_series_set(s->metrics->oldest_dead, age > 0 ? age : 0);
    return 0;
}

void statistics_forget(struct statistics *s)
{
    for (size_t i = 0; i < s->metrics->n_backlog; i++)
        rp_series_set(s->metrics->backlog_seen[i], 0);
}

/* The largest come first, so that they have a series each when not all can. Types come from
 * outside: what they are beyond so many rows is added up. */
static int set_all(struct statistics *s, struct rp_db *db, struct rp_error *err)
{
    static const char sql[] =
        "WITH c AS ("
        "  SELECT hour, task_type, reason, category, status, sum(n) AS n"
        "   FROM dead_letter_count GROUP BY 1, 2, 3, 4, 5),"
        " s AS ("
        "  SELECT coalesce(task_type, '') AS task_type, reason, coalesce(category, '') AS category,"
        "   status, sum(n) AS n,"
        "   (extract(epoch FROM min(hour) FILTER (WHERE status = 'dead' AND n > 0)))::bigint AS "
        "first"
        "   FROM c GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0),"
        " l AS (SELECT *, row_number() OVER (ORDER BY n DESC) > " MOST_ROWS " AS less FROM s)"
        " SELECT CASE WHEN less THEN 'other' ELSE task_type END,"
        "  CASE WHEN less THEN 'other' ELSE reason END,"
        "  CASE WHEN less THEN 'other' ELSE category END, status, sum(n) AS n, min(first)"
        " FROM l GROUP BY less, 1, 2, 3, 4 ORDER BY less, n DESC";
    PGresult *rows;
    if (rp_db_query(db, sql, 0, NULL, &rows, err) != 0)
        return -1;
    set_gauges(s->metrics, rows);
    int failed = set_oldest(s, db, first_hour(rows), err);
    PQclear(rows);
    return failed;
}

int statistics_serve(struct statistics *s, struct rp_db *db, int64_t now_ms, struct rp_error *err)
{
    int64_t this = now_ms / s->config->statistics_ms, mono_ms = rp_mono_ms();
    int failed = 0;
    if (this != s->taken && mono_ms >= s->again_mono_ms) {
        failed = take(s, db, err);
        if (failed != 0 && !rp_db_alive(db))
            return -1;
        if (failed == 0)
            s->taken = this;
        else
            s->again_mono_ms = mono_ms + AGAIN_MS; /* what takes too long does so again */
        s->gauge_mono_ms = 0;
    }
    if (mono_ms < s->gauge_mono_ms)
        return failed;
    struct rp_error second;
    s->gauge_mono_ms = mono_ms + AGAIN_MS;
    if (set_all(s, db, failed == 0 ? err : &second) != 0)
        return -1;
    s->gauge_mono_ms =
        mono_ms + (s->config->statistics_ms < GAUGES_MS ? s->config->statistics_ms : GAUGES_MS);
    return failed;
}
