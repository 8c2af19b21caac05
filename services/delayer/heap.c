/* SPDX-License-Identifier: Apache-2.0 */
#include "heap.h"

#include <assert.h>
#include <stdlib.h>

void heap_init(struct heap *h, heap_before_fn *before, const void *opaque)
{
    *h = (struct heap){.before = before, .opaque = opaque};
}

void heap_clear(struct heap *h)
{
    free(h->ids);
    h->ids = NULL;
    h->n = h->cap = 0;
}

bool heap_resize(struct heap *h, size_t cap)
{
    assert(cap >= h->n && cap > 0);
    uint32_t *ids = reallocarray(h->ids, cap, sizeof *ids);
    if (ids == NULL)
        return false;
    h->ids = ids;
    h->cap = cap;
    return true;
}

void heap_push(struct heap *h, uint32_t id)
{
    assert(h->n < h->cap);
    size_t i = h->n++;
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (!h->before(h->opaque, id, h->ids[parent]))
            break;
        h->ids[i] = h->ids[parent];
        i = parent;
    }
    h->ids[i] = id;
}

uint32_t heap_pop(struct heap *h)
{
    assert(h->n > 0);
    uint32_t first = h->ids[0], id = h->ids[--h->n];
    size_t i = 0;
    for (size_t child = 1; child < h->n; child = 2 * i + 1) {
        if (child + 1 < h->n && h->before(h->opaque, h->ids[child + 1], h->ids[child]))
            child++;
        if (!h->before(h->opaque, h->ids[child], id))
            break;
        h->ids[i] = h->ids[child];
        i = child;
    }
    h->ids[i] = id;
    return first;
}
