/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_HEAP_H
#define REPRISE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A binary min-heap of numbers that stand for items of the caller's. It knows nothing of them but
 * which of two goes first. Push and pop in O(log n). Not thread-safe. */
typedef bool heap_before_fn(const void *opaque, uint32_t a, uint32_t b);

struct heap {
    uint32_t *ids; /* ids[0] goes first */
    size_t n, cap;
    heap_before_fn *before;
    const void *opaque;
};

void heap_init(struct heap *h, heap_before_fn *before, const void *opaque);
void heap_clear(struct heap *h);

/* Makes the room exactly `cap` items, at least those in it. False when there is no memory. */
bool heap_resize(struct heap *h, size_t cap);
/* Needs room. */
void heap_push(struct heap *h, uint32_t id);
/* Takes out the first. Needs an item. */
uint32_t heap_pop(struct heap *h);

#endif
