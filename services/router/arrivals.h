/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARRIVALS_H
#define REPRISE_ARRIVALS_H

#include <stdbool.h>

#include <librdkafka/rdkafka.h>

#include "config.h"
#include "positions.h"

/* The partitions of a topic that a consumer was given and does not read on yet. First the committed
 * offset must be known, and it is not while a predecessor's transaction is under way; nobody waits
 * for that. Then the last records before it are read again, so that the worker recalls what its
 * predecessor knew: a bounded number, and bounded bytes. One thread. */
struct arrivals;

enum arrival {
    ARRIVAL_NONE,   /* the record is to be read on */
    ARRIVAL_DROP,   /* it comes before its time, or once more */
    ARRIVAL_RECALL, /* it lies before the committed offset: only recall it */
    ARRIVAL_CUT,    /* to be read on, in the place of one that was cut off (the intake tells) */
};

/* A log was cut: it ends at `from`, where other records come now, and what was there up to
 * `expected` had been read on. */
struct log_cut {
    int32_t partition;
    int64_t from, expected;
};

/* `client` is the consumer; it and `positions`, which are told where reading begins, are
 * borrowed. */
RP_NODISCARD int arrivals_new(const struct rp_config *config, rd_kafka_t *client, const char *group,
                              struct positions *positions, struct arrivals **out,
                              struct rp_error *err);
void arrivals_free(struct arrivals *a);

/* The partition, which is held (rp_kafka_hold) or read, is to begin at its committed offset;
 * `recall`: a stretch before it. What comes of it until then is dropped. */
RP_NODISCARD int arrivals_add(struct arrivals *a, int32_t partition, bool recall,
                              struct rp_error *err);
/* The partition's end was reported (RD_KAFKA_RESP_ERR__PARTITION_EOF). Where it comes before the
 * committed offset, and still does after a while, the log was cut, and what lies there now may be
 * new: it is read on from where the recall began. */
void arrivals_end_met(struct arrivals *a, const rd_kafka_message_t *m);
void arrivals_remove(struct arrivals *a, int32_t partition);

/* Asks for what is not known, and begins with what is. Call it again and again. Returns a partition
 * whose log turned out to be cut, and is read on now; NULL: none did. */
const struct log_cut *arrivals_serve(struct arrivals *a);

/* How many partitions wait for their offset. */
size_t arrivals_waiting(const struct arrivals *a);

/* What a record that came is to its partition. */
enum arrival arrivals_take(struct arrivals *a, const rd_kafka_message_t *m);

/* What that would be which comes next and cannot be read. Of what is recalled nothing more is
 * wanted then: it is to be read on from `until`. */
enum arrival arrivals_cut(struct arrivals *a, int32_t partition, int64_t *until);

#endif
