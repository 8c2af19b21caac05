/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include "counts.h"
#include "day.h"
#include "row.h"
#include "store.h"

/* A store on the PostgreSQL whose dsn is in REPRISE_TEST_DSN; what is in it is dropped. What goes
 * wrong in here fails the test. */

#define DAY   INT64_C(20778) /* 2026-11-21 */
#define NOON  (DAY * DAY_MS + DAY_MS / 2)
#define TOPIC "dead-letter"

extern struct rp_error err;
extern struct groups groups;

/* The dsn; NULL, with a word about it, where there is none. */
const char *store_fixture_dsn(void);
struct rp_db *store_fixture_db(void);

/* The first column of the first and only row; `expect` on a connection of its own. */
void answers(struct rp_db *db, const char *sql, const char *expected);
void expect(const char *sql, const char *expected);
/* How far each partition is: "NEXT/SEEN-END ...". */
#define OFFSETS                                                                                    \
    "SELECT string_agg(concat_ws('/', next_offset, seen_end), ' ' ORDER BY partition)"             \
    " FROM archive_offset"

/* For the set-up of a test. */
int empty_database(void **state);
int migrated_database(void **state);
#define FRESH(test) cmocka_unit_test_setup(test, migrated_database)

struct store *open_store(const char *owner);
void claim(struct store *s, struct store_claim *c);
/* Whether rows are tried straight into the table before they are staged. */
extern bool straight;
/* Of all rows, or STORE_DAYS. */
extern int64_t written_day;
/* Writes what was added. */
int write_all(struct store *s, const struct copy *rows, struct store_claim *claims, size_t n,
              int64_t *added);
/* Adds a row; whether it is altered. */
bool add_row(struct copy *c, const struct row_record *record, const struct rp_dead_letter *letter,
             int64_t dead_at_ms);
/* Rows `from` to `to` of a partition, as they would come from its records. */
void add_rows(struct copy *c, int32_t partition, int64_t from, int64_t to);
/* Writes the claim's next rows; how many were added. */
int64_t write_rows(struct store *s, struct store_claim *c, int64_t to);

#endif
