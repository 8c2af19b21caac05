/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_POSITIONS_H
#define REPRISE_POSITIONS_H

#include <stddef.h>
#include <stdint.h>

#include "reprise/error.h"

/* The next offset that is expected of each partition. librdkafka may hand out a record once more
 * where a rebalance pauses its partition, and one before the expected offset is such a repeat; or
 * else the log was cut (by an unclean election, or the topic was made anew), librdkafka has gone
 * back by itself, and the record is another one. A zeroed one is ready; not thread-safe. */
struct position {
    int32_t partition;
    int32_t epoch;    /* the partition leader's, of the last record; -1: not known */
    int32_t looked;   /* rp_kafka_look_back */
    int64_t next;     /* the offset that is expected; -1: not known */
    int64_t repeated; /* the last one that came once more: those behind it are repeats, too */
    int64_t end;      /* the log's, where it was told since the partition was sought, else 0 */
    int64_t whole;    /* nothing is missing below, be it marks that expire; 0: not known */
};

struct positions {
    struct position *items;
    size_t n, cap;
};

enum position_kind {
    POSITION_NEXT,   /* the record is to be read on */
    POSITION_REPEAT, /* it came before */
    POSITION_CUT,    /* it took the place of what was cut off */
    POSITION_ASK,    /* a repeat if the log still goes up to the expected offset, else the same */
};

/* NULL: nothing is known of the partition. */
struct position *positions_find(const struct positions *p, int32_t partition);
/* Sets what is expected next, where the partition is sought. Fails with RP_E_NOMEM. */
RP_NODISCARD int positions_set(struct positions *p, int32_t partition, int64_t next,
                               struct rp_error *err);
void positions_forget(struct positions *p, int32_t partition);
void positions_clear(struct positions *p);

/* The log's end was told. Fails with RP_E_NOMEM. */
RP_NODISCARD int positions_ended(struct positions *p, int32_t partition, int64_t end,
                                 struct rp_error *err);
/* Up to which offset all came, be it marks of transactions; 0: not known. */
int64_t positions_reached(const struct positions *p, int32_t partition);

/* The offset that is expected; -1: not known. */
int64_t positions_next(const struct positions *p, int32_t partition);

/* What a record is that came; of an unknown partition (NULL) any is the next. `epoch` as librdkafka
 * says, -1 where the brokers do not. */
enum position_kind position_look(const struct position *known, int64_t offset, int32_t epoch);
/* The record is read on. Fails with RP_E_NOMEM. */
RP_NODISCARD int positions_advance(struct positions *p, int32_t partition, int64_t offset,
                                   int32_t epoch, struct rp_error *err);

#endif
