/* SPDX-License-Identifier: Apache-2.0 */
/* libpq is played, call by call: what is said of a connection that fails anywhere, and that it is
 * not used any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"
#include "db.h"

#define CONNECTION ((PGconn *)(void *)&connection)
#define N(array)   (sizeof(array) / sizeof *(array))

static char connection; /* only its address is used */
static int ends[2];     /* a pipe that can always be read, in the server's place */

/* The answers to one call after the other, as digits; the last one stays. */
struct answers {
    const char *text;
};
static struct answers flushes, busy, consumes, copies, copy_ends, nonblocking, statuses;
static const char *results; /* c: command, t: rows, i: COPY IN, f: a failure; at its end, NULL */
static const char *sqlstate;
static int n_calls, socket_fd;

static int next(struct answers *a)
{
    int digit = a->text[0] == '-' ? -1 : a->text[0] - '0';
    if (a->text[1] != '\0')
        a->text++;
    n_calls++;
    return digit;
}

#define FAKE(type, name, args)                                                                     \
    type __wrap_##name args;                                                                       \
    type __wrap_##name args

FAKE(PGconn *, PQconnectdbParams,
     (const char *const *keywords, const char *const *values, int expand))
{
    (void)keywords;
    (void)values;
    (void)expand;
    return CONNECTION;
}

FAKE(ConnStatusType, PQstatus, (const PGconn *conn))
{
    (void)conn;
    return next(&statuses) == 1 ? CONNECTION_OK : CONNECTION_BAD;
}

FAKE(int, PQsetnonblocking, (PGconn * conn, int on))
{
    (void)conn;
    (void)on;
    return next(&nonblocking);
}

FAKE(PQnoticeReceiver, PQsetNoticeReceiver, (PGconn * conn, PQnoticeReceiver receiver, void *arg))
{
    (void)conn;
    (void)arg;
    return receiver;
}

FAKE(int, PQsendQuery, (PGconn * conn, const char *sql))
{
    (void)conn;
    (void)sql;
    n_calls++;
    return 1;
}

FAKE(int, PQsendQueryParams,
     (PGconn * conn, const char *sql, int n, const Oid *types, const char *const *values,
      const int *lengths, const int *formats, int format))
{
    (void)conn;
    (void)sql;
    (void)n;
    (void)types;
    (void)values;
    (void)lengths;
    (void)formats;
    (void)format;
    n_calls++;
    return 1;
}

FAKE(int, PQflush, (PGconn * conn))
{
    (void)conn;
    return next(&flushes);
}

FAKE(int, PQisBusy, (PGconn * conn))
{
    (void)conn;
    return next(&busy);
}

FAKE(int, PQconsumeInput, (PGconn * conn))
{
    (void)conn;
    return next(&consumes);
}

FAKE(int, PQsocket, (const PGconn *conn))
{
    (void)conn;
    return socket_fd;
}

FAKE(int, PQputCopyData, (PGconn * conn, const char *data, int n))
{
    (void)conn;
    (void)data;
    (void)n;
    return next(&copies);
}

FAKE(int, PQputCopyEnd, (PGconn * conn, const char *why))
{
    (void)conn;
    (void)why;
    return next(&copy_ends);
}

FAKE(PGresult *, PQgetResult, (PGconn * conn))
{
    (void)conn;
    char kind = results[0];
    if (kind == '\0')
        return NULL;
    results++;
    return kind == '0' ? NULL
                       : PQmakeEmptyPGresult(NULL, kind == 'c'   ? PGRES_COMMAND_OK
                                                   : kind == 't' ? PGRES_TUPLES_OK
                                                   : kind == 'i' ? PGRES_COPY_IN
                                                                 : PGRES_FATAL_ERROR);
}

FAKE(char *, PQresultErrorField, (const PGresult *result, int field))
{
    (void)result;
    return field == PG_DIAG_SQLSTATE ? (char *)(uintptr_t)sqlstate : NULL;
}

FAKE(char *, PQerrorMessage, (const PGconn *conn))
{
    static char text[] = "gone\nHINT: none";
    (void)conn;
    return text;
}

FAKE(void, PQfinish, (PGconn * conn))
{
    (void)conn;
}

static struct rp_db *db;
static struct rp_error err;

static void all_is_well(void)
{
    flushes.text = busy.text = nonblocking.text = "0";
    consumes.text = copies.text = copy_ends.text = statuses.text = "1";
    results = "";
    sqlstate = "22000";
    socket_fd = ends[0];
}

static int set_up(void **state)
{
    (void)state;
    all_is_well();
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    socket_fd = ends[0];
    return rp_db_open("", "test", 60000, &db, &err);
}

static int tear_down(void **state)
{
    (void)state;
    rp_db_close(db);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return 0;
}

static int query(void)
{
    return rp_db_query(db, "SELECT", 0, NULL, NULL, &err);
}

static int script(void)
{
    return rp_db_script(db, "SELECT", &err);
}

static int receive(void)
{
    PGresult *result = NULL;
    int rc = rp_db_receive(db, &result, &err);
    PQclear(result);
    return rc;
}

static int copy_begin(void)
{
    return rp_db_copy_begin(db, "COPY", &err);
}

static int copy_send(void)
{
    static char rows[3 << 20];
    return rp_db_copy_send(db, (struct rp_bytes){rows, sizeof rows}, &err);
}

static int copy_next(void)
{
    return rp_db_copy_next(db, &err);
}

static int copy_end(void)
{
    return rp_db_copy_end(db, NULL, &err);
}

static int (*const calls[])(void) = {query,     script,    receive, copy_begin,
                                     copy_send, copy_next, copy_end};

/* One call, and what of it goes wrong where. */
struct loss {
    int (*call)(void);
    struct answers *where;
    const char *answers, *results, *text;
};

static void a_connection_that_fails_is_lost_and_not_used_again(void **state)
{
    static const struct loss losses[] = {
        {query, &flushes, "-", "", "gone"},
        {query, &flushes, "0-", "", "gone"},
        {script, &flushes, "-", "", "gone"},
        {copy_send, &copies, "11-", "", "gone"},
        {copy_next, &copy_ends, "-", "", "gone"},
        {copy_end, &copy_ends, "-", "", "gone"},
        {copy_begin, &copies, "1", "", "it asked for no data"},
        {copy_begin, &copies, "1", "ct", "it asked for no data"},
        {copy_next, &flushes, "-", "", "gone"},
        {receive, &statuses, "0", "f", ""},
    };
    (void)state;
    for (size_t i = 0; i < N(losses); i++) {
        const struct loss *l = &losses[i];
        all_is_well();
        results = l->results;
        l->where->text = l->answers;
        assert_int_equal(l->call(), -1);
        assert_int_equal(err.cls, RP_RETRIABLE);
        assert_memory_equal(err.text, "connection to PostgreSQL lost: ", 31);
        assert_string_equal(err.text + 31, l->text); /* the first line */
        assert_false(rp_db_alive(db));
        n_calls = 0;
        for (size_t k = 0; k < N(calls); k++) {
            assert_int_equal(calls[k](), -1);
            assert_string_equal(err.text, "no connection to PostgreSQL");
        }
        rp_db_copy_cancel(db);
        assert_int_equal(n_calls, 0);
        rp_db_close(db);
        all_is_well();
        assert_int_equal(rp_db_open("", "test", 60000, &db, &err), 0);
    }
}

/* Where libpq cannot take more at once, the socket is waited for, and what comes is read. */
static void what_does_not_fit_is_sent_once_there_is_room(void **state)
{
    static const struct loss waits[] = {
        {query, &flushes, "10", "c", ""},      {script, &busy, "10", "t", ""},
        {copy_send, &copies, "10101", "", ""}, {copy_next, &copy_ends, "001", "i", ""},
        {copy_end, &copy_ends, "01", "c", ""},
    };
    (void)state;
    for (int lost = 0; lost < 3; lost++)
        for (size_t i = 0; i < N(waits); i++) {
            assert_int_equal(rp_db_set_timeout(db, lost == 2 ? -1 : 60000, &err), 0);
            results = waits[i].results;
            waits[i].where->text = waits[i].answers;
            if (lost == 1)
                consumes.text = "0"; /* while it is waited for */
            assert_int_equal(waits[i].call(), lost > 0 ? -1 : 0);
            assert_int_equal(rp_db_alive(db), lost == 0);
            if (lost == 2)
                assert_non_null(strstr(err.text, "no answer in time"));
            rp_db_close(db);
            all_is_well();
            assert_int_equal(rp_db_open("", "test", 60000, &db, &err), 0);
        }
}

static void the_first_refusal_counts_and_what_follows_is_read(void **state)
{
    static const struct {
        const char *sqlstate;
        enum rp_error_class cls;
    } of[] = {{"22023", RP_POISON}, {"23514", RP_POISON},    {"54000", RP_POISON},
              {"P0001", RP_POISON}, {"57014", RP_RETRIABLE}, {"42501", RP_RETRIABLE}};
    (void)state;
    for (size_t i = 0; i < N(of); i++) {
        int (*const some[])(void) = {query, script, receive, copy_begin, copy_next, copy_end};
        for (size_t k = 0; k < N(some); k++) {
            all_is_well();
            sqlstate = of[i].sqlstate;
            results = "cfcff";
            assert_int_equal(some[k](), -1);
            assert_int_equal(err.cls, of[i].cls);
            assert_non_null(strstr(err.text, of[i].sqlstate));
            assert_string_equal(results, "");
            assert_string_equal(rp_db_sqlstate(db), of[i].sqlstate);
            assert_true(rp_db_alive(db));
        }
    }
    assert_int_equal(rp_db_needs_mending(db, &err), -1);
    assert_int_equal(err.cls, RP_FATAL);
    assert_int_equal(rp_db_needs_mending(db, NULL), -1);
}

static void without_a_sqlstate_it_is_the_connection(void **state)
{
    (void)state;
    sqlstate = NULL;
    results = "f";
    assert_int_equal(query(), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_false(rp_db_alive(db));
}

static void a_copy_that_is_given_up_leaves_the_connection(void **state)
{
    (void)state;
    results = "i";
    assert_int_equal(copy_begin(), 0);
    results = "f";
    rp_db_copy_cancel(db);
    assert_string_equal(results, "");
    assert_true(rp_db_alive(db));
    copy_ends.text = "-";
    rp_db_copy_cancel(db);
    assert_false(rp_db_alive(db));
}

static void an_answer_is_there_or_the_connection_is_not(void **state)
{
    (void)state;
    assert_true(rp_db_answered(db));
    busy.text = "1";
    assert_false(rp_db_answered(db));
    consumes.text = "0";
    assert_true(rp_db_answered(db));
}

static void an_answer_is_waited_for_until_its_time(void **state)
{
    (void)state;
    busy.text = "10";
    assert_true(rp_db_answers_by(db, rp_mono_ms() + 10000));
    busy.text = "1";
    assert_false(rp_db_answers_by(db, 0));
}

static void a_connection_that_cannot_be_made_says_why(void **state)
{
    struct rp_db *other;
    (void)state;
    for (int i = 0; i < 4; i++) {
        all_is_well();
        if (i == 0)
            statuses.text = "0";
        else if (i == 1)
            nonblocking.text = "-";
        else
            results = i == 2 ? "f" : "c0f"; /* the first script, the second */
        assert_int_equal(rp_db_open("", "test", 60000, &other, &err), -1);
        assert_int_equal(err.cls, i < 2 ? RP_RETRIABLE : RP_POISON);
        if (i < 2)
            assert_string_equal(err.text, "cannot connect to PostgreSQL: gone");
    }
}

static void a_connection_string_that_cannot_be_read_is_not_shown(void **state)
{
    static const char *const dsns[] = {"postgresql://u:secret%of@h/d", "host=h password=secret of",
                                       "host=h password='secret"};
    struct rp_db *other;
    (void)state;
    for (size_t i = 0; i < sizeof dsns / sizeof *dsns; i++) {
        all_is_well();
        assert_int_equal(rp_db_open(dsns[i], "test", 60000, &other, &err), -1);
        assert_null(strstr(err.text, "secret"));
        assert_non_null(strstr(err.text, "postgres.dsn is no connection string"));
    }
    static const char *const good[] = {"mine", "host=h", "postgres://h/d?sslmode=require"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        all_is_well();
        assert_int_equal(rp_db_open(good[i], "test", 60000, &other, &err), 0);
        rp_db_close(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(a_connection_that_fails_is_lost_and_not_used_again),
        T(what_does_not_fit_is_sent_once_there_is_room),
        T(the_first_refusal_counts_and_what_follows_is_read),
        T(without_a_sqlstate_it_is_the_connection),
        T(a_copy_that_is_given_up_leaves_the_connection),
        T(an_answer_is_there_or_the_connection_is_not),
        T(an_answer_is_waited_for_until_its_time),
        T(a_connection_that_cannot_be_made_says_why),
        T(a_connection_string_that_cannot_be_read_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
