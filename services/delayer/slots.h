/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SLOTS_H
#define REPRISE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint.h"

/* A growing pool of the records that a frontier holds, chained in offset order. A slot is named by
 * its index in `at`, so that a name takes 4 bytes and outlives a reallocation. */
#define NO_SLOT UINT32_MAX

struct slot {
    struct settle_key key;
    uint64_t handle;
    uint32_t prev, next; /* in offset order; `next` also chains the free slots */
    uint32_t link;       /* the next one in the queue it stands in */
    bool lap, in_flight;
};

struct slots {
    struct slot *at;
    size_t n, n_used;
    uint32_t first, last; /* of those in use, in offset order */
    uint32_t free;
};

void slots_init(struct slots *s);
void slots_clear(struct slots *s);

/* Adds free slots until there are `n`. False when there is no memory. */
bool slots_grow(struct slots *s, size_t n);
/* Takes a free slot, of which there must be one, as the last in offset order. */
uint32_t slots_append(struct slots *s, const struct slot *value);
void slots_free(struct slots *s, uint32_t id);
/* Moves those in use together into a pool of `n` slots and gives the other memory back. `ids`
 * names each slot in use once, and is given their new names. False, with all as it was, when there
 * is no memory. */
bool slots_shrink(struct slots *s, size_t n, uint32_t *ids);

/* A queue of slots, through their links. */
struct slot_queue {
    uint32_t head, tail;
    size_t n;
};

static inline void slot_queue_put(struct slots *s, struct slot_queue *q, uint32_t id)
{
    s->at[id].link = NO_SLOT;
    if (q->n++ == 0)
        q->head = id;
    else
        s->at[q->tail].link = id;
    q->tail = id;
}

/* Needs a slot in the queue. */
static inline uint32_t slot_queue_take(struct slots *s, struct slot_queue *q)
{
    uint32_t id = q->head;
    q->head = s->at[id].link;
    q->n--;
    return id;
}

#endif
