/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the records of a batch: when they go out, and which of them failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "publisher_fixture.h"

static void add_offsets(struct fixture *f)
{
    struct rp_error err;
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    assert_int_equal(rp_publisher_group_offsets(f->publisher, GROUP, offsets, &err), RP_PUBLISHED);
    rd_kafka_topic_partition_list_destroy(offsets);
}

/* And more, which does not wait for the offsets. */
static void send_request_s_worth(struct fixture *f)
{
    send_one(f, 0, 700000);
    send_one(f, 1, 700000);
}

/* Whether librdkafka opens the transaction for what was produced, by then. */
static bool opens(struct fixture *f, int within_ms)
{
    for (int i = 0; i < within_ms && mock_requests(&f->mock, ADD_PARTITIONS) == 0; i++)
        (void)usleep(1000);
    return mock_requests(&f->mock, ADD_PARTITIONS) > 0;
}

static void the_records_of_a_transaction_wait_for_its_offsets(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    begin_another(f);
    send_one(f, 0, 10);
    send_one(f, 1, 10);
    assert_false(opens(f, 200));
    /* The last one is still being ended. */
    rd_kafka_mock_push_request_errors(f->mock.cluster, ADD_OFFSETS, 2,
                                      RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
                                      RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS);
    add_offsets(f);
    assert_int_equal(mock_requests(&f->mock, ADD_PARTITIONS), 0);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_int_equal(mock_requests(&f->mock, ADD_PARTITIONS), 1);
    assert_int_equal(mock_requests(&f->mock, PRODUCE), 1);
}

/* It fails while others are still being sent, which are then refused. */
static void a_record_that_failed_is_named_not_the_next_one(void **state)
{
    struct fixture *f = *state;
    const struct rp_outgoing next = {.topic = rp_str(TOPIC), .value = rp_str("a value"), .tag = 2};
    struct rp_error err;
    size_t n;
    begin_another(f);
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_INVALID_RECORD);
    send_request_s_worth(f);
    for (int i = 0;
         mock_requests(&f->mock, PRODUCE) == 0 || rp_publisher_send(f->publisher, &next, &err) == 0;
         i++) {
        assert_in_range(i, 0, 1000);
        (void)usleep(10000);
    }
    assert_int_equal(err.cls, RP_POISON);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 0);
    rp_publisher_abort(f->publisher, false);
}

static void offsets_that_are_refused_say_why(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    begin_another(f);
    rd_kafka_mock_push_request_errors(f->mock.cluster, TXN_OFFSETS, 1,
                                      RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
    send_request_s_worth(f);
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    assert_int_equal(rp_publisher_group_offsets(f->publisher, GROUP, offsets, &err),
                     RP_NOT_PUBLISHED);
    rd_kafka_topic_partition_list_destroy(offsets);
    assert_non_null(strstr(err.text, "send offsets"));
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_publishes(f);
}

static void more_than_a_request_does_not_wait(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    begin_another(f);
    send_one(f, 0, 700000);
    assert_false(opens(f, 200));
    send_one(f, 1, 700000);
    assert_true(opens(f, 30000));
    add_offsets(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
}

/* Nobody is left to tell of the ones behind it. */
static void a_record_that_cannot_be_sent_is_named_though_it_waited(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    static char value[2000];
    size_t n;
    const struct rp_outgoing refused = {
        .topic = rp_str(""), .value = {value, sizeof value}, .tag = 1};
    begin_another(f);
    send_one(f, 0, 10);
    assert_int_equal(rp_publisher_send(f->publisher, &refused, &err), 0);
    send_one(f, 2, 10);
    add_offsets(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_NOT_PUBLISHED);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 1);
    assert_publishes(f);
}

static void what_waits_goes_with_its_batch(void **state)
{
    struct fixture *f = *state;
    begin_another(f);
    send_one(f, 0, 10);
    rp_publisher_abort(f->publisher, false);
    assert_publishes(f);
    assert_int_equal(mock_requests(&f->mock, PRODUCE), 1);
}

/* librdkafka has their values where they were held: the next batch is held there, too. */
static void records_on_their_way_are_let_go_before_the_next_batch(void **state)
{
    struct fixture *f = *state;
    begin_another(f);
    for (size_t i = 0; i < 8; i++)
        send_one(f, i, 100000);
    rd_kafka_mock_broker_push_request_error_rtts(f->mock.cluster, 1, PRODUCE, 1,
                                                 RD_KAFKA_RESP_ERR_NO_ERROR, 1000);
    add_offsets(f);
    assert_true(opens(f, 30000));
    rp_publisher_abort(f->publisher, false);
    rd_kafka_mock_clear_request_errors(f->mock.cluster, PRODUCE);
    assert_publishes(f);
}

#define ONE_AT_A_TIME ", producer: {queue.buffering.max.messages: 1}"
#define SMALL_ONES    ", producer: {message.max.bytes: 1000}"
static const char too_large[2000];

static void a_full_queue_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    use(f, "at-least-once", ONE_AT_A_TIME);
    for (size_t i = 0; i < 5; i++)
        send_one(f, i, 10);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(rp_publisher_is_out(f->publisher, i), i < 5);
}

static void what_waited_finds_room_in_a_full_queue(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    use(f, "exactly-once", ONE_AT_A_TIME);
    for (size_t i = 0; i < 5; i++)
        send_one(f, i, 100000);
    add_offsets(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_publishes(f);
}

static void without_a_transaction_what_was_not_refused_is_out(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    size_t n;
    use(f, "at-least-once", ONE_AT_A_TIME);
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    for (size_t i = 0; i < 3; i++)
        send_one(f, i, 10);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_NOT_PUBLISHED);
    assert_int_equal(err.cls, RP_POISON);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rp_publisher_is_out(f->publisher, i), i > 0);
}

static void a_record_that_cannot_be_sent_keeps_back_none_before_it(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    char longest[RP_MAX_TOPIC_NAME + 2];
    size_t n;
    struct rp_outgoing refused = {
        .topic = rp_str(TOPIC), .value = {too_large, sizeof too_large}, .tag = 1};
    use(f, "at-least-once", SMALL_ONES);
    send_one(f, 0, 10);
    assert_int_equal(rp_publisher_send(f->publisher, &refused, &err), -1);
    rp_publisher_abort(f->publisher, true);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 1);
    assert_true(rp_publisher_is_out(f->publisher, 0));
    assert_int_equal(rp_publisher_begin(f->publisher, &err), 0);
    memset(longest, 'a', sizeof longest);
    refused.topic = (struct rp_bytes){longest, sizeof longest};
    assert_int_equal(rp_publisher_send(f->publisher, &refused, &err), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_int_equal(err.code, RP_E_NOT_FOUND);
}

/* It was held back until the batch was ended, or until there was a request's worth. */
static void a_record_that_librdkafka_refuses_takes_the_transaction_with_it(void **state)
{
    struct fixture *f = *state;
    for (int full = 0; full < 2; full++) {
        struct rp_error err;
        size_t n;
        use(f, "exactly-once",
            full == 1 ? ", producer: {message.max.bytes: 1000, batch.size: 20}" : SMALL_ONES);
        const struct rp_outgoing refused = {
            .topic = rp_str(TOPIC), .value = {too_large, sizeof too_large}, .tag = 0};
        int sent = rp_publisher_send(f->publisher, &refused, &err);
        assert_int_equal(sent, full == 1 ? -1 : 0);
        if (sent == 0)
            assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_NOT_PUBLISHED);
        assert_int_equal(err.cls, RP_POISON);
        rp_publisher_abort(f->publisher, false);
        const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
        assert_int_equal(n, 1);
        assert_int_equal(failures[0].tag, 0);
        assert_false(rp_publisher_is_out(f->publisher, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, publisher_set_up, publisher_tear_down)
        T(the_records_of_a_transaction_wait_for_its_offsets),
        T(a_record_that_failed_is_named_not_the_next_one),
        T(offsets_that_are_refused_say_why),
        T(more_than_a_request_does_not_wait),
        T(a_record_that_cannot_be_sent_is_named_though_it_waited),
        T(what_waits_goes_with_its_batch),
        T(records_on_their_way_are_let_go_before_the_next_batch),
        T(a_full_queue_is_waited_for),
        T(what_waited_finds_room_in_a_full_queue),
        T(without_a_transaction_what_was_not_refused_is_out),
        T(a_record_that_cannot_be_sent_keeps_back_none_before_it),
        T(a_record_that_librdkafka_refuses_takes_the_transaction_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
