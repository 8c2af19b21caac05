/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a dead letter in the archive: on a real PostgreSQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "store_fixture.h"

/* Writes one row, whatever is in it. */
static void store_one(const struct rp_dead_letter *letter, bool expect_altered)
{
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    struct row_record record = {
        .topic = rp_str(TOPIC), .key = rp_str("key"), .value = rp_str("the record")};
    int64_t added;
    claim(s, &c);
    c.next_offset = 1;
    assert_int_equal(add_row(&rows, &record, letter, NOON), expect_altered);
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
    int64_t added;
    claim(s, &c);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 6; i++) {
            struct row_record record = {.topic = rp_str(TOPIC), .offset = c.next_offset++};
            char message[40];
            (void)snprintf(message, sizeof message, "read timed out after %d s", i);
            letter.task.error_message = rp_str(message);
            letter.task.task_type = rp_str(i % 2 ? "payment" : "order");
            assert_false(add_row(&rows, &record, &letter, NOON));
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

#define COUNT_COLUMNS "hour, task_type, reason, category, fingerprint, status"

/* What was counted is what is there. */
static void expect_counts(void)
{
    static const char counted[] =
        "SELECT " COUNT_COLUMNS ", sum(n), sum(came_back), min(first_at), max(last_at)"
        " FROM dead_letter_count GROUP BY " COUNT_COLUMNS;
    static const char there[] =
        "SELECT dead_letter_hour(dead_at), task_type, reason, category, fingerprint, status,"
        " count(*), count(came_back_at), min(dead_at), max(dead_at)"
        " FROM archive GROUP BY 1, 2, 3, 4, 5, 6";
    char sql[1500];
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM ((%s EXCEPT ALL %s) UNION ALL (%s EXCEPT ALL %s)) AS d",
                   counted, there, there, counted);
    expect(sql, "0");
}

/* Of two types, categories and groups, and of two hours before and one after `from`. */
static void add_various(struct copy *rows, struct store_claim *c, int64_t from)
{
    char wide[3000];
    memset(wide, 'w', sizeof wide);
    struct rp_dead_letter letter = whole_letter();
    for (int i = 0; i < 24; i++) {
        struct row_record record = {.topic = rp_str(TOPIC), .offset = c->next_offset++};
        letter.has_task = i % 5 != 0;
        letter.reason = i % 2 ? RP_EXHAUSTED : RP_NON_RETRYABLE;
        letter.task.task_type =
            i % 3 ? (struct rp_bytes){"a\0\xff\\", 4} : (struct rp_bytes){wide, sizeof wide};
        letter.category = i % 4 ? rp_str("TIMEOUT") : RP_NULL_BYTES;
        letter.task.error_message = rp_str(i % 7 ? "one" : "another");
        (void)add_row(rows, &record, &letter, from + (i - 18) * INT64_C(420001));
    }
}

static void rows_of_all_kinds_are_counted(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    int64_t added;
    claim(s, &c);
    for (int round = 0; round < 2; round++) {
        add_various(&rows, &c, NOON);
        assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
        assert_int_equal(added, 24);
        rows.buf.len = 0;
    }
    rp_buf_clear(&rows.buf);
    store_free(s);
    expect("SELECT count(*) FROM dead_letter", "48");
    expect_counts();
}

static void rows_of_several_days_are_counted(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    int64_t added;
    assert_int_equal(store_add_day(s, DAY - 1, &err), 0);
    claim(s, &c);
    add_various(&rows, &c, DAY * DAY_MS);
    written_day = STORE_DAYS;
    assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
    written_day = DAY;
    assert_int_equal(added, 24);
    rp_buf_clear(&rows.buf);
    store_free(s);
    expect("SELECT count(DISTINCT dead_at::date) FROM dead_letter", "2");
    expect_counts();
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

/* Writes dead letters at the next offsets; their task says that `job` sent it. */
static int try_letters(struct store *s, struct store_claim *c, size_t n, const char *task_id,
                       const char *job)
{
    struct rp_dead_letter letter = whole_letter();
    struct row_record record = {.topic = rp_str(TOPIC)};
    const struct rp_header own[] = {{rp_str("reprise-task-id"), rp_str(task_id)},
                                    {rp_str("reprise-replay-id"), rp_str(job)}};
    struct copy rows = {0};
    int64_t added;
    letter.task.task_id = rp_str(task_id);
    letter.task.headers = own;
    letter.task.n_headers = job == NULL ? 0 : 2;
    for (size_t i = 0; i < n; i++) {
        record.offset = c->next_offset++;
        (void)add_row(&rows, &record, &letter, NOON);
    }
    int failed = write_all(s, &rows, c, 1, &added);
    rp_buf_clear(&rows.buf);
    return failed;
}

static void write_letters(struct store *s, struct store_claim *c, size_t n, const char *task_id,
                          const char *job)
{
    if (try_letters(s, c, n, task_id, job) != 0)
        fail_msg("%s", err.text);
}

static void write_letter(struct store *s, struct store_claim *c, const char *task_id,
                         const char *job)
{
    write_letters(s, c, 1, task_id, job);
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

/* By a replay that is being planned, say, for minutes: what died again is archived all the same. */
static void a_state_that_somebody_holds_holds_up_no_letter_for_long(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    claim(s, &c);
    write_letter(s, &c, "t-1", NULL);
    begin_job(s);
    struct rp_db *other = store_fixture_db();
    assert_int_equal(rp_db_script(other, "BEGIN; SELECT FROM dead_letter_state FOR UPDATE", &err),
                     0);
    /* Of which the lock is waited for half: the rest is for a server that others keep busy. */
    assert_int_equal(rp_db_set_timeout(store_db(s), 3000, &err), 0);
    write_letter(s, &c, "t-1", "261121-abcdef");
    rp_db_close(other);
    store_free(s);
    expect("SELECT string_agg(concat_ws('|', record_offset, status, replay_job), ', ' ORDER BY"
           " record_offset) FROM archive",
           "0|replaying, 1|dead|261121-abcdef");
}

/* By whoever gives all tasks the same id. */
static void a_task_that_was_replayed_often_is_looked_for_once(void **state)
{
    /* What is counted of a connection is known a little later. */
    static const char wait[] =
        "DO $$ BEGIN FOR i IN 1..300 LOOP PERFORM pg_stat_clear_snapshot(), pg_sleep(0.1); EXIT"
        " WHEN EXISTS (SELECT FROM pg_stat_user_tables WHERE relname = 'replay_item'"
        " AND idx_tup_fetch > 0); END LOOP; END $$";
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    claim(s, &c);
    write_letters(s, &c, 300, "t-1", NULL);
    begin_job(s);
    write_letters(s, &c, 300, "t-1", "261121-abcdef");
    store_free(s);
    struct rp_db *db = store_fixture_db();
    assert_int_equal(rp_db_script(db, wait, &err), 0);
    rp_db_close(db);
    expect("SELECT idx_tup_fetch <= 300 FROM pg_stat_user_tables WHERE relname = 'replay_item'",
           "t");
    expect("SELECT concat_ws('|', o.record_offset, count(*)) FROM dead_letter AS d JOIN dead_letter"
           " AS o ON o.id = d.replay_of GROUP BY o.record_offset",
           "299|300");
}

int main(void)
{
    if (store_fixture_dsn() == NULL)
        return 2;
    const struct CMUnitTest tests[] = {
        FRESH(a_dead_letter_comes_back_as_it_was),
        FRESH(a_dead_letter_without_a_task_has_its_raw_bytes),
        FRESH(what_postgresql_cannot_hold_is_stored_all_the_same),
        FRESH(each_group_is_there_once),
        FRESH(rows_of_all_kinds_are_counted),
        FRESH(rows_of_several_days_are_counted),
        FRESH(a_task_that_dies_again_is_linked_to_the_one_that_was_replayed),
        FRESH(a_state_that_somebody_holds_holds_up_no_letter_for_long),
        FRESH(a_task_that_was_replayed_often_is_looked_for_once),
    };
    int failed = cmocka_run_group_tests_name("staged", tests, NULL, NULL);
    straight = true;
    return failed + cmocka_run_group_tests_name("straight", tests, NULL, NULL);
}
