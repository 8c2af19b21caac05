/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_BATCH_H
#define REPRISE_BATCH_H

#include <librdkafka/rdkafka.h>

#include <stdbool.h>

#include "reprise/error.h"

/* How far the batch under way takes each partition. A zeroed one is ready. */
struct batch_span {
    int32_t partition;
    int64_t first; /* where to read again when the batch fails */
    int64_t next;  /* the offset to commit; equal to first: nothing was taken */
};

struct batch {
    struct batch_span *spans;
    size_t n_spans, cap_spans;
    int64_t began_mono_ms;
    int64_t ended_mono_us; /* when it was full, or nothing more was waited for */
    bool urgent;           /* something in it is due soon */
};

void batch_clear(struct batch *b);
/* Empties it for the next round. */
void batch_reset(struct batch *b);

/* Notes that the batch has come to this record, without taking it. Where it lies before others that
 * were taken, the log was cut: those are neither committed nor read again. What was sent off before
 * is committed as it was. */
RP_NODISCARD int batch_reach(struct batch *b, int32_t partition, int64_t offset,
                             struct rp_error *err);
/* Takes the record that was reached. */
void batch_take(struct batch *b, int32_t partition, int64_t offset);

/* Where it began with the partition, if that is before `offset`, else that. */
int64_t batch_first(const struct batch *b, int32_t partition, int64_t offset);

/* The offsets to commit; the caller's to destroy. */
rd_kafka_topic_partition_list_t *batch_offsets(const struct batch *b, const char *topic);
/* Adds to `list` where to read again, unless that is before it already. */
void batch_begins(const struct batch *b, const char *topic, rd_kafka_topic_partition_list_t *list);

#endif
