/* SPDX-License-Identifier: Apache-2.0 */
#include "purge.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive_export.h"
#include "archive_json.h"
#include "audit.h"
#include "crash_point.h"
#include "units.h"

#define BATCH 1000
/* How often a batch is tried that somebody else's lock ended. */
#define TRIES 5
/* Rows of an export that are held in memory at once, and about how many bytes of them, if it is not
 * a single one: it may be a hundred megabytes. */
#define EXPORT_BATCH 100
#define EXPORT_BYTES "8388608"

struct run {
    struct rp_db *db;
    const struct rp_purge *p;
    struct rp_purge_progress *progress;
    int64_t audit; /* the entry's id; 0: there is none */
};

static bool go_on(const struct run *r)
{
    return r->p->go_on == NULL || r->p->go_on(r->p->opaque, r->progress);
}

static int64_t int_of(const PGresult *result, int column)
{
    return PQntuples(result) == 0 ? 0 : strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

/* Runs and clears `q`; the first column of the first row. */
static int run_int(struct run *r, struct rp_query *q, int64_t *out, struct rp_error *err)
{
    PGresult *result;
    int failed = rp_query_run(q, r->db, &result, err);
    rp_query_clear(q);
    if (failed != 0)
        return -1;
    *out = int_of(result, 0);
    PQclear(result);
    return 0;
}

/* A query whose first parameters are those of the condition, so that its "$1" is still its own. */
static struct rp_query begin_with(const struct rp_query *where)
{
    struct rp_query q = {0};
    for (int i = 0; i < where->n; i++)
        rp_query_param(&q, where->values[i]);
    q.sql.len = 0;
    q.failed = q.failed || where->failed;
    return q;
}

static void add_condition(struct rp_query *q, const struct rp_query *where)
{
    if (!q->failed && rp_buf_append(&q->sql, where->sql.data, where->sql.len, NULL) != 0)
        q->failed = true;
}

/* What is to go is written down first: neither the export nor the deletion takes any other. */
static int list(struct run *r, struct rp_error *err)
{
    if (rp_db_script(r->db,
                     "DROP TABLE IF EXISTS pg_temp.going;"
                     "CREATE TEMP TABLE going (n bigint PRIMARY KEY, dead_at timestamptz NOT NULL,"
                     " id bigint NOT NULL, status_at timestamptz, size integer NOT NULL)",
                     err) != 0)
        return -1;
    struct rp_query q = begin_with(r->p->where);
    rp_query_add(&q,
                 "WITH added AS (INSERT INTO pg_temp.going SELECT"
                 " row_number() OVER (ORDER BY w.dead_at, w.id) - 1, w.dead_at, w.id, w.status_at,"
                 " w.size FROM (SELECT d.dead_at, d.id, d.status_at, ");
    rp_query_add(&q, r->p->export_path == NULL ? "0" : RP_ARCHIVE_SIZE);
    rp_query_add(&q, " AS size FROM archive AS d WHERE ");
    add_condition(&q, r->p->where);
    rp_query_add(&q, " AND d.status <> 'replaying'");
    if (r->p->limit > 0) {
        rp_query_add(&q, " ORDER BY d.dead_at, d.id LIMIT ");
        rp_query_param_int(&q, r->p->limit);
    }
    /* PostgreSQL would sort the whole rows, payloads too. */
    rp_query_add(&q, " OFFSET 0) AS w RETURNING 1) SELECT count(*) FROM added");
    if (run_int(r, &q, &r->progress->matched, err) != 0)
        return -1;
    return rp_db_script(r->db, "ANALYZE pg_temp.going", err);
}

static int put_rows(const struct run *r, struct rp_export *file, const PGresult *rows,
                    struct rp_error *err)
{
    if (r->p->print == NULL)
        return rp_export_rows(file, rows, err);
    for (int row = 0; row < PQntuples(rows); row++)
        r->p->print(stdout, rows, row);
    return 0;
}

/* Writes the rows of a query into the file, and leaves them in *last. */
static int export_batch(struct run *r, struct rp_export *file, struct rp_query *q, PGresult **last,
                        struct rp_error *err)
{
    PGresult *result;
    int failed = rp_query_run(q, r->db, &result, err);
    rp_query_clear(q);
    if (failed != 0)
        return -1;
    failed = put_rows(r, file, result, err);
    r->progress->exported += PQntuples(result);
    RP_CRASH_POINT(export_batch_written);
    PQclear(*last);
    *last = result;
    return failed;
}

/* Behind the last row of the batch that begins with the one numbered `from`. */
static int find_batch(struct run *r, int64_t from, int64_t *to, struct rp_error *err)
{
    struct rp_query q = {0};
    rp_query_add(&q, "SELECT max(g.n) + 1 FROM (SELECT n, sum(size) OVER (ORDER BY n) - size"
                     " AS before FROM pg_temp.going WHERE n >= ");
    rp_query_param_int(&q, from);
    rp_query_add(&q, " AND n < ");
    rp_query_param_int(&q, from + EXPORT_BATCH);
    rp_query_add(&q, ") AS g WHERE g.before < " EXPORT_BYTES);
    return run_int(r, &q, to, err);
}

static struct rp_query listed(int64_t from, int64_t to)
{
    struct rp_query q = {0};
    rp_query_add(&q, "SELECT ");
    rp_query_add(&q, rp_archive_json);
    rp_query_add(&q, " FROM pg_temp.going AS g JOIN archive AS d ON d.dead_at = g.dead_at"
                     " AND d.id = g.id WHERE g.n >= ");
    rp_query_param_int(&q, from);
    rp_query_add(&q, " AND g.n < ");
    rp_query_param_int(&q, to);
    rp_query_add(&q, " ORDER BY g.n");
    return q;
}

static struct rp_query matching_behind(const struct rp_query *where, const PGresult *last,
                                       int64_t most)
{
    struct rp_query q = begin_with(where);
    int n = PQntuples(last);
    rp_query_add(&q, "SELECT ");
    rp_query_add(&q, rp_archive_json);
    rp_query_add(&q, ", d.dead_at, d.id, d.found FROM (SELECT w.*, count(*) OVER () AS found,"
                     " sum(w.size) OVER (ORDER BY w.dead_at, w.id) - w.size AS before"
                     " FROM (SELECT d.*, " RP_ARCHIVE_SIZE " AS size FROM archive AS d WHERE ");
    add_condition(&q, where);
    if (n > 0)
        rp_query_add_page(&q, RP_QUERY_BEHIND, PQgetvalue(last, n - 1, 1),
                          PQgetvalue(last, n - 1, 2));
    rp_query_add(&q, " ORDER BY d.dead_at, d.id LIMIT ");
    rp_query_param_int(&q, most);
    rp_query_add(&q, ") AS w) AS d WHERE d.before < " EXPORT_BYTES " ORDER BY d.dead_at, d.id");
    return q;
}

/* Behind those rows there may be others: of those that were found, or that were not looked for. */
static bool are_more(const PGresult *rows)
{
    int64_t found = int_of(rows, 3);
    return found == EXPORT_BATCH || found > PQntuples(rows);
}

static int stopped(struct rp_error *err)
{
    return rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "the export was stopped");
}

static int write_listed(struct run *r, struct rp_export *file, PGresult **last,
                        struct rp_error *err)
{
    for (int64_t from = 0, to; from < r->progress->matched; from = to) {
        if (!go_on(r))
            return stopped(err);
        if (find_batch(r, from, &to, err) != 0)
            return -1;
        struct rp_query q = listed(from, to);
        if (export_batch(r, file, &q, last, err) != 0)
            return -1;
    }
    return 0;
}

static int write_matching(struct run *r, struct rp_export *file, PGresult **last,
                          struct rp_error *err)
{
    int64_t limit = r->p->limit > 0 ? r->p->limit : INT64_MAX;
    do {
        int64_t left = limit - r->progress->exported;
        struct rp_query q =
            matching_behind(r->p->where, *last, left < EXPORT_BATCH ? left : EXPORT_BATCH);
        if (!go_on(r)) {
            rp_query_clear(&q);
            return stopped(err);
        }
        if (export_batch(r, file, &q, last, err) != 0)
            return -1;
    } while (are_more(*last) && r->progress->exported < limit);
    return 0;
}

typedef int write_fn(struct run *r, struct rp_export *file, PGresult **last, struct rp_error *err);

static int export_by(struct run *r, write_fn *write, struct rp_error *err)
{
    struct rp_export *file;
    PGresult *last = NULL;
    if (rp_export_open(r->p->export_path, &file, err) != 0)
        return -1;
    int failed = write(r, file, &last, err);
    if (failed == 0 && r->progress->exported > 0)
        failed = rp_export_commit(file, err);
    RP_CRASH_POINT(export_named);
    PQclear(last);
    rp_export_free(file);
    return failed;
}

/* With the first batch, so that there is no entry where nothing was done. */
static int begin_audit(struct run *r, struct rp_error *err)
{
    const struct rp_audit audit = {.action = r->p->action,
                                   .actor = r->p->actor,
                                   .reason = r->p->reason,
                                   .filter = r->p->filter,
                                   .exported_to = r->p->export_path};
    return r->progress->done > 0 ? 0 : rp_audit_begin(r->db, &audit, &r->audit, err);
}

/* One that is being deleted is not claimed meanwhile, and one that is being claimed is waited for:
 * so what is seen here as not being replayed is not. */
static int delete_rows(struct run *r, int64_t from, int64_t to, int64_t *out, struct rp_error *err)
{
    if (rp_db_script(r->db, "BEGIN; SET LOCAL lock_timeout = '5s'; SELECT dead_letter_take()",
                     err) != 0)
        return -1;
    struct rp_query q = begin_with(r->p->where);
    rp_query_add(&q, "WITH mine AS (SELECT d.dead_at, d.id FROM pg_temp.going AS g"
                     " JOIN archive AS d ON d.dead_at = g.dead_at AND d.id = g.id WHERE g.n >= ");
    rp_query_param_int(&q, from);
    rp_query_add(&q, " AND g.n < ");
    rp_query_param_int(&q, to);
    rp_query_add(&q, " AND d.status <> 'replaying' AND ");
    if (r->p->export_path != NULL) /* else the file has what was replayed meanwhile as dead */
        rp_query_add(&q, "d.status_at IS NOT DISTINCT FROM g.status_at AND ");
    add_condition(&q, r->p->where);
    rp_query_add(&q, "), gone AS (DELETE FROM dead_letter AS d USING mine AS m"
                     " WHERE d.dead_at = m.dead_at AND d.id = m.id RETURNING 1)"
                     " SELECT count(*) FROM gone");
    if (run_int(r, &q, out, err) != 0 || begin_audit(r, err) != 0 ||
        rp_audit_add(r->db, r->audit, *out, err) != 0)
        return -1;
    RP_CRASH_POINT(purge_deleted);
    return rp_db_script(r->db, "COMMIT", err);
}

static int delete_batch(struct run *r, int64_t from, struct rp_error *err)
{
    int64_t to = from + (r->p->batch > 0 ? r->p->batch : BATCH), deleted;
    for (int tries = 1; delete_rows(r, from, to, &deleted, err) != 0; tries++)
        if (!rp_db_undo(r->db) || tries == TRIES)
            return -1;
    r->progress->deleted += deleted;
    r->progress->done = to < r->progress->matched ? to : r->progress->matched;
    RP_CRASH_POINT(purge_committed);
    return 0;
}

static int delete_listed(struct run *r, struct rp_error *err)
{
    int failed = 0;
    while (failed == 0 && r->progress->done < r->progress->matched && go_on(r))
        failed = delete_batch(r, r->progress->done, err);
    if (failed != 0 && r->progress->done > 0)
        rp_audit_fail(r->db, r->audit, err->text);
    if (failed == 0 && r->progress->done == r->progress->matched)
        failed = rp_audit_finish(r->db, r->audit, err);
    return failed;
}

/* An export of what is all still there would only be made again. Without an answer of the server
 * nobody knows, so it stays. */
static void forget_export(struct run *r)
{
    const char *path = r->p->export_path;
    if (path != NULL && r->progress->done == 0 && rp_db_alive(r->db))
        (void)unlink(path);
}

static int end(struct run *r, int failed)
{
    if (rp_db_alive(r->db)) /* else the server does, when the connection ends */
        (void)!rp_db_script(r->db, RP_QUERY_AS_PLANNED "; DROP TABLE IF EXISTS pg_temp.going",
                            NULL);
    return failed;
}

int rp_purge_run(struct rp_db *db, const struct rp_purge *p, struct rp_purge_progress *out,
                 struct rp_error *err)
{
    struct run r = {.db = db, .p = p, .progress = out};
    *out = (struct rp_purge_progress){0};
    rp_db_give_up_when(db, p->given_up);
    int failed = list(&r, err);
    bool given_up = failed != 0 && rp_db_gave_up(db);
    rp_db_give_up_when(db, NULL);
    if (given_up)
        return end(&r, 0);
    if (failed == 0)
        failed = rp_query_check_shown(out->matched, p->shown, err);
    if (failed == 0)
        failed = rp_db_script(db, RP_QUERY_ONE_BY_ONE, err);
    if (failed == 0 && out->matched > 0 && p->export_path != NULL)
        failed = export_by(&r, write_listed, err);
    if (failed == 0 && out->matched > 0) {
        failed = delete_listed(&r, err);
        forget_export(&r);
    }
    return end(&r, failed);
}

int rp_purge_export(struct rp_db *db, const struct rp_purge *p, struct rp_purge_progress *out,
                    struct rp_error *err)
{
    struct run r = {.db = db, .p = p, .progress = out};
    *out = (struct rp_purge_progress){0};
    int failed = rp_db_script(db, RP_QUERY_ONE_BY_ONE, err);
    rp_db_give_up_when(db, p->given_up);
    if (failed == 0)
        failed = export_by(&r, write_matching, err);
    if (failed != 0 && rp_db_gave_up(db))
        failed = stopped(err);
    rp_db_give_up_when(db, NULL);
    return end(&r, failed);
}
