/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TURNS_H
#define REPRISE_TURNS_H

#include "producer.h"

/* A publisher's producers: with transactions three, by turns, so that the coordinator may end one's
 * transaction while the next one's is acknowledged and a third one's filled; else one. Zeroed there
 * are none. One thread, but for `unanswered`. */

#define RP_TURNS 3

struct rp_turns {
    rd_kafka_t *producers[RP_TURNS]; /* NULL: to be made */
    size_t n, next;                  /* whose turn it is */
    uint64_t made;                   /* how often they were */
    atomic_bool unanswered;          /* a request of a transaction was not */
    bool worn;                       /* the caller's: they are to be made anew */
};

/* Makes those of `spec` (whose `unanswered` is set here), which fence what others of the same id
 * had left open. There are none. Blocks for seconds at most. */
RP_NODISCARD int rp_turns_make(struct rp_turns *t, const struct rp_producer_spec *spec,
                               struct rp_error *err);
/* Whether one of them can do nothing any more, with a line in the log. */
bool rp_turns_failed(const struct rp_turns *t);
rd_kafka_t *rp_turns_take(struct rp_turns *t);
/* Drops what they have under way. */
void rp_turns_destroy(struct rp_turns *t);

#endif
