/* SPDX-License-Identifier: Apache-2.0 */
#include "discard.h"

#include <stdlib.h>

#include "audit.h"
#include "crash_point.h"

#define BATCH 1000
/* How often a batch is tried that somebody else's lock ended. */
#define TRIES 5

struct run {
    struct rp_db *db;
    const struct rp_discard *p;
    struct rp_discard_progress *progress;
    int64_t audit;
    int64_t listed, done; /* rows */
};

static int batch_size(const struct run *r)
{
    return r->p->batch > 0 ? r->p->batch : BATCH;
}

static void add_condition(struct run *r, struct rp_query *q)
{
    rp_query_add(q, r->p->undo ? "d.state_status = 'discarded'" : "d.status = 'dead'");
    rp_query_add(q, " AND ");
    if (rp_filter_sql(r->p->filter, q, NULL) != 0)
        q->failed = true;
}

/* To find them may take long, so it is done once, and while nobody is kept out. */
static int list(struct run *r, struct rp_error *err)
{
    struct rp_query q = {0};
    PGresult *result;
    if (rp_db_script(r->db,
                     "DROP TABLE IF EXISTS pg_temp.picked;"
                     "CREATE TEMP TABLE picked (n bigint PRIMARY KEY,"
                     " dead_at timestamptz NOT NULL, id bigint NOT NULL)",
                     err) != 0)
        return -1;
    rp_query_add(&q, "WITH added AS (INSERT INTO pg_temp.picked SELECT"
                     " row_number() OVER (ORDER BY d.dead_at, d.id) - 1, d.dead_at, d.id"
                     " FROM archive AS d WHERE ");
    add_condition(r, &q);
    rp_query_add(&q, " AND d.archived_at <= ");
    rp_query_param(&q, r->p->archived_until);
    rp_query_add(&q, "::timestamptz RETURNING 1) SELECT count(*) FROM added");
    int failed = rp_query_run(&q, r->db, &result, err);
    rp_query_clear(&q);
    if (failed != 0)
        return -1;
    r->listed = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return rp_db_script(r->db, "ANALYZE pg_temp.picked; " RP_QUERY_ONE_BY_ONE, err);
}

/* The next rows of the list, in the order in which all who change states go; those that do not
 * match any more stay as they are. */
static void add_next(struct run *r, struct rp_query *q)
{
    rp_query_add(q, "WITH next AS (SELECT d.dead_at, d.id, d.task_type, d.reason, d.category,"
                    " d.fingerprint FROM pg_temp.picked AS p JOIN archive AS d"
                    " ON d.dead_at = p.dead_at AND d.id = p.id WHERE p.n >= ");
    rp_query_param_int(q, r->done);
    rp_query_add(q, " AND p.n < ");
    rp_query_param_int(q, r->done + batch_size(r));
    rp_query_add(q, " AND ");
    add_condition(r, q);
}

/* Whoever changes a row meanwhile is waited for, and then decides: the last condition looks again.
 */
static void add_change(struct run *r, struct rp_query *q)
{
    const char *from = r->p->undo ? "discarded" : "dead", *to = r->p->undo ? "dead" : "discarded";
    rp_query_add(q, "), changed AS (INSERT INTO dead_letter_state AS s (dead_at, id, status,"
                    " task_type, reason, category, fingerprint) SELECT dead_at, id, ");
    rp_query_param(q, to);
    rp_query_add(q, ", task_type, reason, category, fingerprint FROM next ORDER BY dead_at, id"
                    " ON CONFLICT (dead_at, id) DO UPDATE SET status = excluded.status,"
                    " status_at = excluded.status_at WHERE s.status = ");
    rp_query_param(q, from);
    rp_query_add(q, " RETURNING 1) SELECT count(*) FROM changed");
}

static int change(struct run *r, int64_t *changed, struct rp_error *err)
{
    struct rp_query q = {0};
    PGresult *result;
    add_next(r, &q);
    add_change(r, &q);
    int failed = rp_query_run(&q, r->db, &result, err);
    rp_query_clear(&q);
    if (failed != 0)
        return -1;
    *changed = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

/* However long the list took, a batch is short: who wants to delete waits for it. */
static int batch(struct run *r, int64_t *changed, struct rp_error *err)
{
    if (rp_db_script(r->db,
                     "BEGIN; SET LOCAL lock_timeout = '30s'; SET LOCAL statement_timeout = '55s';"
                     " SELECT dead_letter_keep()",
                     err) != 0 ||
        change(r, changed, err) != 0)
        return -1;
    RP_CRASH_POINT(discard_changed);
    if ((*changed > 0 && rp_audit_add(r->db, r->audit, *changed, err) != 0) ||
        rp_db_script(r->db, "COMMIT", err) != 0)
        return -1;
    RP_CRASH_POINT(discard_committed);
    return 0;
}

static int batch_patiently(struct run *r, int64_t *changed, struct rp_error *err)
{
    for (int tries = 1; batch(r, changed, err) != 0; tries++)
        if (!rp_db_undo(r->db) || tries == TRIES)
            return -1;
    return 0;
}

static bool go_on(const struct run *r)
{
    return r->p->go_on == NULL || r->p->go_on(r->p->opaque, r->progress);
}

int rp_discard_run(struct rp_db *db, const struct rp_discard *p, struct rp_discard_progress *out,
                   struct rp_error *err)
{
    struct run r = {.db = db, .p = p, .progress = out};
    const struct rp_audit audit = {.action = p->undo ? "restore" : "discard",
                                   .actor = p->actor,
                                   .reason = p->reason,
                                   .filter = p->filter_text};
    *out = (struct rp_discard_progress){0};
    rp_db_give_up_when(db, p->given_up);
    int failed = list(&r, err);
    bool stopped = failed != 0 && rp_db_gave_up(db);
    rp_db_give_up_when(db, NULL);
    if (stopped)
        return 0;
    if (failed != 0 || rp_query_check_shown(r.listed, p->shown, err) != 0 ||
        rp_audit_begin(db, &audit, &r.audit, err) != 0)
        return -1;
    while (go_on(&r)) {
        int64_t changed;
        if (r.done >= r.listed)
            return rp_audit_finish(db, r.audit, err);
        if (batch_patiently(&r, &changed, err) != 0) {
            rp_audit_fail(db, r.audit, err->text);
            return -1;
        }
        r.done += batch_size(&r);
        out->changed += changed;
    }
    return 0;
}
