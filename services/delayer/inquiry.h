/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_INQUIRY_H
#define REPRISE_INQUIRY_H

#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

#include "reprise/error.h"

/* Asks for the committed state (offset and metadata) of partitions without waiting for the answer:
 * while a predecessor's transaction is still under way there is none, and the partitions that a
 * worker has already must not wait with the new ones. One question at a time. */
struct inquiry;

/* `stable`: no answer while a transaction with the offsets is under way. `client` and `group` are
 * borrowed. */
RP_NODISCARD int inquiry_new(rd_kafka_t *client, const char *group, bool stable, int wake_fd,
                             struct inquiry **out, struct rp_error *err);
void inquiry_free(struct inquiry *q);

/* Asks about `parts`, unless a question is under way or the last one was just now. `epoch` comes
 * back with the answer. */
void inquiry_ask(struct inquiry *q, const rd_kafka_topic_partition_list_t *parts, uint64_t epoch);

/* The answer, the caller's to destroy; NULL while there is none. Partitions whose `err` is set have
 * no state yet. */
rd_kafka_topic_partition_list_t *inquiry_answer(struct inquiry *q, uint64_t *out_epoch);

#endif
