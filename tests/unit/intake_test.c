/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "clock_fixture.h"
#include "intake.h"
#include "mock_fixture.h"

#define TOPIC      "failed-tasks"
#define RECORDS    10
#define COMMITTED  3
#define POLL_MS    10
#define MOST_POLLS 3000
#define WAIT_MS    1000 /* the intake's */
/* A record that is not held up comes within the first few. */
#define POLLS_FOR_NOTHING 20

static struct mock mock;
static struct rp_config *config;
static rd_kafka_t *consumer;
static struct intake intake;
static rd_kafka_message_t *last; /* that was read on */
static bool cut;                 /* in the place of another */

static void commit(int64_t offset)
{
    rd_kafka_topic_partition_list_t *committed = mock_at(TOPIC, offset);
    assert_int_equal(rd_kafka_commit(consumer, committed, 0), 0);
    rd_kafka_topic_partition_list_destroy(committed);
}

static void assign(void)
{
    struct rp_error err;
    rd_kafka_topic_partition_list_t *one = mock_at(TOPIC, 0);
    assert_int_equal(intake_add(&intake, one, false, &err), 0);
    rd_kafka_topic_partition_list_destroy(one);
    mock_assign(consumer, TOPIC);
}

static int set_up(void **state)
{
    struct rp_error err;
    (void)state;
    intake = (struct intake){0};
    mock_start(&mock, 1, TOPIC);
    config = mock_config(&mock);
    consumer = mock_consumer(&mock, "group");
    mock_produce(&mock, TOPIC, RECORDS);
    commit(COMMITTED);
    assert_int_equal(intake_init(&intake, config, consumer, "group", &err), 0);
    return 0;
}

static void forget_last(void)
{
    if (last != NULL)
        rd_kafka_message_destroy(last);
    last = NULL;
}

static int tear_down(void **state)
{
    (void)state;
    forget_last();
    intake_clear(&intake);
    rd_kafka_destroy(consumer);
    rp_config_free(config);
    mock_stop(&mock);
    return 0;
}

/* The offset of the next record that is to be read on; -1: none comes in so many polls. */
static int64_t next_within(int polls)
{
    struct rp_error err;
    forget_last();
    for (int i = 0; i < polls; i++) {
        enum arrival kind = ARRIVAL_DROP;
        intake_serve(&intake);
        rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            assert_int_equal(intake_end_met(&intake, m, &err), 0);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            assert_int_equal(intake_take(&intake, m, &kind, &err), 0);
        if (kind == ARRIVAL_NONE || kind == ARRIVAL_CUT) {
            cut = kind == ARRIVAL_CUT;
            last = m;
            return m->offset;
        }
        if (m != NULL)
            rd_kafka_message_destroy(m);
    }
    return -1;
}

static int64_t next(void)
{
    int64_t offset = next_within(MOST_POLLS);
    assert_true(offset >= 0);
    return offset;
}

static void a_record_that_comes_twice_is_read_once(void **state)
{
    struct rp_error err;
    enum arrival kind;
    (void)state;
    assign();
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(intake_take(&intake, last, &kind, &err), 0);
    assert_int_equal(kind, ARRIVAL_DROP);
    assert_int_equal(next(), COMMITTED + 1);
}

static void a_record_that_is_gone_back_to_is_read_again(void **state)
{
    struct rp_error err;
    (void)state;
    assign();
    for (int64_t offset = COMMITTED; offset < RECORDS; offset++)
        assert_int_equal(next(), offset);
    assert_int_equal(intake_seek_one(&intake, 0, COMMITTED + 1, &err), 0);
    assert_int_equal(next(), COMMITTED + 1);
}

/* librdkafka goes to where a log was cut, also past what it had not handed out. */
static void what_a_later_leader_comes_behind_is_looked_for(void **state)
{
    (void)state;
    assign();
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(rd_kafka_mock_partition_set_leader(mock.cluster, TOPIC, 0, 1), 0);
    mock_produce(&mock, TOPIC, 2);
    rd_kafka_topic_partition_list_t *at = mock_at(TOPIC, RECORDS);
    assert_null(rd_kafka_seek_partitions(consumer, at, POLL_MS * MOST_POLLS));
    rd_kafka_topic_partition_list_destroy(at);
    for (int64_t offset = COMMITTED + 1; offset < RECORDS + 2; offset++) {
        assert_int_equal(next(), offset);
        assert_false(cut);
    }
}

static void a_record_that_waits_is_read_again_when_its_time_has_come(void **state)
{
    struct rp_error err;
    (void)state;
    assign();
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(intake_postpone(&intake, 0, COMMITTED, &err), 0);
    now_mono_ms += WAIT_MS - 1;
    assert_int_equal(next_within(POLLS_FOR_NOTHING), -1);
    now_mono_ms++;
    assert_int_equal(next(), COMMITTED);
}

/* It stands in for another partition, since there is one here. */
static void what_waits_is_not_kept_waiting_by_what_begins_to_wait(void **state)
{
    struct rp_error err;
    (void)state;
    assign();
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(intake_postpone(&intake, 0, COMMITTED, &err), 0);
    now_mono_ms += WAIT_MS - 1;
    assert_int_equal(intake_postpone(&intake, 0, COMMITTED, &err), 0);
    now_mono_ms++;
    assert_int_equal(next(), COMMITTED);
}

/* Up to which offset the partition is read; -1: it is not. */
static int64_t read_to(void)
{
    rd_kafka_topic_partition_list_t *read = intake_read(&intake);
    int64_t offset = read->cnt == 0 ? -1 : read->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(read);
    return offset;
}

/* Else it would seem to stand still. */
static void what_waits_is_not_read(void **state)
{
    struct rp_error err;
    (void)state;
    assert_int_equal(read_to(), -1);
    assign();
    assert_int_equal(read_to(), -1); /* its offset is not known */
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(read_to(), COMMITTED + 1);
    assert_int_equal(intake_postpone(&intake, 0, COMMITTED, &err), 0);
    assert_int_equal(read_to(), -1);
    now_mono_ms += WAIT_MS;
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(read_to(), COMMITTED + 1);
}

/* Its next owner may be this one, and has not begun with it then. */
static void a_record_that_waits_lets_its_partition_go(void **state)
{
    struct rp_error err;
    (void)state;
    assign();
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(intake_postpone(&intake, 0, COMMITTED, &err), 0);
    rd_kafka_topic_partition_list_t *one = mock_at(TOPIC, 0);
    intake_remove(&intake, one);
    rd_kafka_topic_partition_list_destroy(one);
    now_mono_ms += WAIT_MS;
    intake_serve(&intake);
    assert_int_equal(next_within(POLLS_FOR_NOTHING), -1); /* it is still held */
}

/* librdkafka goes to the beginning of a log that ends before where it was. */
static void what_lies_in_a_log_that_was_cut_is_read_on(void **state)
{
    (void)state;
    commit(1000);
    assign();
    for (int64_t offset = 0; offset < RECORDS; offset++) {
        assert_int_equal(next(), offset);
        assert_int_equal(cut, offset == 0);
        assert_int_equal(intake.cut.from, 0);
        assert_int_equal(intake.cut.expected, 1000);
    }
}

static int64_t unread(int64_t batch)
{
    struct rp_error err;
    enum arrival kind;
    int64_t offset;
    const rd_kafka_message_t m = {.offset = batch};
    assert_int_equal(intake_take_unread(&intake, &m, &kind, &offset, &err), 0);
    assert_int_equal(kind, ARRIVAL_NONE);
    return offset;
}

/* A batch is told by its first offset, wherever in it reading began. */
static void what_cannot_be_unpacked_begins_at_what_is_committed(void **state)
{
    struct rp_error err;
    (void)state;
    assign();
    while (arrivals_waiting(intake.arrivals) > 0) {
        intake_serve(&intake);
        rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            assert_int_equal(intake_end_met(&intake, m, &err), 0);
        if (m != NULL)
            rd_kafka_message_destroy(m);
    }
    assert_int_equal(unread(COMMITTED - 2), COMMITTED);
}

static void what_cannot_be_unpacked_behind_it_begins_there(void **state)
{
    (void)state;
    assign();
    assert_int_equal(next(), COMMITTED);
    assert_int_equal(unread(COMMITTED + 1), COMMITTED + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_record_that_comes_twice_is_read_once),
        TEST(a_record_that_is_gone_back_to_is_read_again),
        TEST(what_a_later_leader_comes_behind_is_looked_for),
        TEST(a_record_that_waits_is_read_again_when_its_time_has_come),
        TEST(what_waits_is_not_kept_waiting_by_what_begins_to_wait),
        TEST(what_waits_is_not_read),
        TEST(a_record_that_waits_lets_its_partition_go),
        TEST(what_lies_in_a_log_that_was_cut_is_read_on),
        TEST(what_cannot_be_unpacked_begins_at_what_is_committed),
        TEST(what_cannot_be_unpacked_behind_it_begins_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
