/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arrivals.h"
#include "config.h"

#include <librdkafka/rdkafka_mock.h> /* which needs rdkafka.h before it */

#define TOPIC        "events"
#define LIST_OFFSETS 2 /* the protocol's number */
#define COMMITTED    3
#define POLL_MS      10
#define MOST_POLLS   3000

static struct rp_config config = {.topics = {.failed_tasks = (char[]){TOPIC}}};
static rd_kafka_t *producer, *consumer;
static rd_kafka_mock_cluster_t *cluster;
static struct arrivals *arrivals;
static bool busy; /* records come all the while */

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

static rd_kafka_topic_partition_list_t *at(int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, TOPIC, 0)->offset = offset;
    return list;
}

static int set_up(void **state)
{
    struct rp_error err;
    (void)state;
    const char *const of_producer[][2] = {{"test.mock.num.brokers", "2"}, {"linger.ms", "0"}};
    producer = new_client(RD_KAFKA_PRODUCER, of_producer, 2);
    cluster = rd_kafka_handle_mock_cluster(producer);
    assert_int_equal(rd_kafka_mock_topic_create(cluster, TOPIC, 1, 1), 0);
    /* A broker answers in turn, so the one that is asked for the end is not the one that is asked
     * for offsets. */
    assert_int_equal(rd_kafka_mock_partition_set_leader(cluster, TOPIC, 0, 1), 0);
    assert_int_equal(rd_kafka_mock_coordinator_set(cluster, "group", "group", 2), 0);
    const char *const of_consumer[][2] = {
        {"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster)},
        {"group.id", "group"},
        {"enable.auto.commit", "false"},
        {"enable.partition.eof", "true"},
        {"fetch.wait.max.ms", "10"},
    };
    consumer = new_client(RD_KAFKA_CONSUMER, of_consumer, 5);
    assert_int_equal(rd_kafka_poll_set_consumer(consumer), 0);
    busy = false;
    produce(10);
    rd_kafka_topic_partition_list_t *committed = at(COMMITTED);
    assert_int_equal(rd_kafka_commit(consumer, committed, 0), 0);
    rd_kafka_topic_partition_list_destroy(committed);
    /* So that it knows the partition's leader, as a consumer does that has run for a while. */
    int64_t low, high;
    assert_int_equal(rd_kafka_query_watermark_offsets(consumer, TOPIC, 0, &low, &high, 10000), 0);
    return arrivals_new(&config, consumer, "group", &arrivals, &err);
}

static int tear_down(void **state)
{
    (void)state;
    arrivals_free(arrivals);
    rd_kafka_destroy(consumer);
    rd_kafka_destroy(producer);
    return 0;
}

static void assign(bool recall)
{
    struct rp_error err;
    rd_kafka_topic_partition_list_t *end = at(RD_KAFKA_OFFSET_END);
    assert_int_equal(rd_kafka_assign(consumer, end), 0);
    rd_kafka_topic_partition_list_destroy(end);
    assert_int_equal(arrivals_add(arrivals, 0, recall, &err), 0);
}

/* The offset of the next record to be read on or recalled; `kind` says which. */
static int64_t next(enum arrival *kind)
{
    for (int i = 0; i < MOST_POLLS; i++) {
        int64_t offset = -1;
        produce(busy);
        arrivals_serve(arrivals);
        rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            arrivals_end_found(arrivals, m->partition);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            *kind = arrivals_take(arrivals, m);
            offset = *kind == ARRIVAL_EARLY ? -1 : m->offset;
        }
        if (m != NULL)
            rd_kafka_message_destroy(m);
        if (offset >= 0)
            return offset;
    }
    fail_msg("no record came");
    return -1;
}

static void a_partition_begins_at_its_committed_offset(void **state)
{
    enum arrival kind;
    (void)state;
    assign(false);
    for (int64_t offset = COMMITTED; offset < 10; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_NONE);
    }
}

static void what_lies_before_it_is_recalled(void **state)
{
    enum arrival kind;
    (void)state;
    assign(true);
    for (int64_t offset = 0; offset < 10; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, offset < COMMITTED ? ARRIVAL_RECALL : ARRIVAL_NONE);
    }
}

/* librdkafka asks again for an end that it was told of too late, and goes there. */
static void nothing_is_passed_over_when_the_end_is_told_late(void **state)
{
    enum arrival kind;
    (void)state;
    assert_int_equal(rd_kafka_mock_broker_push_request_error_rtts(cluster, 1, LIST_OFFSETS, 1,
                                                                  RD_KAFKA_RESP_ERR_NO_ERROR, 500),
                     0);
    assign(false);
    busy = true;
    for (int64_t offset = COMMITTED; offset < 120; offset++)
        assert_int_equal(next(&kind), offset);
}

/* The question where the end is may be answered yet, and librdkafka would then go there. */
static void a_partition_that_left_before_its_end_was_found_needs_a_new_client(void **state)
{
    struct rp_error err;
    (void)state;
    assert_int_equal(arrivals_add(arrivals, 0, false, &err), 0);
    arrivals_remove(arrivals, 0);
    assert_int_equal(arrivals_add(arrivals, 0, false, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    arrivals_remove(arrivals, 0);

    assert_int_equal(arrivals_add(arrivals, 1, false, &err), 0);
    arrivals_end_found(arrivals, 1);
    arrivals_remove(arrivals, 1);
    assert_int_equal(arrivals_add(arrivals, 1, false, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_partition_begins_at_its_committed_offset),
        TEST(what_lies_before_it_is_recalled),
        TEST(nothing_is_passed_over_when_the_end_is_told_late),
        TEST(a_partition_that_left_before_its_end_was_found_needs_a_new_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
