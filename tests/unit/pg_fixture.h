/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PG_FIXTURE_H
#define REPRISE_PG_FIXTURE_H

#include <libpq-fe.h>
#include <stdbool.h>

/* A PostgreSQL that is played, in place of libpq: each statement gets the answer that the test has
 * for it, or an error. Programs with it are linked with ${pg_wraps}. */

/* The answer to a statement whose text has `part` in it: rows of columns, as "1|a\n2|b"; "": no
 * row. The first one that fits is taken, and what none fits gets a row of many columns that are
 * all 1. */
struct pg_answer {
    const char *part, *columns, *rows; /* columns: "n|name" */
};
/* `answers` ends with a NULL part; NULL: there are none. Forgets all before. */
void pg_begin(const struct pg_answer *answers);

/* The n-th statement from here on fails with this SQLSTATE, and so do those behind it, `times` in
 * all; "": the connection is lost. 0: none fails. */
void pg_fail_at(int n, int times, const char *sqlstate);
/* Whether that has been. */
bool pg_failed(void);

/* How many statements that begin so there were since the last failure, and in all. */
int pg_since_failure(const char *begin);
int pg_statements(const char *begin);

#endif
