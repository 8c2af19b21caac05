/* SPDX-License-Identifier: Apache-2.0 */
/* Who may write to the archive, and what is in it then: on a real PostgreSQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "migration.h"
#include "store_fixture.h"

static void an_empty_database_is_refused_with_what_to_do(void **state)
{
    (void)state;
    struct store *s = NULL;
    assert_int_equal(store_new(store_fixture_dsn(), TOPIC, "a", &s, &err), 0);
    assert_int_equal(store_connect(s, &err), -1);
    assert_int_equal(err.code, RP_E_SCHEMA);
    assert_non_null(strstr(err.text, "reprise db migrate"));
    assert_false(store_connected(s));
    store_free(s);
}

static void a_second_migration_finds_nothing_to_do(void **state)
{
    (void)state;
    struct rp_db *db = store_fixture_db();
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
    struct rp_db *holder = store_fixture_db();
    struct copy rows = {0};
    pthread_t releaser;
    void *released = NULL;
    int64_t added;
    claim(s, &c);
    assert_int_equal(rp_db_script(holder, "BEGIN", &err), 0);
    assert_int_equal(rp_db_script(holder, "LOCK archive_offset IN SHARE MODE", &err), 0);
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

/* In two portions: libpq keeps back the end of what it is given last. */
static void send_rows(struct store *s, struct store_claim *c, int64_t n, struct copy *rows)
{
    for (int64_t from = 0, to = n / 2; from < n; from = to, to = n) {
        add_rows(rows, c->partition, c->next_offset + from, c->next_offset + to);
        assert_int_equal(store_send(s, DAY, rp_buf_bytes(&rows->buf), c, 1, &err), 0);
    }
}

static void rows_that_were_sent_ahead_are_written_with_the_others(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    int64_t added;
    claim(s, &c);
    send_rows(s, &c, 5, &rows);
    add_rows(&rows, 0, 5, 8);
    c.next_offset = 8;
    assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
    assert_int_equal(added, 8);
    rp_buf_clear(&rows.buf);
    store_free(s);
    expect("SELECT count(*) FROM dead_letter", "8");
    expect("SELECT sum(n) FROM dead_letter_count", "8");
}

static void what_is_asked_meanwhile_takes_back_what_was_sent(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0}, other = {.partition = 1};
    struct copy rows = {0};
    int64_t added;
    claim(s, &c);
    send_rows(s, &c, 5, &rows);
    claim(s, &other);
    answers(store_db(s), "SELECT count(*) FROM dead_letter", "0");
    c.next_offset = 5;
    assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
    assert_int_equal(added, 5);
    rp_buf_clear(&rows.buf);
    store_free(s);
}

static void wait_until(struct rp_db *db, const char *sql)
{
    bool there = false;
    while (!there) {
        PGresult *result = NULL;
        assert_int_equal(rp_db_query(db, sql, 0, NULL, &result, &err), 0);
        there = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
        PQclear(result);
    }
}

/* The server is through with what it was given, and waits for more. */
#define A_IS_READ                                                                                  \
    "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'a'"                       \
    " AND wait_event = 'ClientRead' AND state = 'active'"
#define A_IS_GONE "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'a'"
/* Rows of which at least the first half reaches the server. */
#define MANY 500

/* As a process does that stands still: its connection lives. */
static void an_owner_that_stands_still_while_it_sends_holds_up_nobody(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a = {.partition = 0}, of_b = {.partition = 0};
    struct rp_db *db = store_fixture_db();
    struct copy rows = {0};
    int64_t added;
    claim(a, &of_a);
    send_rows(a, &of_a, MANY, &rows);
    wait_until(db, A_IS_READ);
    claim(b, &of_b);
    assert_int_equal(write_rows(b, &of_b, 7), 7);
    of_a.next_offset = MANY;
    assert_int_equal(write_all(a, &rows, &of_a, 1, &added), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    if (straight)
        assert_null(strstr(err.text, "no connection to PostgreSQL")); /* it says why */
    rp_buf_clear(&rows.buf);
    rp_db_close(db);
    store_free(a);
    store_free(b);
    expect("SELECT count(*) FROM dead_letter", "7");
}

/* The server has not read all that it sent when another claims the partition. */
static void nor_does_one_that_the_server_is_behind_with(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a = {.partition = 0}, of_b = {.partition = 0};
    struct rp_db *db = store_fixture_db(), *holder = store_fixture_db();
    struct copy rows = {0};
    claim(a, &of_a);
    /* Whether its first row is there already, is not known yet. */
    assert_int_equal(
        rp_db_script(holder,
                     "BEGIN; INSERT INTO dead_letter (dead_at, record_topic, record_partition,"
                     " record_offset, reason) VALUES ('2026-11-21 12:00Z', '" TOPIC "', 0, 0, '')",
                     &err),
        0);
    send_rows(a, &of_a, 10 * MANY, &rows); /* it inserts a thousand at a time */
    wait_until(db, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND"
                   " locktype = 'transactionid'");
    claim(b, &of_b);
    assert_int_equal(rp_db_script(holder, "ROLLBACK", &err), 0);
    wait_until(db, "SELECT (" A_IS_READ ") OR (" A_IS_GONE ")");
    assert_int_equal(rp_db_set_timeout(store_db(b), 2000, &err), 0);
    assert_int_equal(write_rows(b, &of_b, 7), 7);
    rp_buf_clear(&rows.buf);
    rp_db_close(holder);
    rp_db_close(db);
    store_free(a);
    store_free(b);
    expect("SELECT count(*) FROM dead_letter", "7");
}

static void giving_a_partition_away_does_not_disturb_what_is_sent_of_others(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a = {.partition = 0}, given = {.partition = 1}, of_b = {.partition = 1};
    struct rp_db *db = store_fixture_db();
    struct copy rows = {0};
    int64_t added;
    claim(a, &of_a);
    claim(a, &given);
    send_rows(a, &of_a, MANY, &rows);
    wait_until(db, A_IS_READ);
    claim(b, &of_b);
    of_a.next_offset = MANY;
    if (write_all(a, &rows, &of_a, 1, &added) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(added, MANY);
    rp_buf_clear(&rows.buf);
    rp_db_close(db);
    store_free(a);
    store_free(b);
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

static void an_owner_tells_where_the_log_ends_and_nobody_begins_there(void **state)
{
    (void)state;
    struct store *a = open_store("a"), *b = open_store("b");
    struct store_claim of_a[2] = {{.partition = 0}, {.partition = 1}}, of_b = {.partition = 0};
    claim(a, &of_a[0]);
    claim(a, &of_a[1]);
    assert_int_equal(write_rows(a, &of_a[1], 5), 5);
    of_a[0].seen_end = 3;
    of_a[1].seen_end = 6;
    assert_int_equal(store_tell_ends(a, of_a, 2, &err), 0);
    expect(OFFSETS, "0/3 5/6");
    claim(b, &of_b);
    assert_int_equal(of_b.next_offset, 0);
    assert_int_equal(of_b.seen_end, 3);
    of_a[0].seen_end = 4;
    of_a[1].seen_end = 7;
    assert_int_equal(store_tell_ends(a, of_a, 2, &err), 0);
    expect(OFFSETS, "0/3 5/7");
    claim(a, &of_a[1]);
    assert_int_equal(of_a[1].next_offset, 5);
    assert_int_equal(of_a[1].seen_end, 7);
    store_free(a);
    store_free(b);
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

static void add_next_day(struct copy *rows)
{
    struct row_record record = {.topic = rp_str(TOPIC), .offset = 5};
    struct rp_dead_letter letter = {.reason = RP_OTHER, .topic = rp_str("failed-tasks")};
    assert_false(add_row(rows, &record, &letter, NOON + DAY_MS));
}

static void a_row_without_a_partition_is_poison_and_says_so(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0, .next_offset = 0};
    struct copy rows = {0};
    int64_t added;
    claim(s, &c);
    c.next_offset = 1;
    written_day = DAY + 1;
    add_next_day(&rows);
    assert_int_equal(write_all(s, &rows, &c, 1, &added), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_true(store_day_missing(s));
    store_forget_days(s);
    assert_int_equal(store_add_day(s, DAY + 1, &err), 0);
    rows.buf.len = 0;
    add_next_day(&rows);
    assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
    written_day = DAY;
    rp_buf_clear(&rows.buf);
    store_free(s);
    expect("SELECT sum(n) FROM dead_letter_count", "1");
}

/* What an operator has detached is no part of the archive. */
static void a_detached_day_gets_no_rows(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    int64_t added;
    claim(s, &c);
    assert_int_equal(rp_db_script(store_db(s),
                                  "ALTER TABLE dead_letter DETACH PARTITION dead_letter_20261121",
                                  &err),
                     0);
    add_rows(&rows, 0, 0, 3);
    c.next_offset = 3;
    assert_int_equal(write_all(s, &rows, &c, 1, &added), -1);
    assert_true(store_day_missing(s));
    rp_buf_clear(&rows.buf);
    store_free(s);
    expect("SELECT count(*) FROM dead_letter_20261121", "0");
    expect("SELECT count(*) FROM dead_letter_count", "0");
}

/* That lasts for as long as somebody reads, and longer where the operator gives up: until then it
 * is still listed as a partition. */
static void a_day_that_is_being_detached_gets_no_rows(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct rp_db *reader = store_fixture_db(), *other = store_fixture_db();
    struct copy rows = {0};
    int64_t added;
    claim(s, &c);
    assert_int_equal(rp_db_script(reader, "BEGIN; SELECT FROM dead_letter", &err), 0);
    assert_int_equal(rp_db_script(other, "SET lock_timeout = 200", &err), 0);
    assert_int_equal(rp_db_script(other,
                                  "ALTER TABLE dead_letter DETACH PARTITION dead_letter_20261121"
                                  " CONCURRENTLY",
                                  &err),
                     -1);
    assert_int_equal(rp_db_script(reader, "COMMIT", &err), 0);
    answers(reader,
            "SELECT inhdetachpending FROM pg_inherits"
            " WHERE inhrelid = 'dead_letter_20261121'::regclass",
            "t");
    add_rows(&rows, 0, 0, 3);
    c.next_offset = 3;
    assert_int_equal(write_all(s, &rows, &c, 1, &added), -1);
    rp_buf_clear(&rows.buf);
    rp_db_close(reader);
    rp_db_close(other);
    store_free(s);
    expect("SELECT count(*) FROM dead_letter_20261121", "0");
    expect("SELECT count(*) FROM dead_letter_count", "0");
    expect("SELECT next_offset FROM archive_offset", "0");
}

/* One that came before the first row of the day, and one that comes later. */
static void what_a_trigger_leaves_out_is_not_counted(void **state)
{
    static const char trigger[] =
        "CREATE FUNCTION half() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RETURN CASE WHEN NEW.record_offset % 2 = 0 THEN NEW END; END $$;"
        "CREATE TRIGGER half BEFORE INSERT ON dead_letter FOR EACH ROW EXECUTE FUNCTION half()";
    (void)state;
    for (int early = 0; early < 2; early++) {
        assert_int_equal(migrated_database(NULL), 0);
        struct store *s = open_store("a");
        struct store_claim c = {.partition = 0};
        claim(s, &c);
        if (early == 0)
            (void)write_rows(s, &c, 6);
        struct rp_db *db = store_fixture_db();
        assert_int_equal(rp_db_script(db, trigger, &err), 0);
        rp_db_close(db);
        if (early == 1)
            store_forget_days(s);
        for (int64_t to = 12; to <= 18; to += 6) {
            assert_int_equal(store_add_day(s, DAY, &err), 0);
            (void)write_rows(s, &c, to);
        }
        store_free(s);
        expect("SELECT count(*) FROM dead_letter", early == 0 ? "12" : "9");
        expect("SELECT sum(n) FROM dead_letter_count", early == 0 ? "12" : "9");
    }
}

static void rows_of_another_day_take_back_what_was_sent(void **state)
{
    (void)state;
    struct store *s = open_store("a");
    struct store_claim c = {.partition = 0};
    struct copy rows = {0};
    int64_t added;
    assert_int_equal(store_add_day(s, DAY + 1, &err), 0);
    claim(s, &c);
    send_rows(s, &c, 5, &rows);
    c.next_offset = 6;
    add_next_day(&rows);
    written_day = STORE_DAYS;
    assert_int_equal(store_send(s, STORE_DAYS, rp_buf_bytes(&rows.buf), &c, 1, &err), 0);
    assert_int_equal(write_all(s, &rows, &c, 1, &added), 0);
    written_day = DAY;
    assert_int_equal(added, 6);
    rp_buf_clear(&rows.buf);
    store_free(s);
    expect("SELECT count(*) FROM dead_letter", "6");
    expect("SELECT sum(n) FROM dead_letter_count", "6");
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
    if (store_fixture_dsn() == NULL)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_database_is_refused_with_what_to_do, empty_database),
        FRESH(a_second_migration_finds_nothing_to_do),
        FRESH(rows_and_offset_are_committed_together),
        FRESH(a_new_owner_goes_on_where_the_last_one_stopped),
        FRESH(a_zombie_writes_nothing),
        FRESH(a_transaction_of_unknown_outcome_is_waited_for_and_counted_once),
        FRESH(rows_that_were_sent_ahead_are_written_with_the_others),
        FRESH(what_is_asked_meanwhile_takes_back_what_was_sent),
        FRESH(giving_a_partition_away_does_not_disturb_what_is_sent_of_others),
        FRESH(an_owner_that_stands_still_while_it_sends_holds_up_nobody),
        FRESH(nor_does_one_that_the_server_is_behind_with),
        FRESH(losing_one_partition_does_not_hold_up_the_others),
        FRESH(an_owner_tells_where_the_log_ends_and_nobody_begins_there),
        FRESH(a_claim_is_renewed_by_its_holder_alone),
        FRESH(a_topic_that_was_created_again_begins_at_0),
        FRESH(a_row_that_is_there_already_is_passed_over),
        FRESH(refused_data_is_poison_and_leaves_no_trace),
        FRESH(a_row_without_a_partition_is_poison_and_says_so),
        FRESH(a_detached_day_gets_no_rows),
        FRESH(a_day_that_is_being_detached_gets_no_rows),
        FRESH(what_a_trigger_leaves_out_is_not_counted),
        FRESH(rows_of_another_day_take_back_what_was_sent),
        FRESH(dropping_a_day_is_in_the_audit),
    };
    int failed = cmocka_run_group_tests_name("staged", tests, NULL, NULL);
    straight = true;
    return failed + cmocka_run_group_tests_name("straight", tests, NULL, NULL);
}
