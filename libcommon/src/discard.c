/* SPDX-License-Identifier: Apache-2.0 */
#include "discard.h"

#include <stdio.h>
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
    char at[64], id[32]; /* the last row that was looked at; "": none yet */
};

/* The rows behind the last one, in the order in which all who change states go. */
static void add_picked(struct run *r, struct rp_query *q)
{
    rp_query_add(q, "WITH picked AS (SELECT d.dead_at, d.id, d.task_type, d.reason, d.category,"
                    " d.fingerprint FROM archive AS d WHERE ");
    rp_query_add(q, r->p->undo ? "d.state_status = 'discarded'" : "d.status = 'dead'");
    rp_query_add(q, " AND ");
    if (rp_filter_sql(r->p->filter, q, NULL) != 0)
        q->failed = true;
    rp_query_add(q, " AND d.archived_at <= ");
    rp_query_param(q, r->p->archived_until);
    rp_query_add(q, "::timestamptz");
    if (r->at[0] != '\0')
        rp_query_add_page(q, RP_QUERY_BEHIND, r->at, r->id);
    rp_query_add(q, " ORDER BY d.dead_at, d.id LIMIT ");
    rp_query_param_int(q, r->p->batch > 0 ? r->p->batch : BATCH);
}

/* Whoever changes a row meanwhile is waited for, and then decides: the last condition looks again.
 */
static void add_change(struct run *r, struct rp_query *q)
{
    const char *from = r->p->undo ? "discarded" : "dead", *to = r->p->undo ? "dead" : "discarded";
    rp_query_add(q, "), changed AS (INSERT INTO dead_letter_state AS s (dead_at, id, status,"
                    " task_type, reason, category, fingerprint) SELECT dead_at, id, ");
    rp_query_param(q, to);
    rp_query_add(q, ", task_type, reason, category, fingerprint FROM picked ORDER BY dead_at, id"
                    " ON CONFLICT (dead_at, id) DO UPDATE SET status = excluded.status,"
                    " status_at = excluded.status_at WHERE s.status = ");
    rp_query_param(q, from);
    rp_query_add(q, " RETURNING 1) SELECT (SELECT count(*) FROM changed), dead_at, id FROM picked"
                    " ORDER BY dead_at DESC, id DESC LIMIT 1");
}

static int change(struct run *r, PGresult **out, struct rp_error *err)
{
    struct rp_query q = {0};
    add_picked(r, &q);
    add_change(r, &q);
    int failed = rp_query_run(&q, r->db, out, err);
    rp_query_clear(&q);
    return failed;
}

/* `*changed` -1: there was nothing left. */
static int batch(struct run *r, int64_t *changed, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_script(r->db, "BEGIN; SELECT dead_letter_keep()", err) != 0 ||
        change(r, &result, err) != 0)
        return -1;
    *changed = PQntuples(result) == 0 ? -1 : strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    RP_CRASH_POINT(discard_changed);
    int failed = *changed > 0 ? rp_audit_add(r->db, r->audit, *changed, err) : 0;
    if (failed == 0)
        failed = rp_db_script(r->db, "COMMIT", err);
    if (failed == 0 && *changed >= 0) {
        (void)snprintf(r->at, sizeof r->at, "%s", PQgetvalue(result, 0, 1));
        (void)snprintf(r->id, sizeof r->id, "%s", PQgetvalue(result, 0, 2));
    }
    PQclear(result);
    RP_CRASH_POINT(discard_committed);
    return failed;
}

static int batch_patiently(struct run *r, int64_t *changed, struct rp_error *err)
{
    for (int tries = 1;; tries++) {
        if (batch(r, changed, err) == 0)
            return 0;
        bool again = rp_db_contended(r->db) && tries < TRIES;
        /* What cannot be undone now is undone by the server, when the connection ends. */
        if (rp_db_alive(r->db) && rp_db_script(r->db, "ROLLBACK", NULL) != 0)
            again = false;
        if (!again)
            return -1;
    }
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
    if (rp_db_script(db, RP_QUERY_ONE_BY_ONE, err) != 0 ||
        rp_audit_begin(db, &audit, &r.audit, err) != 0)
        return -1;
    while (go_on(&r)) {
        int64_t changed;
        if (batch_patiently(&r, &changed, err) != 0) {
            rp_audit_fail(db, r.audit, err->text);
            return -1;
        }
        if (changed < 0)
            return rp_audit_finish(db, r.audit, err);
        out->changed += changed;
    }
    return 0;
}
