/* SPDX-License-Identifier: Apache-2.0 */
/* The archive on a real PostgreSQL, whose dsn is in REPRISE_TEST_DSN; what is in it is dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "day.h"
#include "migration.h"
#include "row.h"
#include "store.h"

#define DAY   INT64_C(20778) /* 2026-11-21 */
#define NOON  (DAY * DAY_MS + DAY_MS / 2)
#define TOPIC "dead-letter"

static const char *dsn;
static struct rp_error err;
static struct groups groups;

static struct rp_db *open_db(void)
{
    struct rp_db *db = NULL;
    if (rp_db_open(dsn, "store_test", 10000, &db, &err) != 0)
        fail_msg("%s", err.text);
    return db;
}

/* The first column of the first row. */
static void answers(struct rp_db *db, const char *sql, const char *expected)
{
    PGresult *result = NULL;
    if (rp_db_query(db, sql, 0, NULL, &result, &err) != 0)
        fail_msg("%s: %s", sql, err.text);
    assert_int_equal(PQntuples(result), 1);
    assert_string_equal(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
}

static void expect(const char *sql, const char *expected)
{
    struct rp_db *db = open_db();
    answers(db, sql, expected);
    rp_db_close(db);
}

static int empty_database(void **state)
{
    (void)state;
    struct rp_db *db = open_db();
    int failed = rp_db_script(db, "DROP SCHEMA public CASCADE; CREATE SCHEMA public", &err);
    rp_db_close(db);
    return failed;
}

static int migrated_database(void **state)
{
    if (empty_database(state) != 0)
        return -1;
    struct rp_db *db = open_db();
    int failed = rp_migrate(db, NULL, NULL, &err);
    rp_db_close(db);
    return failed;
}

static struct store *open_store(const char *owner)
{
    struct store *s = NULL;
    if (store_new(dsn, TOPIC, owner, &s, &err) != 0 || store_connect(s, &err) != 0 ||
        store_add_day(s, DAY, &err) != 0)
        fail_msg("%s", err.text);
    return s;
}

static void claim(struct store *s, struct store_claim *c)
{
    if (store_claim(s, "", c, &err) != 0)
        fail_msg("%s", err.text);
}

static int write_all(struct store *s, const struct copy *rows, struct store_claim *claims, size_t n,
                     int64_t *added)
{
    struct store_rows batch = {rp_buf_bytes(&groups.rows.buf), rp_buf_bytes(&rows->buf), false};
    int failed = store_write(s, &batch, claims, n, added, &err);
    groups_drop(&groups);
    return failed;
}

/* Rows `from` to `to` of a partition, as they would come from its records. */
static void add_rows(struct copy *c, int32_t partition, int64_t from, int64_t to)
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
        struct row_facts facts;
        assert_int_equal(row_write(c, &record, &letter, NOON + offset, &groups, &facts, &err), 0);
        assert_false(facts.altered || facts.replayed);
    }
}

static int64_t write_rows(struct store *s, struct store_claim *c, int64_t to)
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

static void an_empty_database_is_refused_with_what_to_do(void **state)
{
    (void)state;
    struct store *s = NULL;
    assert_int_equal(store_new(dsn, TOPIC, "a", &s, &err), 0);
    assert_int_equal(store_connect(s, &err), -1);
    assert_int_equal(err.code, RP_E_SCHEMA);
    assert_non_null(strstr(err.text, "reprise db migrate"));
    assert_false(store_connected(s));
    store_free(s);
}

static void a_second_migration_finds_nothing_to_do(void **state)
{
    (void)state;
    struct rp_db *db = open_db();
    int version = 0;
    assert_int_equal(rp_migrate(db, NULL, NULL, &err), 0);
    assert_int_equal(rp_migration_version(db, &version, &err), 0);
    assert_int_equal(version, rp_n_migrations);
    rp_db_close(db);
}

static void rows_and_offset_are_committed_together(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 3};
    claim(s, &c);
    assert_int_equal(c.epoch, 1);
    assert_int_equal(c.next_offset, 0);
    assert_int_equal(write_rows(s, &c, 10), 10);
    assert_int_equal(write_rows(s, &c, 15), 5);
    store_free(s);
    expect("SELECT count(*), max(record_offset) FROM dead_letter", "15");
    expect("SELECT next_offset FROM archive_offset WHERE partition = 3", "15");
}

static void a_new_owner_goes_on_where_the_last_one_stopped(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a = {.partition = 0}, of_b = {.partition = 0};
    claim(a, &of_a);
    (void)write_rows(a, &of_a, 10);
    claim(b, &of_b);
    assert_int_equal(of_b.next_offset, 10);
    assert_int_equal(of_b.epoch, 2);
    store_free(a);
    store_free(b);
}

static void a_zombie_writes_nothing(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a = {.partition = 0}, of_b = {.partition = 0};
    claim(a, &of_a);
    claim(b, &of_b);
    assert_int_equal(write_rows(a, &of_a, 10), 0);
    assert_int_equal(of_a.epoch, 0);
    assert_int_equal(write_rows(b, &of_b, 4), 4);
    store_free(a);
    store_free(b);
    expect("SELECT count(*) FROM dead_letter", "4");
}

/* Lets go of the lock once both the lost transaction and the new claim wait. */
static void *release_when_two_wait(void *opaque)
{
    struct rp_db *holder = opaque;
    static const char waiting[] = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    PGresult *result = NULL;
    bool both = false;
    struct rp_error error;
    while (!both && rp_db_query(holder, waiting, 0, NULL, &result, &error) == 0) {
        both = strcmp(PQgetvalue(result, 0, 0), "2") == 0;
        PQclear(result);
    }
    return rp_db_script(holder, "COMMIT", &error) == 0 && both ? opaque : NULL;
}

/* The connection is lost while the server is still at it, and may yet commit. */
static void a_transaction_of_unknown_outcome_is_waited_for_and_counted_once(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct rp_db *holder = open_db();
    struct copy rows = {0};
    pthread_t releaser;
    void *released = NULL;
    int64_t added;
    claim(s, &c);
    assert_int_equal(rp_db_script(holder, "BEGIN", &err), 0);
    assert_int_equal(rp_db_script(holder, "LOCK dead_letter_20261121 IN SHARE MODE", &err), 0);
    assert_int_equal(rp_db_set_timeout(store_db(s), 100, &err), 0);
    assert_int_equal(rp_db_script(store_db(s), "SET lock_timeout = 0", &err), 0);
    add_rows(&rows, 0, 0, 5);
    c.next_offset = 5;
    assert_int_equal(write_all(s, &rows, &c, 1, &added), -1);
    assert_false(store_connected(s));

    assert_int_equal(pthread_create(&releaser, NULL, release_when_two_wait, holder), 0);
    assert_int_equal(store_connect(s, &err), 0);
    claim(s, &c);
    assert_int_equal(pthread_join(releaser, &released), 0);
    assert_non_null(released);
    assert_true(c.next_offset == 0 || c.next_offset == 5);
    if (c.next_offset == 0)
        assert_int_equal(write_rows(s, &c, 5), 5);
    answers(store_db(s), "SELECT count(*) FROM dead_letter", "5");
    rp_buf_clear(&rows.buf);
    rp_db_close(holder);
    store_free(s);
}

static void losing_one_partition_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a[] = {{.partition = 0}, {.partition = 1}}, of_b = {.partition = 0};
    struct copy rows = {0};
    int64_t added;
    claim(a, &of_a[0]);
    claim(a, &of_a[1]);
    claim(b, &of_b);
    add_rows(&rows, 0, 0, 5);
    add_rows(&rows, 1, 0, 7);
    of_a[0].next_offset = 5;
    of_a[1].next_offset = 7;
    assert_int_equal(write_all(a, &rows, of_a, 2, &added), 0);
    assert_int_equal(added, 7);
    assert_int_equal(of_a[0].epoch, 0);
    assert_int_equal(of_a[1].epoch, 1);
    rp_buf_clear(&rows.buf);
    store_free(a);
    store_free(b);
    expect("SELECT next_offset FROM archive_offset WHERE partition = 0", "0");
}

static void a_claim_is_renewed_by_its_holder_alone(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a = {.partition = 0}, of_b = {.partition = 0};
    claim(a, &of_a);
    struct store_claim before = of_a;
    claim(a, &of_a);
    assert_int_equal(of_a.epoch, 2);
    claim(a, &before); /* as if the answer to the last one had been lost */
    assert_int_equal(before.epoch, 3);
    claim(b, &of_b);
    assert_int_equal(store_claim(a, "", &before, &err), -1);
    assert_int_equal(err.code, RP_E_FENCED);
    store_free(a);
    store_free(b);
}

static void a_topic_that_was_created_again_begins_at_0(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    assert_int_equal(store_claim(s, "id-1", &c, &err), 0);
    (void)write_rows(s, &c, 10);
    assert_int_equal(store_claim(s, "", &c, &err), 0);
    assert_int_equal(c.next_offset, 10);
    assert_int_equal(store_claim(s, "id-1", &c, &err), 0);
    assert_int_equal(c.next_offset, 10);
    assert_int_equal(store_claim(s, "id-2", &c, &err), 0);
    assert_int_equal(c.next_offset, 0);
    store_free(s);
}

static void a_row_that_is_there_already_is_passed_over(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    claim(s, &c);
    (void)write_rows(s, &c, 10);
    c.next_offset = 5; /* as if the offset had been set back by hand */
    assert_int_equal(write_rows(s, &c, 12), 2);
    store_free(s);
    expect("SELECT count(*) FROM dead_letter", "12");
}

static void refused_data_is_poison_and_leaves_no_trace(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    int64_t added;
    claim(s, &c);
    add_rows(&rows, 0, 0, 2);
    copy_row(&rows, 1);
    copy_bytes(&rows, rp_str("no time"));
    c.next_offset = 3;
    assert_int_equal(write_all(s, &rows, &c, 1, &added), -1);
    assert_int_equal(err.cls, RP_POISON);
    rp_buf_clear(&rows.buf);
    c.next_offset = 0;
    assert_int_equal(write_rows(s, &c, 2), 2);
    store_free(s);
    expect("SELECT count(*) FROM dead_letter", "2");
}

static void a_row_without_a_partition_is_poison_and_says_so(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0, .next_offset = 0};
    struct copy rows = {0};
    struct row_record record = {.topic = rp_str(TOPIC)};
    int64_t added;
    claim(s, &c);
    c.next_offset = 1;
    assert_int_equal(row_write_bare(&rows, &record, RP_OTHER, "x", NOON + DAY_MS, &groups, &err),
                     0);
    assert_int_equal(write_all(s, &rows, &c, 1, &added), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_true(store_day_missing(s));
    store_forget_days(s);
    assert_int_equal(store_add_day(s, DAY + 1, &err), 0);
    assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
    rp_buf_clear(&rows.buf);
    store_free(s);
}

/* Writes one row, whatever is in it. */
static void store_one(const struct rp_dead_letter *letter, bool expect_altered)
{
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    struct row_record record = {
        .topic = rp_str(TOPIC), .key = rp_str("key"), .value = rp_str("the record")};
    struct row_facts facts;
    int64_t added;
    claim(s, &c);
    c.next_offset = 1;
    assert_int_equal(row_write(&rows, &record, letter, NOON, &groups, &facts, &err), 0);
    assert_int_equal(facts.altered, expect_altered);
    if (write_all(s, &rows, &c, 1, &added) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(added, 1);
    rp_buf_clear(&rows.buf);
    store_free(s);
}

static const struct rp_header headers[] = {
    {{"traceparent", 11}, {"00-1", 4}},
    {{"none", 4}, {NULL, 0}},
    {{"traceparent", 11}, {"\0\xff", 2}},
    {{"", 0}, {"", 0}},
};
static const struct rp_cause causes[] = {
    {{"java.io.IOException", 19}, {"broken pipe", 11}},
    {{"java.lang.Error", 15}, {"", 0}},
};

static struct rp_dead_letter whole_letter(void)
{
    return (struct rp_dead_letter){
        .has_task = true,
        .task = {.task_id = rp_str("t-1"),
                 .task_type = rp_str("payment"),
                 .target = rp_str("payments"),
                 .key = {"\0k", 2},
                 .payload = {"{\"a\":1}\0", 8},
                 .headers = headers,
                 .n_headers = 4,
                 .attempt = 5,
                 .error_class = rp_str("java.net.SocketTimeoutException"),
                 .error_message = rp_str("read timed out after 5 s \xe2\x82\xac"),
                 .error_category = rp_str("TIMEOUT"),
                 .causes = causes,
                 .n_causes = 2,
                 .source = rp_str("payments-1"),
                 .first_failed_at_ms = NOON - 10000,
                 .failed_at_ms = NOON - 1},
        .reason = RP_EXHAUSTED,
        .detail = rp_str("5 of 5 attempts"),
        .category = rp_str("TIMEOUT"),
        .policy = rp_str("payment"),
        .attempts = 5,
        .decided_at_ms = NOON,
        .topic = rp_str("failed-tasks"),
        .partition = 7,
        .offset = INT64_C(5000000000),
    };
}

static void a_dead_letter_comes_back_as_it_was(void **state)
{
    (void)state;
    struct rp_dead_letter letter = whole_letter();
    store_one(&letter, false);
    expect("SELECT row(dead_at, record_topic, record_partition, record_offset, record_key, reason,"
           " detail, category, policy, attempts, decided_at, source_topic, source_partition,"
           " source_offset)::text FROM dead_letter",
           "(\"2026-11-21 12:00:00+00\",dead-letter,0,0,\"\\\\x6b6579\",EXHAUSTED,"
           "\"5 of 5 attempts\",TIMEOUT,payment,5,\"2026-11-21 12:00:00+00\",failed-tasks,7,"
           "5000000000)");
    expect("SELECT row(task_id, task_type, target, task_key, payload, header_keys, header_values,"
           " attempt)::text FROM dead_letter",
           "(t-1,payment,payments,\"\\\\x006b\",\"\\\\x7b2261223a317d00\","
           "\"{traceparent,none,traceparent,\"\"\"\"}\","
           "\"{\"\"\\\\\\\\x30302d31\"\",NULL,\"\"\\\\\\\\x00ff\"\",\"\"\\\\\\\\x\"\"}\",5)");
    expect("SELECT row(error_class, error_message, error_category, cause_classes, cause_messages,"
           " source, first_failed_at, failed_at, raw, altered, record)::text FROM dead_letter",
           "(java.net.SocketTimeoutException,\"read timed out after 5 s \xe2\x82\xac\",TIMEOUT,"
           "\"{java.io.IOException,java.lang.Error}\",\"{\"\"broken pipe\"\",\"\"\"\"}\","
           "payments-1,\"2026-11-21 11:59:50+00\",\"2026-11-21 11:59:59.999+00\",,,)");
}

static void a_dead_letter_without_a_task_has_its_raw_bytes(void **state)
{
    (void)state;
    struct rp_dead_letter letter = {.reason = RP_UNDECODABLE,
                                    .raw = {"\0\xff", 2},
                                    .topic = rp_str("failed-tasks"),
                                    .decided_at_ms = NOON};
    store_one(&letter, false);
    expect("SELECT row(reason, raw, task_id, header_keys, failed_at)::text FROM dead_letter",
           "(UNDECODABLE,\"\\\\x00ff\",,,)");
}

static void what_postgresql_cannot_hold_is_stored_all_the_same(void **state)
{
    (void)state;
    struct rp_dead_letter letter = whole_letter();
    const struct rp_header bad_header = {{"a\0b", 3}, {"v", 1}};
    char *type = malloc(100000);
    assert_non_null(type);
    srand(1);
    for (size_t i = 0; i < 100000; i++) /* what cannot be compressed is what an index refuses */
        type[i] = (char)('!' + rand() % 90);
    letter.task.task_type = (struct rp_bytes){type, 100000};
    letter.task.error_message = (struct rp_bytes){"nul \0 and \xff \\", 13};
    letter.task.headers = &bad_header;
    letter.task.n_headers = 1;
    letter.task.failed_at_ms = INT64_MAX;
    letter.task.first_failed_at_ms = INT64_MIN + 1;
    letter.decided_at_ms = INT64_MIN;
    store_one(&letter, true);
    free(type);
    expect("SELECT altered::text FROM dead_letter",
           "{decided_at,task_type,header_keys,error_message,first_failed_at,failed_at}");
    expect("SELECT error_message FROM dead_letter", "nul \\x00 and \\xFF \\\\");
    expect("SELECT row(header_keys, octet_length(task_type), failed_at, first_failed_at, record)"
           "::text FROM dead_letter",
           "(\"{\"\"a\\\\\\\\x00b\"\"}\",1024,\"9999-12-31 23:59:59.999+00\","
           "\"0001-01-01 00:00:00+00\",\"\\\\x746865207265636f7264\")");
}

static void each_group_is_there_once(void **state)
{
    (void)state;
    struct rp_dead_letter letter = whole_letter();
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    struct row_facts facts;
    int64_t added;
    claim(s, &c);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 6; i++) {
            struct row_record record = {.topic = rp_str(TOPIC), .offset = c.next_offset++};
            char message[40];
            (void)snprintf(message, sizeof message, "read timed out after %d s", i);
            letter.task.error_message = rp_str(message);
            letter.task.task_type = rp_str(i % 2 ? "payment" : "order");
            assert_int_equal(row_write(&rows, &record, &letter, NOON, &groups, &facts, &err), 0);
        }
        assert_int_equal(groups.n, 2);
        assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
        assert_int_equal(added, 6);
        rows.buf.len = 0;
    }
    rp_buf_clear(&rows.buf);
    store_free(s);
    expect("SELECT string_agg(concat_ws('|', g.task_type, g.error_class, g.message, n), ', '"
           " ORDER BY g.task_type) FROM error_group AS g JOIN (SELECT fingerprint, count(*) AS n"
           " FROM archive GROUP BY 1) AS d USING (fingerprint)",
           "order|java.net.SocketTimeoutException|read timed out after # s|6, "
           "payment|java.net.SocketTimeoutException|read timed out after # s|6");
    expect("SELECT sum(n) FROM dead_letter_count", "12");
}

/* A job of tasks t-1 and t-2, whose dead letters came from offsets 0 and 1. */
static void begin_job(struct store *s)
{
    static const char job[] =
        "INSERT INTO replay_job (job, created_by, reason, filter) VALUES ('261121-abcdef', 'me',"
        " 'a test', 'all');"
        "INSERT INTO dead_letter_state (dead_at, id, status, job, task_type, reason, category,"
        " fingerprint) SELECT dead_at, id, 'replaying', '261121-abcdef', task_type, reason,"
        " category, fingerprint FROM dead_letter;"
        "INSERT INTO replay_item (job, n, dead_at, id, task_id) SELECT '261121-abcdef',"
        " record_offset, dead_at, id, task_id FROM dead_letter";
    if (rp_db_script(store_db(s), job, &err) != 0)
        fail_msg("%s", err.text);
}

/* Writes a dead letter at the next offset; its task says that `job` sent it. */
static void write_letter(struct store *s, struct store_claim *c, const char *task_id,
                         const char *job)
{
    struct rp_dead_letter letter = whole_letter();
    struct row_record record = {.topic = rp_str(TOPIC), .offset = c->next_offset++};
    const struct rp_header own[] = {{rp_str("reprise-task-id"), rp_str(task_id)},
                                    {rp_str("reprise-replay-id"), rp_str(job)}};
    struct copy rows = {0};
    struct row_facts facts;
    int64_t added;
    letter.task.task_id = rp_str(task_id);
    letter.task.headers = own;
    letter.task.n_headers = job == NULL ? 0 : 2;
    assert_int_equal(row_write(&rows, &record, &letter, NOON, &groups, &facts, &err), 0);
    struct store_rows batch = {rp_buf_bytes(&groups.rows.buf), rp_buf_bytes(&rows.buf),
                               facts.replayed};
    if (store_write(s, &batch, c, 1, &added, &err) != 0)
        fail_msg("%s", err.text);
    groups_drop(&groups);
    rp_buf_clear(&rows.buf);
}

static void a_task_that_dies_again_is_linked_to_the_one_that_was_replayed(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    claim(s, &c);
    write_letter(s, &c, "t-1", NULL);
    write_letter(s, &c, "t-2", NULL);
    begin_job(s);
    write_letter(s, &c, "t-1", "261121-abcdef");
    write_letter(s, &c, "t-9", "261121-abcdef"); /* of the job, but none of its items */
    write_letter(s, &c, "t-2", "261121-000000"); /* no such job */
    write_letter(s, &c, "t-2", "\x01;'");        /* no job's name */
    store_free(s);
    expect("SELECT string_agg(concat_ws('|', d.task_id, d.status, d.came_back_at IS NOT NULL,"
           " d.replay_job, o.record_offset), ', ' ORDER BY d.record_offset) FROM archive AS d"
           " LEFT JOIN dead_letter AS o ON o.dead_at = d.replay_of_at AND o.id = d.replay_of",
           "t-1|replaying|t, t-2|replaying|f, t-1|dead|f|261121-abcdef|0,"
           " t-9|dead|f|261121-abcdef, t-2|dead|f|261121-000000, t-2|dead|f");
    expect("SELECT sum(came_back) FROM dead_letter_count", "1");
}

static void dropping_a_day_is_in_the_audit(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    claim(s, &c);
    (void)write_rows(s, &c, 10);
    answers(store_db(s), "SELECT dead_letter_drop_day('2026-11-21', 'me', 'a test')", "10");
    answers(store_db(s), "SELECT count(*) FROM dead_letter", "0");
    answers(store_db(s), "SELECT dead_letter_drop_day('2026-11-21', 'me', 'a test') IS NULL", "t");
    answers(store_db(s), "SELECT row(actor, action, reason, detail)::text FROM audit",
            "(me,drop-day,\"a test\",\"{\"\"day\"\": \"\"2026-11-21\"\", \"\"rows\"\": 10}\")");
    store_free(s);
}

int main(void)
{
    dsn = getenv("REPRISE_TEST_DSN");
    if (dsn == NULL) {
        (void)fprintf(stderr, "REPRISE_TEST_DSN is not set\n");
        return 2;
    }
#define FRESH(test) cmocka_unit_test_setup(test, migrated_database)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_database_is_refused_with_what_to_do, empty_database),
        FRESH(a_second_migration_finds_nothing_to_do),
        FRESH(rows_and_offset_are_committed_together),
        FRESH(a_new_owner_goes_on_where_the_last_one_stopped),
        FRESH(a_zombie_writes_nothing),
        FRESH(a_transaction_of_unknown_outcome_is_waited_for_and_counted_once),
        FRESH(losing_one_partition_does_not_hold_up_the_others),
        FRESH(a_claim_is_renewed_by_its_holder_alone),
        FRESH(a_topic_that_was_created_again_begins_at_0),
        FRESH(a_row_that_is_there_already_is_passed_over),
        FRESH(refused_data_is_poison_and_leaves_no_trace),
        FRESH(a_row_without_a_partition_is_poison_and_says_so),
        FRESH(a_dead_letter_comes_back_as_it_was),
        FRESH(a_dead_letter_without_a_task_has_its_raw_bytes),
        FRESH(what_postgresql_cannot_hold_is_stored_all_the_same),
        FRESH(each_group_is_there_once),
        FRESH(a_task_that_dies_again_is_linked_to_the_one_that_was_replayed),
        FRESH(dropping_a_day_is_in_the_audit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
