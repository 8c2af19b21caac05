/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_HELD_H
#define REPRISE_HELD_H

#include "arena.h"
#include "publisher.h"

/* Records that wait to be produced, copied. Zeroed it is empty. */

struct rp_held_record {
    struct rp_outgoing record;   /* without its headers, which are */
    rd_kafka_headers_t *headers; /* this; NULL: somebody has taken them */
};

struct rp_held {
    struct rp_held_record *items;
    size_t n, cap;
    struct rp_arena arena;
};

/* Takes `headers`, also when it fails. */
RP_NODISCARD int rp_held_add(struct rp_held *h, const struct rp_outgoing *record,
                             rd_kafka_headers_t *headers, struct rp_error *err);
/* Holds none any more. Their bytes stay until the reset, for who sends them without a copy. */
void rp_held_drop(struct rp_held *h);
void rp_held_reset(struct rp_held *h);
void rp_held_clear(struct rp_held *h);

#endif
