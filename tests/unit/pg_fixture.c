/* SPDX-License-Identifier: Apache-2.0 */
#include "pg_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define WIDE      40 /* columns of an answer that nobody gave */
#define MOST      2000
#define MOST_TEXT 200

static const struct pg_answer *answers;
static char statements[MOST][MOST_TEXT];
static int n_statements, fail_first, fail_until, last_failure;
static const char *fail_state;
static PGresult *pending;
static bool is_error, connected;
static char connection; /* only its address is used */

void pg_begin(const struct pg_answer *all)
{
    answers = all;
    n_statements = last_failure = 0;
    pg_fail_at(0, 0, "");
}

void pg_fail_at(int n, int times, const char *sqlstate)
{
    fail_first = n == 0 ? 0 : n_statements + n;
    fail_until = fail_first + times;
    fail_state = sqlstate;
}

bool pg_failed(void)
{
    return last_failure > 0;
}

static int count(int from, const char *begin)
{
    int n = 0;
    for (int i = from; i < n_statements; i++)
        n += strncmp(statements[i], begin, strlen(begin)) == 0;
    return n;
}

int pg_since_failure(const char *begin)
{
    return count(last_failure, begin);
}

int pg_statements(const char *begin)
{
    return count(0, begin);
}

static PGresult *table(const char *columns, const char *rows)
{
    PGresAttDesc head[WIDE] = {0};
    char names[1000], cells[1000], *save, *row_save, *cell_save;
    int n = 0;
    (void)snprintf(names, sizeof names, "%s", columns);
    for (char *c = strtok_r(names, "|", &save); c != NULL; c = strtok_r(NULL, "|", &save))
        head[n++].name = c;
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    assert_non_null(result);
    assert_int_equal(PQsetResultAttrs(result, n, head), 1);
    (void)snprintf(cells, sizeof cells, "%s", rows);
    int row = 0;
    for (char *r = strtok_r(cells, "\n", &row_save); r != NULL;
         r = strtok_r(NULL, "\n", &row_save)) {
        int column = 0;
        for (char *c = strtok_r(r, "|", &cell_save); c != NULL;
             c = strtok_r(NULL, "|", &cell_save)) {
            bool null = strcmp(c, "NULL") == 0;
            assert_int_equal(
                PQsetvalue(result, row, column++, null ? NULL : c, null ? -1 : (int)strlen(c)), 1);
        }
        row++;
    }
    return result;
}

static PGresult *answer(const char *sql)
{
    char columns[WIDE * 4] = "", rows[WIDE * 2 + 1] = "";
    for (const struct pg_answer *a = answers; a != NULL && a->part != NULL; a++)
        if (strstr(sql, a->part) != NULL)
            return table(a->columns, a->rows);
    for (int i = 0; i < WIDE; i++) {
        (void)snprintf(columns + strlen(columns), 5, "c%d|", i);
        (void)strcat(rows, "1|");
    }
    return table(columns, rows);
}

static int receive(const char *sql)
{
    assert_true(n_statements < MOST);
    (void)snprintf(statements[n_statements++], MOST_TEXT, "%s", sql);
    is_error = n_statements >= fail_first && n_statements < fail_until;
    if (is_error)
        last_failure = n_statements;
    if (is_error && fail_state[0] == '\0') {
        connected = false;
        return 0;
    }
    pending = is_error ? PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR) : answer(sql);
    return 1;
}

#define FAKE(type, name, args)                                                                     \
    type __wrap_##name args;                                                                       \
    type __wrap_##name args
#define CONNECTION ((PGconn *)(void *)&connection)

FAKE(PGconn *, PQconnectdbParams,
     (const char *const *keywords, const char *const *values, int expand))
{
    (void)keywords;
    (void)values;
    (void)expand;
    connected = true;
    return CONNECTION;
}

FAKE(ConnStatusType, PQstatus, (const PGconn *conn))
{
    assert_ptr_equal(conn, CONNECTION);
    return connected ? CONNECTION_OK : CONNECTION_BAD;
}

FAKE(int, PQsetnonblocking, (PGconn * conn, int on))
{
    (void)conn;
    return on == 1 ? 0 : -1;
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
    return receive(sql);
}

/* PostgreSQL 14 reads the number of an interval in 32 bits. */
static void check_intervals(const char *sql, int n, const char *const *values)
{
    for (int i = 0; i < n; i++) {
        char part[24];
        (void)snprintf(part, sizeof part, "$%d::interval", i + 1);
        if (strstr(sql, part) != NULL && strtoll(values[i], NULL, 10) > INT32_MAX)
            fail_msg("an interval of %s", values[i]);
    }
}

FAKE(int, PQsendQueryParams,
     (PGconn * conn, const char *sql, int n, const Oid *types, const char *const *values,
      const int *lengths, const int *formats, int format))
{
    (void)conn;
    (void)types;
    (void)lengths;
    (void)formats;
    (void)format;
    check_intervals(sql, n, values);
    return receive(sql);
}

FAKE(int, PQflush, (PGconn * conn))
{
    (void)conn;
    return 0;
}

FAKE(int, PQconsumeInput, (PGconn * conn))
{
    (void)conn;
    return connected;
}

FAKE(int, PQisBusy, (PGconn * conn))
{
    (void)conn;
    return 0;
}

FAKE(PGresult *, PQgetResult, (PGconn * conn))
{
    PGresult *result = pending;
    (void)conn;
    pending = NULL;
    return result;
}

FAKE(char *, PQresultErrorField, (const PGresult *result, int field))
{
    static char state[6], text[] = "played";
    (void)result;
    (void)snprintf(state, sizeof state, "%s", fail_state);
    return field == PG_DIAG_SQLSTATE ? state : text;
}

FAKE(char *, PQerrorMessage, (const PGconn *conn))
{
    static char text[] = "played\nand more";
    (void)conn;
    return text;
}

FAKE(void, PQfinish, (PGconn * conn))
{
    (void)conn;
    connected = false;
}

FAKE(char *, PQescapeLiteral, (PGconn * conn, const char *text, size_t n))
{
    (void)conn;
    char *out = malloc(n + 3);
    if (out != NULL)
        (void)snprintf(out, n + 3, "'%s'", text);
    return out;
}
