/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lane.h"
#include "mock_fixture.h"

#define TOPIC        "tier"
#define LIST_OFFSETS 2 /* the protocol's number */
#define POLL_MS      10
#define MOST_POLLS   3000

static struct rp_config config = {
    .tiers = {{.topic = (char[]){TOPIC}, .length_ms = 1000, .reach_ms = 10000}}, .n_tiers = 1};
static struct mock mock;
static rd_kafka_t *consumer;
static int wake_fd;

static int set_up(void **state)
{
    (void)state;
    mock_start(&mock, 2, TOPIC);
    consumer = mock_consumer(&mock, "group");
    wake_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(wake_fd >= 0);
    mock_produce(&mock, TOPIC, 10);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rd_kafka_destroy(consumer);
    mock_stop(&mock);
    (void)close(wake_fd);
    return 0;
}

static struct lane *assign(int64_t offset)
{
    struct rp_error err;
    struct lane *lane;
    rd_kafka_topic_partition_list_t *one = mock_at(TOPIC, offset);
    assert_int_equal(lane_new(consumer, &config, TOPIC, 0, wake_fd, NULL, &lane, &err), 0);
    assert_int_equal(rd_kafka_assign(consumer, one), 0);
    rd_kafka_topic_partition_list_destroy(one);
    return lane;
}

static void unassign(struct lane *lane)
{
    lane_free(lane);
    assert_int_equal(rd_kafka_assign(consumer, NULL), 0);
}

static void serve(void)
{
    rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
    if (m != NULL)
        rd_kafka_message_destroy(m);
}

static void find_end(struct lane *lane)
{
    int polls = 0;
    while (!lane_end_is_found(lane) && polls++ < MOST_POLLS)
        serve();
    assert_true(lane_end_is_found(lane));
}

static void the_end_of_an_empty_stretch_is_found(void **state)
{
    (void)state;
    struct lane *lane = assign(RD_KAFKA_OFFSET_END);
    find_end(lane);
    unassign(lane);
}

/* What was fetched for an earlier assignment stays in the queue until somebody takes it out. */
static void what_is_left_of_an_earlier_assignment_is_no_end(void **state)
{
    (void)state;
    struct lane *lane = assign(0);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_partition(consumer, TOPIC, 0);
    for (int i = 0; i < MOST_POLLS && rd_kafka_queue_length(queue) < 10; i++)
        serve();
    assert_true(rd_kafka_queue_length(queue) >= 10);
    unassign(lane);

    assert_int_equal(rd_kafka_mock_broker_push_request_error_rtts(mock.cluster, 1, LIST_OFFSETS, 1,
                                                                  RD_KAFKA_RESP_ERR_NO_ERROR, 1000),
                     0);
    lane = assign(RD_KAFKA_OFFSET_END);
    assert_true(rd_kafka_queue_length(queue) >= 10); /* else this shows nothing */
    assert_false(lane_end_is_found(lane));
    find_end(lane);
    rd_kafka_queue_destroy(queue);
    unassign(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(the_end_of_an_empty_stretch_is_found),
        TEST(what_is_left_of_an_earlier_assignment_is_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
