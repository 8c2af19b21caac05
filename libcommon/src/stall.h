/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_STALL_H
#define REPRISE_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

#include "reprise/error.h"

/* Finds a partition of which nothing comes although its log goes on. librdkafka has stopped to
 * fetch one after brokers changed, for good and without a word (its issue 4492 is of one such
 * case); a new consumer goes on. A zeroed one is ready; one thread. */
struct rp_stall {
    int64_t look_mono_ms;                    /* the next look */
    rd_kafka_topic_partition_list_t *before; /* what the last look was given */
    rd_kafka_queue_t *answer; /* where brokers say how far logs go; NULL: not asked */
};

/* Time for a look. */
bool rp_stall_due(const struct rp_stall *s);
/* `parts`, which is taken: those that are read and of which all that came was taken up, each with
 * the offset up to which it came, as records or as its end. FATAL and RP_E_FENCED where one of
 * them stood there at the last two looks already, and at the one between brokers said that it goes
 * on: `consumer` is of no use any more, and a new one may be. */
RP_NODISCARD int rp_stall_look(struct rp_stall *s, rd_kafka_t *consumer,
                               rd_kafka_topic_partition_list_t *parts, struct rp_error *err);
/* The partition does not stand still, wherever it is found then: it was sought, or an error came.
 */
void rp_stall_heard(struct rp_stall *s, const char *topic, int32_t partition);
/* Comes before the consumer is closed. */
void rp_stall_clear(struct rp_stall *s);

#endif
