/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "archive_json.h"
#include "clock.h"
#include "crash_point.h"

/* Two plans, or a plan and an archiver, may meet in a deadlock; one is let go and tries again. */
#define TRIES 5

/* Of the dead letter that the row `w` names by its key. */
#define LOOKED_UP_SIZE                                                                             \
    "(SELECT " RP_ARCHIVE_SIZE " FROM dead_letter AS d WHERE d.dead_at = w.dead_at AND d.id = "    \
    "w.id)"

static int new_id(char out[RP_REPLAY_ID_SIZE], struct rp_error *err)
{
    unsigned char random[3];
    time_t now = (time_t)(rp_wall_ms() / 1000);
    struct tm utc;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
        gmtime_r(&now, &utc) == NULL)
        return rp_fail(err, RP_E_IO, RP_FATAL, "no random bytes: %s", strerror(errno));
    unsigned day = (unsigned)(utc.tm_year % 100 * 10000 + (utc.tm_mon + 1) * 100 + utc.tm_mday);
    (void)snprintf(out, RP_REPLAY_ID_SIZE, "%06u-%02x%02x%02x", day % 1000000, random[0], random[1],
                   random[2]);
    return 0;
}

/* The rows of the view `archive` that are meant, with the condition on how often they were replayed
 * put into `replays_condition`. */
static int add_meant(struct rp_query *q, const struct rp_replay_request *r, const char *comparison,
                     struct rp_error *err)
{
    rp_query_add(q, " FROM archive AS d WHERE ");
    if (rp_filter_sql(r->filter, q, err) != 0)
        return -1;
    /* What another job has is never for us. What was replayed or discarded is, if it was asked for.
     */
    rp_query_add(q, rp_filter_names(r->filter, "status") ? " AND d.status <> 'replaying'"
                                                         : " AND d.status = 'dead'");
    rp_query_add(q, " AND d.replays::bigint + CASE WHEN d.replay_of IS NULL THEN 0 ELSE"
                    " dead_letter_generation(d.replay_of_at, d.replay_of, (");
    rp_query_param_int(q, r->options->max_replays);
    rp_query_add(q, ")::integer) END ");
    rp_query_add(q, comparison);
    rp_query_param_int(q, r->options->max_replays);
    if (r->archived_by != NULL) {
        rp_query_add(q, " AND d.archived_at <= (");
        rp_query_param(q, r->archived_by);
        rp_query_add(q, ")::timestamptz");
    }
    return 0;
}

static const char *order_sql(enum rp_replay_order order)
{
    switch (order) {
    case RP_REPLAY_NEWEST:
        return "dead_at DESC, id DESC";
    case RP_REPLAY_BY_KEY:
        return "key, dead_at, id";
    case RP_REPLAY_OLDEST:
        break;
    }
    return "dead_at, id";
}

/* PostgreSQL would sort the whole rows, payloads too. Where a few are wanted their sizes are looked
 * up, and the first ones by time may be found in order. */
static int add_picked(struct rp_query *q, const struct rp_replay_request *r, const char *columns,
                      struct rp_error *err)
{
    const char *order = order_sql(r->options->order);
    bool few = r->options->limit > 0;
    rp_query_add(q, "SELECT row_number() OVER (ORDER BY ");
    rp_query_add(q, order);
    rp_query_add(q, ") AS place, w.*");
    rp_query_add(q, few ? ", " LOOKED_UP_SIZE " AS size" : "");
    rp_query_add(q, " FROM (SELECT d.dead_at, d.id, d.task_id, d.task_type, d.reason,"
                    " d.fingerprint");
    rp_query_add(q, few ? "" : ", " RP_ARCHIVE_SIZE " AS size");
    if (r->options->order == RP_REPLAY_BY_KEY)
        rp_query_add(q, ", coalesce(d.task_key, convert_to(d.task_id, 'UTF8')) AS key");
    rp_query_add(q, columns);
    if (add_meant(q, r, "< ", err) != 0)
        return -1;
    if (few) {
        rp_query_add(q, " ORDER BY ");
        rp_query_add(q, order);
        rp_query_add(q, " LIMIT ");
        rp_query_param_int(q, r->options->limit);
    }
    rp_query_add(q, " OFFSET 0) AS w ORDER BY 1");
    return 0;
}

/* Into a table of the transaction's own. PostgreSQL is told how large it is: it would take it for a
 * handful of rows, and join it with itself row by row. */
static int pick(struct rp_db *db, const struct rp_replay_request *r, struct rp_error *err)
{
    struct rp_query q = {0};
    rp_query_add(&q, "CREATE TEMPORARY TABLE picked ON COMMIT DROP AS ");
    int failed = add_picked(
        &q, r, ", d.category, d.status, d.status_at, d.replays, d.job, d.came_back_at", err);
    if (failed == 0)
        failed = rp_query_run(&q, db, NULL, err);
    rp_query_clear(&q);
    return failed == 0 ? rp_db_script(db, "ANALYZE picked", err) : -1;
}

/* Whoever inserts or changes the state of a dead letter first has it. One who comes second waits
 * for the first one's end, and then finds another status_at than it picked, or that it came back
 * meanwhile. In the order of the keys, so that two plans do not wait for each other. */
static int claim_items(struct rp_db *db, const char *job, struct rp_error *err)
{
    const char *values[] = {job};
    return rp_db_query(db,
                       "WITH claimed AS ("
                       "INSERT INTO dead_letter_state AS s (dead_at, id, status, status_at, job,"
                       " replays, task_type, reason, category, fingerprint, came_back_at)"
                       " SELECT dead_at, id, 'replaying', coalesce(status_at, now()), $1,"
                       " replays, task_type, reason, category, fingerprint, came_back_at"
                       " FROM picked"
                       " ORDER BY dead_at, id ON CONFLICT (dead_at, id) DO UPDATE SET"
                       " status = 'replaying', status_at = now(), job = EXCLUDED.job,"
                       " came_back_at = NULL WHERE s.status <> 'replaying'"
                       "  AND s.status_at = EXCLUDED.status_at"
                       "  AND s.came_back_at IS NOT DISTINCT FROM EXCLUDED.came_back_at"
                       " RETURNING s.dead_at, s.id)"
                       " INSERT INTO replay_item (job, n, dead_at, id, task_id, size, was, was_job,"
                       " was_came_back_at) SELECT $1,"
                       " row_number() OVER (ORDER BY p.place) - 1, p.dead_at, p.id, p.task_id,"
                       " p.size, p.status, p.job, p.came_back_at FROM claimed JOIN picked AS p "
                       "USING (dead_at, id)",
                       1, values, NULL, err);
}

static int insert_job(struct rp_db *db, const struct rp_replay_request *r, const char *job,
                      struct rp_error *err)
{
    struct rp_buf filter = {0};
    char rate[40];
    (void)snprintf(rate, sizeof rate, "%.17g", r->rate);
    char *options = rp_replay_options_json(r->options);
    int failed =
        options == NULL ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a job") : 0;
    if (failed == 0 &&
        (rp_filter_text(r->filter, &filter, err) != 0 || rp_buf_append(&filter, "", 1, err) != 0))
        failed = -1;
    const char *values[] = {job,
                            r->actor,
                            r->reason,
                            (const char *)filter.data,
                            options,
                            rate,
                            r->detached ? "true" : "false"};
    if (failed == 0)
        failed = rp_db_query(db,
                             "INSERT INTO replay_job (job, created_by, reason, filter, options,"
                             " rate, detached) VALUES ($1, $2, $3, $4, $5::jsonb,"
                             " nullif($6::double precision, 0), $7::boolean)",
                             7, values, NULL, err);
    free(options);
    rp_buf_clear(&filter);
    return failed;
}

static int finish_plan(struct rp_db *db, const struct rp_replay_request *r, const char *job,
                       int64_t *out_total, struct rp_error *err)
{
    const char *values[] = {job};
    const char *edit[] = {job, r->edited};
    PGresult *result;
    if (rp_db_query(
            db,
            "UPDATE replay_job SET total = (SELECT count(*) FROM replay_item WHERE job = $1)"
            " WHERE job = $1 RETURNING total",
            1, values, &result, err) != 0)
        return -1;
    *out_total = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    if (*out_total == 0)
        return rp_db_script(db, "ROLLBACK", err);
    if (rp_query_check_shown(*out_total, r->shown, err) != 0)
        return -1;
    if (r->edited != NULL && *out_total != 1)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "an edit is of one dead letter, not of more");
    if (r->edited != NULL &&
        rp_db_query(db, "UPDATE replay_item SET edited = $2::jsonb WHERE job = $1", 2, edit, NULL,
                    err) != 0)
        return -1;
    if (rp_db_query(db,
                    "INSERT INTO audit (actor, action, reason, detail)"
                    " SELECT created_by, CASE WHEN $2::boolean THEN 'edit' ELSE 'replay' END, "
                    "reason, jsonb_build_object('job', job, 'filter',"
                    "  filter, 'options', options, 'rate', rate, 'total', total, 'detached',"
                    "  detached) FROM replay_job WHERE job = $1",
                    2, (const char *[]){job, r->edited == NULL ? "false" : "true"}, NULL, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_plan_before);
    if (rp_db_script(db, "COMMIT", err) != 0)
        return -1;
    RP_CRASH_POINT(replay_plan_after);
    return 0;
}

static int plan_once(struct rp_db *db, const struct rp_replay_request *r,
                     char job[RP_REPLAY_ID_SIZE], int64_t *out_total, struct rp_error *err)
{
    if (new_id(job, err) != 0 || rp_db_script(db, "BEGIN", err) != 0 ||
        insert_job(db, r, job, err) != 0 ||
        rp_db_script(db, "SELECT dead_letter_keep()", err) != 0 || pick(db, r, err) != 0 ||
        claim_items(db, job, err) != 0)
        return -1;
    return finish_plan(db, r, job, out_total, err);
}

/* What others do at the same time, and a job of the same name. */
static bool is_worth_another_try(const struct rp_db *db)
{
    return rp_db_contended(db) || strcmp(rp_db_sqlstate(db), "23505") == 0;
}

int rp_replay_plan(struct rp_db *db, const struct rp_replay_request *r, char job[RP_REPLAY_ID_SIZE],
                   int64_t *out_total, struct rp_error *err)
{
    for (int i = 1;; i++) {
        if (plan_once(db, r, job, out_total, err) == 0)
            return 0;
        bool again = i < TRIES && is_worth_another_try(db);
        if (!rp_db_alive(db) || rp_db_script(db, "ROLLBACK", NULL) != 0 || !again)
            return -1;
    }
}

int rp_replay_is_planned(struct rp_db *db, const char *job, int64_t *out_total,
                         struct rp_error *err)
{
    const char *values[] = {job};
    PGresult *result;
    if (rp_db_query(db, "SELECT total FROM replay_job WHERE job = $1", 1, values, &result, err) !=
        0)
        return -1;
    *out_total = PQntuples(result) == 0 ? 0 : strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

static int count_held_back(struct rp_db *db, const struct rp_replay_request *r, int64_t *out,
                           struct rp_error *err)
{
    struct rp_query q = {0};
    PGresult *result;
    rp_query_add(&q, "SELECT count(*)");
    int failed = add_meant(&q, r, ">= ", err);
    if (failed == 0)
        failed = rp_query_run(&q, db, &result, err);
    rp_query_clear(&q);
    if (failed != 0)
        return -1;
    *out = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

int rp_replay_preview(struct rp_db *db, const struct rp_replay_request *r, int64_t *held_back,
                      struct rp_error *err)
{
    struct rp_query q = {0};
    /* Whoever shows it asks brokers meanwhile, and may wait for who reads it. */
    if (rp_db_script(db, "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '30min'", err) !=
            0 ||
        count_held_back(db, r, held_back, err) != 0)
        return -1;
    rp_query_add(&q, "CREATE TEMPORARY TABLE replay_preview ON COMMIT DROP AS ");
    int failed = add_picked(&q, r,
                            ", d.target, d.status, octet_length(coalesce(d.payload, d.raw)) AS"
                            " bytes, d.reason = 'OVERSIZED' AND (SELECT l.payload IS"
                            " NULL FROM dead_letter AS l WHERE l.dead_at = d.dead_at"
                            " AND l.id = d.id) AS shrunk",
                            err);
    if (failed == 0)
        failed = rp_query_run(&q, db, NULL, err);
    rp_query_clear(&q);
    return failed;
}
