/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "migration.h"
#include "store_fixture.h"

struct rp_error err;
struct groups groups;
static struct counts counts;
static bool replayed; /* one of the rows that were added */

const char *store_fixture_dsn(void)
{
    const char *dsn = getenv("REPRISE_TEST_DSN");
    if (dsn == NULL)
        (void)fprintf(stderr, "REPRISE_TEST_DSN is not set\n");
    return dsn;
}

struct rp_db *store_fixture_db(void)
{
    struct rp_db *db = NULL;
    if (rp_db_open(store_fixture_dsn(), "store_test", 10000, &db, &err) != 0)
        fail_msg("%s", err.text);
    return db;
}

void answers(struct rp_db *db, const char *sql, const char *expected)
{
    PGresult *result = NULL;
    if (rp_db_query(db, sql, 0, NULL, &result, &err) != 0)
        fail_msg("%s: %s", sql, err.text);
    assert_int_equal(PQntuples(result), 1);
    assert_string_equal(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
}

void expect(const char *sql, const char *expected)
{
    struct rp_db *db = store_fixture_db();
    answers(db, sql, expected);
    rp_db_close(db);
}

int empty_database(void **state)
{
    (void)state;
    struct rp_db *db = store_fixture_db();
    int failed = rp_db_script(db, "DROP SCHEMA public CASCADE; CREATE SCHEMA public", &err);
    rp_db_close(db);
    return failed;
}

int migrated_database(void **state)
{
    if (empty_database(state) != 0)
        return -1;
    struct rp_db *db = store_fixture_db();
    int failed = rp_migrate(db, NULL, NULL, &err);
    rp_db_close(db);
    return failed;
}

struct store *open_store(const char *owner)
{
    struct store *s = NULL;
    if (store_new(store_fixture_dsn(), TOPIC, owner, &s, &err) != 0 ||
        store_connect(s, &err) != 0 || store_add_day(s, DAY, &err) != 0)
        fail_msg("%s", err.text);
    return s;
}

void claim(struct store *s, struct store_claim *c)
{
    if (store_claim(s, "", c, &err) != 0)
        fail_msg("%s", err.text);
}

bool straight;
int64_t written_day = DAY;

/* How many rows of binary COPY these are. */
static size_t count_rows(struct rp_bytes rows)
{
    size_t n = 0, at = 0;
    for (; at < rows.len; n++) {
        uint16_t fields;
        memcpy(&fields, rows.data + at, sizeof fields);
        at += sizeof fields;
        for (int i = be16toh(fields); i > 0; i--) {
            uint32_t size;
            memcpy(&size, rows.data + at, sizeof size);
            at += sizeof size + (be32toh(size) == UINT32_MAX ? 0 : be32toh(size));
        }
    }
    return n;
}

int write_all(struct store *s, const struct copy *rows, struct store_claim *claims, size_t n,
              int64_t *added)
{
    struct store_rows batch = {.groups = rp_buf_bytes(&groups.rows.buf),
                               .letters = rp_buf_bytes(&rows->buf),
                               .n = count_rows(rp_buf_bytes(&rows->buf)),
                               .replayed = replayed,
                               .straight = straight && !replayed,
                               .day = written_day};
    assert_int_equal(counts_rows(&counts, &batch.counts, &err), 0);
    int failed = store_write(s, &batch, claims, n, added, &err);
    groups_drop(&groups);
    counts_drop(&counts);
    replayed = false;
    return failed;
}

bool add_row(struct copy *c, const struct row_record *record, const struct rp_dead_letter *letter,
             int64_t dead_at_ms)
{
    struct row_facts facts;
    assert_int_equal(row_write(c, record, letter, dead_at_ms, &groups, &facts, &err), 0);
    const struct count_of of = {
        .task_type = letter->has_task ? letter->task.task_type : RP_NULL_BYTES,
        .category = letter->category,
        .reason = letter->reason,
        .fingerprint = facts.fingerprint,
    };
    assert_int_equal(counts_add(&counts, &of, dead_at_ms, &err), 0);
    replayed = replayed || facts.replayed;
    return facts.altered;
}

void add_rows(struct copy *c, int32_t partition, int64_t from, int64_t to)
{
    for (int64_t offset = from; offset < to; offset++) {
        struct row_record record = {.topic = rp_str(TOPIC),
                                    .partition = partition,
                                    .offset = offset,
                                    .key = rp_str("k"),
                                    .value = rp_str("v")};
        struct rp_dead_letter letter = {.reason = RP_UNDECODABLE,
                                        .raw = rp_str("\x01"),
                                        .decided_at_ms = NOON + offset,
                                        .topic = rp_str("failed-tasks")};
        assert_false(add_row(c, &record, &letter, NOON + offset));
        assert_false(replayed);
    }
}

int64_t write_rows(struct store *s, struct store_claim *c, int64_t to)
{
    struct copy rows = {0};
    int64_t added;
    add_rows(&rows, c->partition, c->next_offset, to);
    c->next_offset = to;
    if (write_all(s, &rows, c, 1, &added) != 0)
        fail_msg("%s", err.text);
    rp_buf_clear(&rows.buf);
    return added;
}
