/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_MOCK_FIXTURE_H
#define REPRISE_MOCK_FIXTURE_H

#include "config.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h> /* which needs rdkafka.h before it */

/* librdkafka's mock cluster, and the producer that it lives in. */
struct mock {
    rd_kafka_t *producer;
    rd_kafka_mock_cluster_t *cluster;
};

/* A cluster of so many brokers with a topic of one partition on all of them, led by the first. */
void mock_start(struct mock *m, int brokers, const char *topic);
void mock_stop(struct mock *m);

/* A configuration for its brokers; the caller's to free. */
struct rp_config *mock_config(const struct mock *m);
/* A consumer that is told of ends and commits nothing by itself; the caller's to destroy. */
rd_kafka_t *mock_consumer(const struct mock *m, const char *group);
/* Gives it the topic's one partition, as a group does: held (rp_kafka_hold). */
void mock_assign(rd_kafka_t *consumer, const char *topic);
/* How many requests of a kind, by the protocol's number, its brokers were sent since
 * rd_kafka_mock_start_request_tracking. */
enum { MOCK_FETCH = 1, MOCK_LIST_OFFSETS = 2, MOCK_ADD_PARTITIONS = 24 };
size_t mock_requests(const struct mock *m, int16_t api);
/* Appends `n` records, and waits for that. */
void mock_produce(const struct mock *m, const char *topic, int n);

/* The topic's one partition at an offset; the caller's to destroy. */
rd_kafka_topic_partition_list_t *mock_at(const char *topic, int64_t offset);

#endif
