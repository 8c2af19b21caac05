/* SPDX-License-Identifier: Apache-2.0 */
#include "db.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "crash_point.h"

/* How much longer what is under way may take once all is to stop. */
#define STOP_MS 5000
/* How often one who waits looks whether he is still to. */
#define LOOK_MS       1000
#define LOOK_OFTEN_MS 200

struct rp_db {
    PGconn *conn;
    int64_t timeout_ms;
    const atomic_bool *stop; /* may be NULL */
    bool (*given_up)(void);  /* may be NULL */
    bool alive;
    char sqlstate[6];
};

/* The first line of libpq's text: the rest is hints and positions. */
static int first_line(const char *text)
{
    return (int)strcspn(text, "\n");
}

static int lost(struct rp_db *db, const char *why, struct rp_error *err)
{
    db->alive = false;
    db->sqlstate[0] = '\0';
    return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "connection to PostgreSQL lost: %.*s",
                   first_line(why), why);
}

/* Data exceptions, broken constraints, limits of the server's own, and what a trigger raises. */
static bool refuses_data(const char *sqlstate)
{
    return strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "23", 2) == 0 ||
           strncmp(sqlstate, "54", 2) == 0 || strncmp(sqlstate, "P0", 2) == 0;
}

static int refused(struct rp_db *db, const PGresult *result, struct rp_error *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (PQstatus(db->conn) == CONNECTION_BAD || state == NULL)
        return lost(db, PQresultErrorMessage(result), err);
    (void)snprintf(db->sqlstate, sizeof db->sqlstate, "%s", state);
    return rp_fail(err, RP_E_POSTGRES, refuses_data(state) ? RP_POISON : RP_RETRIABLE,
                   "PostgreSQL: %s (%s)", text == NULL ? "unknown error" : text, state);
}

/* Where that cannot be told the server, it is told again at the next look. */
static void cancel(struct rp_db *db)
{
    char text[256];
    PGcancel *request = PQgetCancel(db->conn);
    if (request != NULL)
        (void)PQcancel(request, text, sizeof text);
    PQfreeCancel(request);
}

static int wait_for(struct rp_db *db, short events, int64_t until_mono_ms, struct rp_error *err)
{
    int64_t look_ms = db->given_up == NULL ? LOOK_MS : LOOK_OFTEN_MS;
    for (;;) {
        int64_t left = until_mono_ms - rp_mono_ms();
        if (left > STOP_MS && db->stop != NULL && atomic_load(db->stop))
            until_mono_ms -= left - STOP_MS;
        if (left <= 0)
            return lost(db, "no answer in time", err);
        if (db->given_up != NULL && db->given_up())
            cancel(db);
        struct pollfd p = {.fd = PQsocket(db->conn), .events = events};
        int n = poll(&p, 1, (int)(left < look_ms ? left : look_ms));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return lost(db, "cannot wait for the socket", err);
    }
}

/* Waits until libpq may send more. Reads meanwhile, since the server may be waiting for us to. */
static int make_room(struct rp_db *db, int64_t until_mono_ms, struct rp_error *err)
{
    if (wait_for(db, POLLIN | POLLOUT, until_mono_ms, err) != 0)
        return -1;
    return PQconsumeInput(db->conn) == 1 ? 0 : lost(db, PQerrorMessage(db->conn), err);
}

static int flush(struct rp_db *db, int64_t until_mono_ms, struct rp_error *err)
{
    int more;
    while ((more = PQflush(db->conn)) == 1)
        if (make_room(db, until_mono_ms, err) != 0)
            return -1;
    return more == 0 ? 0 : lost(db, PQerrorMessage(db->conn), err);
}

/* The next result of what is under way, NULL when it is through. */
static int next_result(struct rp_db *db, int64_t until_mono_ms, PGresult **out,
                       struct rp_error *err)
{
    *out = NULL;
    if (flush(db, until_mono_ms, err) != 0)
        return -1;
    while (PQisBusy(db->conn)) {
        if (wait_for(db, POLLIN, until_mono_ms, err) != 0)
            return -1;
        if (PQconsumeInput(db->conn) == 0)
            return lost(db, PQerrorMessage(db->conn), err);
    }
    *out = PQgetResult(db->conn);
    return 0;
}

/* Reads results to the end, so that the connection is free for the next call. The last good one
 * goes to `out`; the first error decides. */
static int collect(struct rp_db *db, int64_t until_mono_ms, PGresult **out, struct rp_error *err)
{
    PGresult *result, *last = NULL;
    int failed = 0;
    for (;;) {
        if (next_result(db, until_mono_ms, &result, failed ? NULL : err) != 0) {
            failed = -1;
            break;
        }
        if (result == NULL)
            break;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
            PQclear(last);
            last = result;
            continue;
        }
        if (failed == 0)
            failed = refused(db, result, err);
        PQclear(result);
    }
    if (failed == 0 && out != NULL) {
        *out = last;
        return 0;
    }
    PQclear(last);
    return failed;
}

static int ready(struct rp_db *db, struct rp_error *err)
{
    db->sqlstate[0] = '\0';
    return db->alive ? 0 : rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "no connection to PostgreSQL");
}

int rp_db_send(struct rp_db *db, const char *sql, int n, const char *const *values, bool binary,
               struct rp_error *err)
{
    if (ready(db, err) != 0)
        return -1;
    if (PQsendQueryParams(db->conn, sql, n, NULL, values, NULL, NULL, binary ? 1 : 0) == 0)
        return lost(db, PQerrorMessage(db->conn), err);
    return flush(db, rp_mono_ms() + db->timeout_ms, err);
}

int rp_db_receive(struct rp_db *db, PGresult **out, struct rp_error *err)
{
    return ready(db, err) == 0 ? collect(db, rp_mono_ms() + db->timeout_ms, out, err) : -1;
}

bool rp_db_answered(struct rp_db *db)
{
    return PQconsumeInput(db->conn) == 0 || PQisBusy(db->conn) == 0;
}

bool rp_db_answers_by(struct rp_db *db, int64_t until_mono_ms)
{
    bool answered;
    int64_t left;
    while (!(answered = rp_db_answered(db)) && (left = until_mono_ms - rp_mono_ms()) > 0) {
        struct pollfd p = {.fd = PQsocket(db->conn), .events = POLLIN};
        (void)poll(&p, 1, (int)left);
    }
    return answered;
}

int rp_db_query(struct rp_db *db, const char *sql, int n, const char *const *values, PGresult **out,
                struct rp_error *err)
{
    int64_t until = rp_mono_ms() + db->timeout_ms;
    if (rp_db_send(db, sql, n, values, false, err) != 0)
        return -1;
    return collect(db, until, out, err);
}

int rp_db_wall_ms(struct rp_db *db, int64_t *out, struct rp_error *err)
{
    static const char sql[] = "SELECT floor(extract(epoch FROM now()) * 1000)::bigint";
    PGresult *result;
    if (rp_db_query(db, sql, 0, NULL, &result, err) != 0)
        return -1;
    *out = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

static int send_script(struct rp_db *db, const char *sql, struct rp_error *err)
{
    if (ready(db, err) != 0)
        return -1;
    return PQsendQuery(db->conn, sql) == 1 ? 0 : lost(db, PQerrorMessage(db->conn), err);
}

int rp_db_script(struct rp_db *db, const char *sql, struct rp_error *err)
{
    int64_t until = rp_mono_ms() + db->timeout_ms;
    return send_script(db, sql, err) == 0 ? collect(db, until, NULL, err) : -1;
}

static int end_copy(struct rp_db *db, const char *give_up, int64_t until_mono_ms,
                    struct rp_error *err)
{
    int sent;
    while ((sent = PQputCopyEnd(db->conn, give_up)) == 0)
        if (make_room(db, until_mono_ms, err) != 0)
            return -1;
    return sent == 1 ? 0 : lost(db, PQerrorMessage(db->conn), err);
}

/* Up to the next COPY, past what else succeeds on the way. */
static int reach_copy(struct rp_db *db, int64_t until_mono_ms, struct rp_error *err)
{
    PGresult *result;
    int failed = 0;
    while (failed == 0) {
        if (next_result(db, until_mono_ms, &result, err) != 0)
            return -1;
        ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_COPY_IN) {
            PQclear(result);
            return 0;
        }
        if (result == NULL)
            failed = lost(db, "it asked for no data", err);
        else if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            failed = refused(db, result, err);
        PQclear(result);
    }
    if (db->alive)
        (void)collect(db, until_mono_ms, NULL, NULL);
    return -1;
}

int rp_db_copy_begin(struct rp_db *db, const char *sql, struct rp_error *err)
{
    int64_t until = rp_mono_ms() + db->timeout_ms;
    if (send_script(db, sql, err) != 0)
        return -1;
    int failed = reach_copy(db, until, err);
    RP_CRASH_POINT(copy_begun);
    return failed;
}

int rp_db_copy_send(struct rp_db *db, struct rp_bytes rows, struct rp_error *err)
{
    int64_t until = rp_mono_ms() + db->timeout_ms;
    const char *data = rows.data;
    if (ready(db, err) != 0)
        return -1;
    while (rows.len > 0) {
        int n = rows.len < 1 << 20 ? (int)rows.len : 1 << 20;
        int sent = PQputCopyData(db->conn, data, n);
        if (sent < 0)
            return lost(db, PQerrorMessage(db->conn), err);
        if (sent == 0 && make_room(db, until, err) != 0)
            return -1;
        if (sent == 1) {
            data += n;
            rows.len -= (size_t)n;
        }
    }
    return 0;
}

/* The server may be waiting for us to read, too. What fails here fails the next call. */
bool rp_db_copy_push(struct rp_db *db)
{
    return db->alive && PQconsumeInput(db->conn) == 1 && PQflush(db->conn) == 1;
}

int rp_db_copy_next(struct rp_db *db, struct rp_error *err)
{
    int64_t until = rp_mono_ms() + db->timeout_ms;
    if (ready(db, err) != 0 || end_copy(db, NULL, until, err) != 0)
        return -1;
    return reach_copy(db, until, err);
}

int rp_db_copy_end(struct rp_db *db, PGresult **out, struct rp_error *err)
{
    int64_t until = rp_mono_ms() + db->timeout_ms;
    RP_CRASH_POINT(copy_sent);
    if (ready(db, err) != 0 || end_copy(db, NULL, until, err) != 0)
        return -1;
    RP_CRASH_POINT(copy_ended);
    return collect(db, until, out, err);
}

void rp_db_copy_cancel(struct rp_db *db)
{
    struct rp_error err;
    int64_t until = rp_mono_ms() + db->timeout_ms;
    if (db->alive && end_copy(db, "given up", until, &err) == 0)
        (void)collect(db, until, NULL, &err);
}

int rp_db_set_timeout(struct rp_db *db, int64_t timeout_ms, struct rp_error *err)
{
    char sql[64];
    db->timeout_ms = timeout_ms;
    (void)snprintf(sql, sizeof sql, "SET lock_timeout = %" PRId64, timeout_ms / 2);
    return rp_db_script(db, sql, err);
}

/* What comes before `dbname` the operator's own string can overrule, what follows it not. */
static PGconn *start(const char *dsn, const char *name)
{
    const char *keywords[] = {"connect_timeout",  "keepalives_idle",  "keepalives_interval",
                              "keepalives_count", "tcp_user_timeout", "dbname",
                              "application_name", "client_encoding",  NULL};
    const char *values[] = {"5", "10", "3", "3", "15000", dsn, name, "UTF8", NULL};
    return PQconnectdbParams(keywords, values, 1);
}

/* Notices of the server ("relation exists, skipping") are no news to anybody. */
static void drop_notice(void *opaque, const PGresult *result)
{
    (void)opaque;
    (void)result;
}

/* What libpq says of a text that it cannot read quotes it, and that may be the password. What is
 * neither a URI nor has a "=" is the name of a database. */
static bool is_readable(const char *dsn)
{
    bool is_name = dsn == NULL || (strchr(dsn, '=') == NULL && strstr(dsn, "://") == NULL);
    PQconninfoOption *options = is_name ? NULL : PQconninfoParse(dsn, NULL);
    PQconninfoFree(options);
    return is_name || options != NULL;
}

int rp_db_open(const char *dsn, const char *name, int64_t timeout_ms, struct rp_db **out,
               struct rp_error *err)
{
    if (!is_readable(dsn))
        return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE,
                       "postgres.dsn is no connection string that PostgreSQL's library can read");
    struct rp_db *db = calloc(1, sizeof *db);
    if (db == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a connection");
    db->timeout_ms = timeout_ms;
    db->conn = start(dsn, name);
    const char *why = db->conn == NULL ? "no memory" : PQerrorMessage(db->conn);
    if (db->conn == NULL || PQstatus(db->conn) != CONNECTION_OK ||
        PQsetnonblocking(db->conn, 1) != 0) {
        (void)rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "cannot connect to PostgreSQL: %.*s",
                      first_line(why), why);
        rp_db_close(db);
        return -1;
    }
    db->alive = true;
    (void)PQsetNoticeReceiver(db->conn, drop_notice, NULL);
    /* Compiling a plan for all of the archive's partitions takes many seconds, and saves none. Who
     * waits for a lock reads on to see what its holder did, which only this isolation shows. One
     * who stands still in a transaction, or is gone with its machine, holds locks for a minute. */
    if (rp_db_script(db,
                     "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET jit = off;"
                     " SET default_transaction_isolation = 'read committed';"
                     " SET idle_in_transaction_session_timeout = '60s';"
                     " SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3;"
                     " SET tcp_keepalives_count = 3",
                     err) != 0 ||
        rp_db_set_timeout(db, timeout_ms, err) != 0) {
        rp_db_close(db);
        return -1;
    }
    *out = db;
    return 0;
}

void rp_db_close(struct rp_db *db)
{
    if (db == NULL)
        return;
    PQfinish(db->conn);
    free(db);
}

void rp_db_heed(struct rp_db *db, const atomic_bool *stop)
{
    db->stop = stop;
}

void rp_db_give_up_when(struct rp_db *db, bool (*given_up)(void))
{
    db->given_up = given_up;
}

bool rp_db_gave_up(const struct rp_db *db)
{
    return db->given_up != NULL && db->given_up() && strcmp(db->sqlstate, "57014") == 0;
}

bool rp_db_alive(const struct rp_db *db)
{
    return db->alive;
}

const char *rp_db_sqlstate(const struct rp_db *db)
{
    return db->sqlstate;
}

bool rp_db_contended(const struct rp_db *db)
{
    return strcmp(db->sqlstate, "40P01") == 0 || strcmp(db->sqlstate, "55P03") == 0 ||
           strcmp(db->sqlstate, "40001") == 0;
}

bool rp_db_undo(struct rp_db *db)
{
    bool contended = rp_db_contended(db); /* the next statement forgets it */
    return db->alive && rp_db_script(db, "ROLLBACK", NULL) == 0 && contended;
}

/* Features, catalogs and schemas that are not there; syntax, names and permissions; the server's
 * own faults. */
int rp_db_needs_mending(const struct rp_db *db, struct rp_error *err)
{
    static const char *const classes[] = {"0A", "3D", "3F", "42", "XX"};
    for (size_t i = 0; err != NULL && i < sizeof classes / sizeof *classes; i++)
        if (strncmp(db->sqlstate, classes[i], 2) == 0)
            err->cls = RP_FATAL;
    return -1;
}

char *rp_db_literal(struct rp_db *db, const char *text)
{
    return PQescapeLiteral(db->conn, text, strlen(text));
}
