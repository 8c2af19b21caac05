/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"

#define RELEASED_AT_ONCE "5000"

/* What takes a statement back that turned out to be of somebody else's job: 1 / 0. */
#define DIVIDED_BY_ZERO "22012"

static bool was_taken_back(const struct rp_db *db)
{
    return strcmp(rp_db_sqlstate(db), DIVIDED_BY_ZERO) == 0;
}

/* Parameters of every statement: $1 job, $2 epoch, then the caller's. */
static int change(struct rp_db *db, const struct rp_replay_job *job, const char *sql, int n,
                  const char *const *more, struct rp_error *err)
{
    char epoch[RP_UNIT_TEXT];
    const char *values[6] = {job->id, rp_format_int(job->epoch, epoch)};
    PGresult *result = NULL; /* which libpq takes for one without rows */
    for (int i = 0; i < n; i++)
        values[2 + i] = more[i];
    if (rp_db_query(db, sql, 2 + n, values, &result, err) != 0 && !was_taken_back(db))
        return -1;
    bool ours = PQntuples(result) > 0 && strcmp(PQgetvalue(result, 0, 0), "0") != 0;
    PQclear(result);
    return ours ? 0 : rp_fail(err, RP_E_FENCED, RP_FATAL, "the replay %s was taken over", job->id);
}

static int64_t number(const PGresult *result, int column)
{
    return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

static void read_position(const PGresult *result, struct rp_replay_job *job)
{
    job->epoch = number(result, 0);
    job->total = number(result, 1);
    job->marked = number(result, 2);
    job->refused = number(result, 3);
    job->canary_out = PQgetvalue(result, 0, 4)[0] == 't';
}

#define POSITION "epoch, total, marked, refused, canary_at IS NOT NULL"

static void read_claim(const PGresult *result, const char *id, struct rp_replay_job *out)
{
    *out = (struct rp_replay_job){0};
    if (rp_replay_options_read(PQgetvalue(result, 0, 5), &out->options, &out->unread) != 0)
        rp_replay_options_init(&out->options);
    read_position(result, out);
    (void)snprintf(out->id, sizeof out->id, "%s", id);
    (void)snprintf(out->stamp, sizeof out->stamp, "%s", PQgetvalue(result, 0, 6));
    (void)snprintf(out->state, sizeof out->state, "%s", PQgetvalue(result, 0, 7));
    out->unsettled = PQgetvalue(result, 0, 8)[0] == 't';
}

static int explain_refusal(struct rp_db *db, const char *id, struct rp_error *err)
{
    const char *values[] = {id};
    PGresult *result;
    if (rp_db_query(db,
                    "SELECT state, runner, finished_at IS NOT NULL FROM replay_job WHERE job = $1",
                    1, values, &result, err) != 0)
        return -1;
    if (PQntuples(result) == 0)
        (void)rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "there is no replay '%s'", id);
    else if (PQgetvalue(result, 0, 2)[0] == 't')
        (void)rp_fail(err, RP_E_INVALID, RP_POISON, "the replay %s has ended: %s", id,
                      PQgetvalue(result, 0, 0));
    else
        (void)rp_fail(err, RP_E_FENCED, RP_RETRIABLE, "the replay %s is being run by %s", id,
                      PQgetvalue(result, 0, 1));
    PQclear(result);
    return -1;
}

int rp_replay_job_claim(struct rp_db *db, const char *id, const char *runner, bool settle,
                        struct rp_replay_job *out, struct rp_error *err)
{
    const char *values[] = {id, runner, settle ? "true" : "false"};
    PGresult *result;
    if (rp_db_query(
            db,
            "WITH before AS (SELECT job, heartbeat_at IS NOT NULL AS unsettled FROM replay_job"
            "  WHERE job = $1 FOR UPDATE)"
            " UPDATE replay_job AS j SET epoch = epoch + 1, runner = $2,"
            " state = CASE WHEN $3::boolean THEN state ELSE 'running' END,"
            " heartbeat_at = clock_timestamp(), started_at = coalesce(started_at, now()),"
            " outcome = CASE WHEN wish = 'cancel' OR $3::boolean THEN outcome END"
            " FROM before WHERE j.job = before.job"
            " AND finished_at IS NULL AND (heartbeat_at IS NULL OR runner = $2"
            "  OR heartbeat_at < clock_timestamp() - " RP_REPLAY_DEAD_AFTER ")"
            " AND NOT ($3::boolean AND detached AND state IN ('planned', 'running')"
            "  AND wish = 'run')"
            " RETURNING " POSITION
            ", options, (extract(epoch FROM created_at) * 1000000)::bigint, state, unsettled",
            3, values, &result, err) != 0)
        return -1;
    bool claimed = PQntuples(result) > 0;
    if (claimed)
        read_claim(result, id, out);
    PQclear(result);
    return claimed ? 0 : explain_refusal(db, id, err);
}

void rp_replay_job_clear(struct rp_replay_job *job)
{
    rp_replay_options_clear(&job->options);
}

int rp_replay_job_renew(struct rp_db *db, struct rp_replay_job *job, struct rp_error *err)
{
    char epoch[RP_UNIT_TEXT];
    const char *values[] = {job->id, rp_format_int(job->epoch, epoch)};
    PGresult *result;
    if (rp_db_query(db,
                    "UPDATE replay_job SET heartbeat_at = clock_timestamp()"
                    " WHERE job = $1 AND epoch = $2 AND finished_at IS NULL RETURNING " POSITION,
                    2, values, &result, err) != 0)
        return -1;
    bool ours = PQntuples(result) > 0;
    if (ours)
        read_position(result, job);
    PQclear(result);
    return ours ? 0 : rp_fail(err, RP_E_FENCED, RP_FATAL, "the replay %s was taken over", job->id);
}

/* The items' states by their keys, in the keys' order: the archiver, which marks what came back,
 * takes the same rows in the same order, so that neither waits for the other for ever. The other
 * conditions are written so that no index serves them: of a job's rows, or of all that are being
 * replayed, there may be a million for each item. */
#define STATES_OF_ITEMS                                                                            \
    " FROM item AS i WHERE s.dead_at = i.dead_at AND s.id = i.id AND (s.job = $1) IS TRUE"         \
    " AND (s.status = 'replaying') IS TRUE"

/* The job's row comes last, after all waiting for dead letters (another plan may hold them): while
 * it is held, the heart cannot beat. Where it is not ours by then, the division takes all back. */
static const char mark_sql[] =
    "WITH item AS MATERIALIZED ("
    " SELECT dead_at, id, was, was_job, was_came_back_at, refused FROM replay_item WHERE job = $1 "
    "AND n >= $3 AND n < $4"
    " ORDER BY dead_at, id"
    "), s AS ("
    " UPDATE dead_letter_state AS s SET status_at = now(),"
    "  status = CASE WHEN i.refused IS NULL THEN 'replayed' ELSE i.was END,"
    "  job = CASE WHEN i.refused IS NULL THEN s.job ELSE i.was_job END,"
    "  came_back_at = CASE WHEN i.refused IS NULL THEN s.came_back_at"
    "   ELSE i.was_came_back_at END,"
    "  replays = s.replays + (i.refused IS NULL)::integer" STATES_OF_ITEMS " RETURNING 1"
    "), j AS ("
    " UPDATE replay_job SET marked = $4, refused = refused + (SELECT count(refused) FROM item)"
    " WHERE job = $1 AND epoch = $2 AND marked = $3 AND (SELECT count(*) FROM s) >= 0"
    " RETURNING refused"
    ") SELECT coalesce(max(refused), 0) / count(*) FROM j";

int rp_replay_job_mark(struct rp_db *db, const struct rp_replay_job *job, int64_t until,
                       struct rp_error *err)
{
    char epoch[RP_UNIT_TEXT], from[RP_UNIT_TEXT], to[RP_UNIT_TEXT];
    const char *values[] = {job->id, rp_format_int(job->epoch, epoch),
                            rp_format_int(job->marked, from), rp_format_int(until, to)};
    return rp_db_send(db, mark_sql, 4, values, false, err);
}

int rp_replay_job_marked(struct rp_db *db, struct rp_replay_job *job, int64_t until,
                         struct rp_error *err)
{
    PGresult *result;
    if (rp_db_receive(db, &result, err) != 0)
        return was_taken_back(db) ? rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE,
                                            "somebody else has marked what replay %s sent", job->id)
                                  : -1;
    job->refused = number(result, 0);
    job->marked = until;
    PQclear(result);
    return 0;
}

int rp_replay_job_refuse(struct rp_db *db, const struct rp_replay_job *job, const char *json,
                         struct rp_error *err)
{
    /* The lock keeps a new owner from claiming the job between the look at the epoch and the end:
     * it might send what is refused here. */
    return change(db, job,
                  "WITH j AS (SELECT job FROM replay_job WHERE job = $1 AND epoch = $2 FOR UPDATE),"
                  " i AS (UPDATE replay_item AS i SET refused = r.why"
                  "  FROM j, jsonb_to_recordset($3::jsonb) AS r (n bigint, why text)"
                  "  WHERE i.job = j.job AND i.n = r.n AND i.n >="
                  "   (SELECT marked FROM replay_job WHERE job = $1))"
                  " SELECT count(*) FROM j",
                  1, &json, err);
}

int rp_replay_job_canaries_out(struct rp_db *db, struct rp_replay_job *job, struct rp_error *err)
{
    if (change(db, job,
               "UPDATE replay_job SET canary_at = coalesce(canary_at, now())"
               " WHERE job = $1 AND epoch = $2 RETURNING 1",
               0, NULL, err) != 0)
        return -1;
    job->canary_out = true;
    return 0;
}

int rp_replay_job_stop(struct rp_db *db, const struct rp_replay_job *job, const char *why,
                       struct rp_error *err)
{
    return change(db, job,
                  "UPDATE replay_job SET wish = 'cancel', outcome = $3"
                  " WHERE job = $1 AND epoch = $2 RETURNING 1",
                  1, &why, err);
}

int rp_replay_job_release(struct rp_db *db, const struct rp_replay_job *job, int64_t *from,
                          struct rp_error *err)
{
    char low[RP_UNIT_TEXT];
    const char *values[] = {rp_format_int(*from, low)};
    *from += atoll(RELEASED_AT_ONCE);
    return change(db, job,
                  "WITH item AS MATERIALIZED ("
                  " SELECT dead_at, id, was, was_job, was_came_back_at FROM replay_item"
                  "  WHERE job = $1 AND n >= $3 AND n < $3::bigint + " RELEASED_AT_ONCE
                  " ORDER BY dead_at, id"
                  "), s AS (UPDATE dead_letter_state AS s SET status = i.was, job = i.was_job,"
                  "  came_back_at = i.was_came_back_at, status_at = now()" STATES_OF_ITEMS
                  " RETURNING 1), j AS (SELECT FROM replay_job WHERE job = $1 AND epoch = $2"
                  "  AND (SELECT count(*) FROM s) >= 0 FOR UPDATE)"
                  " SELECT 1 / count(*) FROM j",
                  1, values, err);
}

int rp_replay_job_finish(struct rp_db *db, const struct rp_replay_job *job, bool done,
                         struct rp_error *err)
{
    const char *values[] = {done ? "true" : "false"};
    return change(
        db, job,
        "WITH j AS (UPDATE replay_job SET finished_at = now(), heartbeat_at = NULL,"
        "  outcome = CASE WHEN NOT $3::boolean THEN outcome END,"
        "  state = CASE WHEN $3::boolean THEN 'done' WHEN outcome IS NULL THEN 'cancelled'"
        "   ELSE 'stopped' END"
        "  WHERE job = $1 AND epoch = $2 AND finished_at IS NULL RETURNING *)"
        " INSERT INTO audit (actor, action, reason, detail)"
        " SELECT created_by, 'replay-' || state, reason, jsonb_build_object('job', job,"
        "  'runner', runner, 'total', total, 'sent', marked - refused,"
        "  'refused', refused, 'outcome', outcome) FROM j RETURNING id",
        1, values, err);
}

int rp_replay_job_rest(struct rp_db *db, const struct rp_replay_job *job, const char *state,
                       const char *why, enum rp_replay_marks marks, struct rp_error *err)
{
    static const char *const names[] = {"marked", "unmarked", "later"};
    const char *values[] = {state, why, names[marks]};
    return change(db, job,
                  "UPDATE replay_job SET state = coalesce($3, state), outcome ="
                  "  CASE WHEN wish = 'cancel' OR $3 IS NULL THEN outcome ELSE $4 END,"
                  " heartbeat_at = CASE $5 WHEN 'later' THEN heartbeat_at"
                  "  WHEN 'unmarked' THEN to_timestamp(0) END"
                  " WHERE job = $1 AND epoch = $2 AND finished_at IS NULL RETURNING 1",
                  3, values, err);
}

int rp_replay_job_state(struct rp_db *db, struct rp_replay_job *job, char out[16],
                        struct rp_error *err)
{
    char epoch[RP_UNIT_TEXT];
    const char *values[] = {job->id, rp_format_int(job->epoch, epoch)};
    PGresult *result;
    if (rp_db_query(db, "SELECT " POSITION ", state FROM replay_job WHERE job = $1 AND epoch = $2",
                    2, values, &result, err) != 0)
        return -1;
    bool ours = PQntuples(result) > 0;
    if (ours)
        read_position(result, job);
    (void)snprintf(out, 16, "%s", ours ? PQgetvalue(result, 0, 5) : "");
    PQclear(result);
    return 0;
}
