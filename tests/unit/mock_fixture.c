/* SPDX-License-Identifier: Apache-2.0 */
#include "mock_fixture.h"

#include "kafka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "config_fixture.h"

#define FLUSH_MS 10000

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

void mock_start(struct mock *m, int brokers, const char *topic)
{
    char n[12];
    (void)snprintf(n, sizeof n, "%d", brokers);
    /* Compressed, since the mock brokers keep 5 MiB of a partition. */
    const char *const properties[][2] = {
        {"test.mock.num.brokers", n}, {"linger.ms", "0"}, {"compression.codec", "lz4"}};
    m->producer = new_client(RD_KAFKA_PRODUCER, properties, 3);
    m->cluster = rd_kafka_handle_mock_cluster(m->producer);
    assert_non_null(m->cluster);
    rd_kafka_mock_group_initial_rebalance_delay_ms(m->cluster, 10);
    assert_int_equal(rd_kafka_mock_topic_create(m->cluster, topic, 1, brokers), 0);
    assert_int_equal(rd_kafka_mock_partition_set_leader(m->cluster, topic, 0, 1), 0);
}

void mock_stop(struct mock *m)
{
    rd_kafka_destroy(m->producer);
}

struct rp_config *mock_config(const struct mock *m)
{
    char text[300];
    (void)snprintf(text, sizeof text,
                   "kafka: {bootstrap.servers: \"%s\", topic.metadata.refresh.interval.ms: 100}\n"
                   "targets: {allow: [x]}\n",
                   rd_kafka_mock_cluster_bootstraps(m->cluster));
    return load_good(text);
}

rd_kafka_t *mock_consumer(const struct mock *m, const char *group)
{
    const char *const properties[][2] = {
        {"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(m->cluster)},
        {"group.id", group},
        {"enable.auto.commit", "false"},
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "earliest"},
        {"fetch.wait.max.ms", "10"},
    };
    rd_kafka_t *consumer = new_client(RD_KAFKA_CONSUMER, properties, 6);
    assert_int_equal(rd_kafka_poll_set_consumer(consumer), 0);
    return consumer;
}

void mock_assign(rd_kafka_t *consumer, const char *topic)
{
    rd_kafka_topic_partition_list_t *one = mock_at(topic, 0);
    rp_kafka_hold(consumer, one);
    assert_int_equal(rd_kafka_assign(consumer, one), 0);
    rd_kafka_topic_partition_list_destroy(one);
}

size_t mock_requests(const struct mock *m, int16_t api)
{
    size_t n, found = 0;
    rd_kafka_mock_request_t **requests = rd_kafka_mock_get_requests(m->cluster, &n);
    for (size_t i = 0; i < n; i++)
        found += rd_kafka_mock_request_api_key(requests[i]) == api;
    rd_kafka_mock_request_destroy_array(requests, n);
    return found;
}

void mock_produce(const struct mock *m, const char *topic, int n)
{
    while (n-- > 0)
        assert_int_equal(rd_kafka_producev(m->producer, RD_KAFKA_V_TOPIC(topic),
                                           RD_KAFKA_V_VALUE((char[]){"x"}, 1),
                                           RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                           RD_KAFKA_V_END),
                         0);
    assert_int_equal(rd_kafka_flush(m->producer, FLUSH_MS), 0);
}

rd_kafka_topic_partition_list_t *mock_at(const char *topic, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = offset;
    return list;
}
