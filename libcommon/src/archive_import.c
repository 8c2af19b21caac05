/* SPDX-License-Identifier: Apache-2.0 */
#include "archive_import.h"

#include <stdlib.h>
#include <string.h>

#include "archive_json.h"
#include "audit.h"
#include "crash_point.h"
#include "query.h"
#include "units.h"

/* A batch has so many lines at most, empty ones as well, and ends with the one that makes it this
 * large. */
#define BATCH       500
#define BATCH_BYTES ((size_t)4 << 20)

/* How often an import waits for archivers, 2 s each time. */
#define TRIES 15

struct run {
    struct rp_db *db;
    const struct rp_import *p;
    struct rp_import_progress *progress;
    int64_t audit;
    int64_t settled;    /* no id up to this one is of a letter that is not committed yet */
    struct rp_buf text; /* the batch's lines, each terminated */
    size_t begins[BATCH];
    int64_t numbers[BATCH];
    int n;
};

static bool go_on(const struct run *r)
{
    return r->p->go_on(r->p->opaque, r->progress);
}

static const char *line(const struct run *r, int i)
{
    return (const char *)r->text.data + r->begins[i];
}

/* Makes sure of the days, in the transaction of the lines: what is refused leaves no day. Who lists
 * dead letters goes on by their times, of which ISO 8601 has those of these years. */
static const char prepare_days[] =
    "SELECT dead_letter_add_day(day) FROM (SELECT DISTINCT"
    " ((line::jsonb->>'dead_at')::timestamptz AT TIME ZONE 'UTC')::date AS day"
    " FROM unnest($1::text[]) AS l (line)) AS days"
    " WHERE day BETWEEN '0001-01-01' AND '9999-12-31'"
    " AND day NOT IN (SELECT d.day FROM dead_letter_day AS d)";

static const char find_most[] = "SELECT max((line::jsonb->>'id')::bigint)"
                                " FROM unnest($1::text[]) AS l (line)"
                                " WHERE (line::jsonb->>'id')::bigint <= 9000000000000000";

/* The archiver gives out no id that comes with the lines, from here on. The sequence goes on while
 * this looks at it, but never by so much. */
static const char prepare_ids[] =
    "SELECT last_value, CASE WHEN most > last_value + 10000 THEN setval('dead_letter_id_seq', most)"
    " WHEN most >= last_value + is_called::integer THEN (SELECT max(nextval('dead_letter_id_seq'))"
    "  FROM generate_series(last_value, most)) END"
    " FROM dead_letter_id_seq, (SELECT $1::bigint AS most) AS ids";

/* Who archives has this table locked until its letters, and their ids, can be seen. Who comes to
 * archive meanwhile waits behind us, and goes first when our time is over. */
static const char wait_for_archivers[] = "BEGIN; SET LOCAL lock_timeout = '2s';"
                                         " LOCK TABLE ONLY dead_letter IN SHARE MODE; COMMIT";

/* One import at a time looks which ids are taken: two would give one of them to two letters. */
static const char begin_alone[] =
    "BEGIN; SELECT pg_advisory_xact_lock(hashtext('reprise: import'))";

static int let_archivers_commit(struct run *r, struct rp_error *err)
{
    for (int tries = 1; rp_db_script(r->db, wait_for_archivers, err) != 0; tries++)
        if (!rp_db_undo(r->db) || tries == TRIES || !go_on(r))
            return -1;
    return 0;
}

static int ask_number(struct run *r, const char *sql, const char *value, int64_t *out,
                      struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(r->db, sql, 1, &value, &result, err) != 0)
        return -1;
    *out = strtoll(PQgetvalue(result, 0, 0), NULL, 10); /* null: 0 */
    PQclear(result);
    return 0;
}

/* Sees to it that which of the lines' ids are taken can be seen. */
static int settle_ids(struct run *r, const char *array, struct rp_error *err)
{
    int64_t most, last; /* that was given out */
    char text[RP_UNIT_TEXT];
    if (ask_number(r, find_most, array, &most, err) != 0)
        return -1;
    if (most <= r->settled)
        return 0;
    /* Another import may set the sequence, too: one at a time, and none with a look that is old. */
    if (rp_db_script(r->db, begin_alone, err) != 0 ||
        ask_number(r, prepare_ids, rp_format_int(most, text), &last, err) != 0 ||
        rp_db_script(r->db, "COMMIT", err) != 0)
        return -1;
    if (let_archivers_commit(r, err) != 0)
        return -1;
    r->settled = most > last ? most : last;
    return 0;
}

static int insert(struct run *r, const char *array, struct rp_error *err)
{
    const char *values[] = {array};
    PGresult *result;
    if (settle_ids(r, array, err) != 0 || rp_db_script(r->db, begin_alone, err) != 0 ||
        rp_db_query(r->db, prepare_days, 1, values, NULL, err) != 0 ||
        rp_db_script(r->db, "SELECT dead_letter_keep()", err) != 0 ||
        rp_db_query(r->db, rp_archive_json_insert, 1, values, &result, err) != 0)
        return -1;
    int64_t n = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    int64_t added = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
    int64_t renumbered = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
    PQclear(result);
    RP_CRASH_POINT(import_added);
    if ((added > 0 && rp_audit_add(r->db, r->audit, added, err) != 0) ||
        rp_db_script(r->db, "COMMIT", err) != 0)
        return -1;
    r->progress->added += added;
    r->progress->known += n - added;
    r->progress->renumbered += renumbered;
    RP_CRASH_POINT(import_committed);
    return 0;
}

/* A deadlock, or somebody who holds a lock for long, passes. */
static int insert_patiently(struct run *r, const char *array, struct rp_error *err)
{
    for (int tries = 1; insert(r, array, err) != 0; tries++)
        if (!rp_db_undo(r->db) || tries == TRIES || !go_on(r))
            return -1;
    return 0;
}

/* The lines from `from` on, `n` of them, in one transaction; what fails leaves nothing. */
static int insert_lines(struct run *r, int from, int n, struct rp_error *err)
{
    struct rp_buf array = {0};
    int failed = 0;
    for (int i = from; failed == 0 && i < from + n; i++)
        failed = rp_query_append_element(&array, rp_str(line(r, i)), err);
    if (failed == 0)
        failed = rp_buf_append(&array, "}", 2, err); /* with its terminator */
    if (failed == 0)
        failed = insert_patiently(r, (const char *)array.data, err);
    rp_buf_clear(&array);
    if (failed != 0 && !rp_db_alive(r->db))
        err->cls = RP_RETRIABLE; /* the connection is gone now */
    return failed;
}

static void tell(struct run *r, int64_t number, const char *why)
{
    r->progress->bad++;
    r->p->bad(r->p->opaque, number, why);
}

/* Without the time there is no day for it. */
static bool is_timeless(struct run *r, int i)
{
    const char *values[] = {line(r, i)};
    PGresult *result;
    if (rp_db_query(r->db, "SELECT $1::jsonb->>'dead_at' IS NULL", 1, values, &result, NULL) != 0)
        return false;
    bool timeless = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    return timeless;
}

/* What the database refuses as a whole is halved until it is one line. */
static int insert_or_tell(struct run *r, int from, int n, struct rp_error *err)
{
    if (n == 0 || insert_lines(r, from, n, err) == 0)
        return 0;
    if (err->cls != RP_POISON || !rp_db_alive(r->db))
        return -1;
    if (n == 1) {
        bool timeless = strstr(err->text, "(23514)") != NULL && is_timeless(r, from);
        tell(r, r->numbers[from], timeless ? "it has no dead_at: no dead letter" : err->text);
        return 0;
    }
    return insert_or_tell(r, from, n / 2, err) != 0
               ? -1
               : insert_or_tell(r, from + n / 2, n - n / 2, err);
}

static int keep(struct run *r, struct rp_bytes text, struct rp_error *err)
{
    if (memchr(text.data, '\0', text.len) != NULL) {
        tell(r, r->progress->lines, "it has a NUL in it");
        return 0;
    }
    r->begins[r->n] = r->text.len;
    r->numbers[r->n] = r->progress->lines;
    if (rp_buf_append(&r->text, text.data, text.len, err) != 0 ||
        rp_buf_append(&r->text, "", 1, err) != 0)
        return -1;
    r->n++;
    return 0;
}

static int read_batch(struct run *r, struct rp_lines *lines, bool *more, struct rp_error *err)
{
    struct rp_bytes text;
    r->text.len = 0;
    r->n = 0;
    for (int i = 0; i < BATCH && r->text.len < BATCH_BYTES; i++) {
        if (rp_lines_next(lines, &text, more, err) != 0)
            return -1;
        if (!*more)
            return 0;
        r->progress->lines++;
        if (text.data == NULL)
            tell(r, r->progress->lines, "it is longer than 256 MiB");
        else if (text.len > 0 && keep(r, text, err) != 0)
            return -1;
    }
    return 0;
}

/* What was read before the file turned out to be damaged goes in as well. */
static int import(struct run *r, struct rp_lines *lines, struct rp_error *err)
{
    bool more = true;
    while (more && go_on(r)) {
        struct rp_error damage;
        int failed = read_batch(r, lines, &more, &damage);
        if (insert_or_tell(r, 0, r->n, err) != 0)
            return -1;
        if (failed != 0 && go_on(r))
            return rp_fail_as(err, &damage);
    }
    return more ? 0 : rp_audit_finish(r->db, r->audit, err);
}

int rp_import_run(struct rp_db *db, struct rp_lines *lines, const struct rp_import *p,
                  struct rp_import_progress *out, struct rp_error *err)
{
    const struct rp_audit audit = {
        .action = "import", .actor = p->actor, .reason = p->reason, .file = p->file};
    struct run *r = calloc(1, sizeof *r);
    *out = (struct rp_import_progress){0};
    if (r == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for an import");
    *r = (struct run){.db = db, .p = p, .progress = out};
    int failed = rp_audit_begin(db, &audit, &r->audit, err);
    if (failed == 0)
        failed = import(r, lines, err);
    if (failed != 0 && r->audit != 0)
        rp_audit_fail(db, r->audit, err->text);
    rp_buf_clear(&r->text);
    free(r);
    return failed;
}
