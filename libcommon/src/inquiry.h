/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_INQUIRY_H
#define REPRISE_INQUIRY_H

#include <stdint.h>

#include <librdkafka/rdkafka.h>

#include "config.h"

/* Asks for the committed state (offset and metadata) of partitions without waiting for the answer:
 * while a predecessor's transaction is still under way there is none, and the partitions that a
 * worker has already must not wait with the new ones. One question at a time. */
struct rp_inquiry;

/* `client`, a consumer, is borrowed; `config` is for another one, which asks where that one got no
 * answer (rp_kafka_new_group_client).
 * `wake_fd` is an eventfd that is written to when an answer comes, or -1. */
RP_NODISCARD int rp_inquiry_new(const struct rp_config *config, rd_kafka_t *client,
                                const char *group, int wake_fd, struct rp_inquiry **out,
                                struct rp_error *err);
void rp_inquiry_free(struct rp_inquiry *q);

/* Asks about `parts`, unless a question is under way or the last one was just now. `epoch` comes
 * back with the answer. Of a partition whose offsets are in a transaction under way there is no
 * state. */
void rp_inquiry_ask(struct rp_inquiry *q, const rd_kafka_topic_partition_list_t *parts,
                    uint64_t epoch);

/* The answer, the caller's to destroy; NULL while there is none. Partitions whose `err` is set have
 * no state yet. */
rd_kafka_topic_partition_list_t *rp_inquiry_answer(struct rp_inquiry *q, uint64_t *out_epoch);

#endif
