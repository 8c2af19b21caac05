/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARRIVALS_H
#define REPRISE_ARRIVALS_H

#include <librdkafka/rdkafka.h>

#include <stdbool.h>

#include "reprise/error.h"

/* The partitions of a topic that a consumer was given and does not read yet, since the committed
 * offset is not known: a predecessor's transaction may be under way. Nobody waits for them. One
 * thread. */
struct arrivals;

/* `client` is the consumer, and borrowed. */
RP_NODISCARD int arrivals_new(rd_kafka_t *client, const char *group, const char *topic,
                              struct arrivals **out, struct rp_error *err);
void arrivals_free(struct arrivals *a);

/* The partition is to begin at its committed offset, or anew there. What comes of it until then is
 * dropped. A partition that comes is assigned at RD_KAFKA_OFFSET_END: librdkafka would look the
 * offset up itself, but when the assignment changes while that is not known, it takes it for none,
 * and begins at the log's beginning. */
RP_NODISCARD int arrivals_add(struct arrivals *a, int32_t partition, struct rp_error *err);
void arrivals_remove(struct arrivals *a, int32_t partition);

/* Asks for what is not known, and begins with what is. Call it again and again. */
void arrivals_serve(struct arrivals *a);

/* How many partitions wait for their offset. */
size_t arrivals_waiting(const struct arrivals *a);
/* Whether a record of the partition comes too early, and is to be dropped. */
bool arrivals_holds(const struct arrivals *a, int32_t partition);

#endif
