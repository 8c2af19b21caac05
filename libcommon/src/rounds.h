/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ROUNDS_H
#define REPRISE_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/bytes.h"

#define RP_ROUNDS_TOPICS 16

/* librdkafka lays up to batch.size bytes of records into one batch, for all topics alike, and a
 * topic may take less than that. What goes there is sent in rounds: as many records as one batch
 * may have, all acknowledged before the next ones. A zeroed one is ready. */
struct rp_rounds {
    struct {
        char topic[250];
        int64_t bytes;
    } items[RP_ROUNDS_TOPICS]; /* sent in this round */
    size_t n;
};

/* Takes a record of `bytes` into the round if it fits: a batch of `topic` has at most `max_bytes`.
 * False: the round is full; clear it once all of it is acknowledged. The first record of a topic
 * fits, unless RP_ROUNDS_TOPICS others are in it. A topic's name has RP_MAX_TOPIC_NAME bytes at
 * most. */
bool rp_rounds_take(struct rp_rounds *r, struct rp_bytes topic, int64_t bytes, int64_t max_bytes);
void rp_rounds_clear(struct rp_rounds *r);

#endif
