/* SPDX-License-Identifier: Apache-2.0 */
#include "retention_jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

#define OLD "finished_at < now() - $1::float8 * interval '1 ms'"

/* Runs a statement that says how many rows went. */
static int run(struct rp_db *db, const char *sql, const char *keep, int64_t *out,
               struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(db, sql, 1, &keep, &result, err) != 0)
        return -1;
    *out = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

/* A job may have millions of items, and is left without them only when all of them are gone. */
int retention_delete_jobs(struct retention *r, struct rp_db *db, struct rp_error *err)
{
    static const char items[] =
        "WITH gone AS (DELETE FROM replay_item WHERE (job, n) IN (SELECT i.job, i.n"
        " FROM replay_job AS j JOIN replay_item AS i ON i.job = j.job WHERE j." OLD
        " LIMIT 5000) RETURNING 1) SELECT count(*) FROM gone";
    static const char jobs[] =
        "WITH gone AS (DELETE FROM replay_job AS j WHERE j." OLD " AND NOT EXISTS"
        " (SELECT FROM replay_item AS i WHERE i.job = j.job) RETURNING 1)"
        " SELECT count(*) FROM gone";
    char keep[40];
    int64_t n = 1, deleted = 0;
    (void)snprintf(keep, sizeof keep, "%" PRId64, r->config->retention.keep_ms);
    while (n > 0 && !atomic_load(r->stop))
        if (run(db, items, keep, &n, err) != 0)
            return -1;
    if (run(db, jobs, keep, &deleted, err) != 0)
        return -1;
    if (deleted > 0)
        rp_log(RP_LOG_INFO, "replay-jobs-deleted", rp_f_int("jobs", deleted));
    return 0;
}
