/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config.h"
#include "lane.h"

#include <librdkafka/rdkafka_mock.h> /* which needs rdkafka.h before it */

#define TOPIC        "tier"
#define LIST_OFFSETS 2 /* the protocol's number */
#define POLL_MS      10
#define MOST_POLLS   3000

static struct rp_config config = {
    .tiers = {{.topic = (char[]){TOPIC}, .length_ms = 1000, .reach_ms = 10000}}, .n_tiers = 1};
static rd_kafka_t *producer, *consumer;
static rd_kafka_mock_cluster_t *cluster;
static int wake_fd;

static rd_kafka_t *new_client(rd_kafka_type_t type, const char *const (*properties)[2], size_t n)
{
    char text[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (size_t i = 0; i < n; i++)
        assert_int_equal(
            rd_kafka_conf_set(conf, properties[i][0], properties[i][1], text, sizeof text), 0);
    rd_kafka_t *rk = rd_kafka_new(type, conf, text, sizeof text);
    assert_non_null(rk);
    return rk;
}

static void produce(int n)
{
    while (n-- > 0)
        assert_int_equal(
            rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(TOPIC), RD_KAFKA_V_VALUE((char[]){"x"}, 1),
                              RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
            0);
    assert_int_equal(rd_kafka_flush(producer, 10000), 0);
}

static int set_up(void **state)
{
    (void)state;
    const char *const of_producer[][2] = {{"test.mock.num.brokers", "2"}, {"linger.ms", "0"}};
    producer = new_client(RD_KAFKA_PRODUCER, of_producer, 2);
    cluster = rd_kafka_handle_mock_cluster(producer);
    assert_int_equal(rd_kafka_mock_topic_create(cluster, TOPIC, 1, 1), 0);
    assert_int_equal(rd_kafka_mock_partition_set_leader(cluster, TOPIC, 0, 1), 0);
    const char *const of_consumer[][2] = {
        {"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster)},
        {"group.id", "group"},
        {"enable.auto.commit", "false"},
        {"enable.partition.eof", "true"},
        {"fetch.wait.max.ms", "10"},
    };
    consumer = new_client(RD_KAFKA_CONSUMER, of_consumer, 5);
    assert_int_equal(rd_kafka_poll_set_consumer(consumer), 0);
    wake_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(wake_fd >= 0);
    produce(10);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rd_kafka_destroy(consumer);
    rd_kafka_destroy(producer);
    (void)close(wake_fd);
    return 0;
}

static rd_kafka_topic_partition_list_t *at(int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, TOPIC, 0)->offset = offset;
    return list;
}

static struct lane *assign(int64_t offset)
{
    struct rp_error err;
    struct lane *lane;
    rd_kafka_topic_partition_list_t *one = at(offset);
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

    assert_int_equal(rd_kafka_mock_broker_push_request_error_rtts(cluster, 1, LIST_OFFSETS, 1,
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
