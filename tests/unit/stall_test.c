/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer that is paused behind the back of its owner stands for one that fetches no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kafka.h"
#include "mock_fixture.h"
#include "stall.h"

#define TOPIC      "somewhere"
#define LOOK_MS    30000 /* between two looks */
#define POLL_MS    10
#define MOST_POLLS 3000
#define FETCH_MS   200 /* longer than a fetch waits for records */

static struct mock mock;
static rd_kafka_t *consumer;
static struct rp_stall stall;
static struct rp_error err;
static int64_t now_ms, reached; /* all before that came */

int64_t __wrap_rp_mono_ms(void);

int64_t __wrap_rp_mono_ms(void)
{
    return now_ms;
}

static void poll_once(void)
{
    rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
    if (m == NULL)
        return;
    reached = m->err == RD_KAFKA_RESP_ERR_NO_ERROR ? m->offset + 1 : m->offset;
    rd_kafka_message_destroy(m);
}

static int set_up(void **state)
{
    (void)state;
    mock_start(&mock, 1, TOPIC);
    consumer = mock_consumer(&mock, "group");
    mock_produce(&mock, TOPIC, 3);
    mock_assign(consumer, TOPIC);
    while (rp_kafka_begin(consumer, TOPIC, 0, 0, &err) != 0)
        poll_once();
    reached = 0;
    for (int i = 0; reached < 3; i++) {
        assert_true(i < MOST_POLLS);
        poll_once();
    }
    now_ms = 1;
    err = (struct rp_error){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rp_stall_clear(&stall);
    rd_kafka_destroy(consumer);
    mock_stop(&mock);
    stall = (struct rp_stall){0};
    return 0;
}

/* The fetch under way is waited for: what came with it would tell of an end that is to come. */
static void stop_fetching(void)
{
    rd_kafka_topic_partition_list_t *one = mock_at(TOPIC, 0);
    assert_int_equal(rp_kafka_pause(consumer, one), 0);
    rd_kafka_topic_partition_list_destroy(one);
    for (int i = 0; i < FETCH_MS / POLL_MS; i++)
        poll_once();
}

/* A look, in its time; `asks`: at what stands still. What brokers say to that comes before the next
 * one. */
static int look(bool asks)
{
    assert_true(rp_stall_due(&stall));
    int rc = rp_stall_look(&stall, consumer, mock_at(TOPIC, reached), &err);
    assert_false(rp_stall_due(&stall));
    now_ms += LOOK_MS;
    assert_int_equal(stall.answer != NULL, asks);
    for (int i = 0; asks && rd_kafka_queue_length(stall.answer) == 0; i++) {
        assert_true(i < MOST_POLLS);
        poll_once();
    }
    return rc;
}

/* The log goes on meanwhile. */
static void stand_at_two_looks(void)
{
    stop_fetching();
    mock_produce(&mock, TOPIC, 2);
    assert_int_equal(look(false), 0);
    assert_int_equal(look(true), 0);
}

static void what_goes_on_and_stands_still_is_found(void **state)
{
    (void)state;
    stand_at_two_looks();
    assert_int_equal(look(false), -1);
    assert_int_equal(err.code, RP_E_FENCED);
    assert_int_equal(err.cls, RP_FATAL);
    assert_string_equal(err.text,
                        "nothing comes of somewhere [0] behind offset 3, and it ends at 5");
}

static void what_has_ended_may_stand_still(void **state)
{
    (void)state;
    assert_int_equal(look(false), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look(true), 0);
}

/* What is fetched tells how far the log goes, and nothing of it comes yet: much of it was aborted.
 */
static void what_is_still_fetched_has_more_time(void **state)
{
    (void)state;
    mock_produce(&mock, TOPIC, 2);
    for (int i = 0; reached < 5; i++) {
        assert_true(i < MOST_POLLS);
        poll_once();
    }
    reached = 3;
    assert_int_equal(look(false), 0);
    for (int i = 0; i < 19; i++) {
        assert_int_equal(look(true), 0);
        reached = 3; /* what came meanwhile does not count */
    }
    assert_int_equal(look(false), -1);
}

/* It was slow for as long as it took to ask. */
static void what_comes_after_all_is_no_stall(void **state)
{
    (void)state;
    stand_at_two_looks();
    reached = 4;
    assert_int_equal(look(false), 0);
    assert_int_equal(look(true), 0);
    rp_stall_heard(&stall, TOPIC, 0);
    assert_int_equal(look(false), 0);
}

/* Its owner has it paused, or has not taken up yet what came. */
static void what_is_not_read_is_no_stall(void **state)
{
    (void)state;
    stand_at_two_looks();
    assert_int_equal(rp_stall_look(&stall, consumer, rd_kafka_topic_partition_list_new(0), &err),
                     0);
    now_ms += LOOK_MS;
    assert_int_equal(look(false), 0);
}

/* Then a new consumer would not get on either. */
static void while_brokers_do_not_say_nothing_is_a_stall(void **state)
{
    (void)state;
    stop_fetching();
    mock_produce(&mock, TOPIC, 2);
    rd_kafka_mock_push_request_errors(mock.cluster, MOCK_LIST_OFFSETS, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(look(false), 0);
    assert_int_equal(look(true), 0);
    assert_int_equal(look(true), 0);
    assert_int_equal(look(false), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_goes_on_and_stands_still_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_ended_may_stand_still, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_still_fetched_has_more_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_comes_after_all_is_no_stall, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_read_is_no_stall, set_up, tear_down),
        cmocka_unit_test_setup_teardown(while_brokers_do_not_say_nothing_is_a_stall, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
