/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TRIM_H
#define REPRISE_TRIM_H

#include <stdbool.h>

#include <librdkafka/rdkafka.h>

#include "reprise/error.h"

/* Deletes what is settled from the tiers (DeleteRecords), since they keep records for ever. Never
 * waits: one request at a time is under way, and its failure is logged. */
struct trimmer;

RP_NODISCARD int trimmer_new(rd_kafka_t *client, struct trimmer **out, struct rp_error *err);
void trimmer_free(struct trimmer *t);

/* Whether it is time for the next request. */
bool trimmer_is_due(struct trimmer *t);
/* Whether the last one failed, of some partition at least, and is to be made again. */
bool trimmer_failed(const struct trimmer *t);
/* Asks to delete what lies below each partition's offset. An empty list only sets the next time. */
void trimmer_start(struct trimmer *t, const rd_kafka_topic_partition_list_t *offsets);

#endif
