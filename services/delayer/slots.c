/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include <assert.h>
#include <stdlib.h>

void slots_init(struct slots *s)
{
    *s = (struct slots){.first = NO_SLOT, .last = NO_SLOT, .free = NO_SLOT};
}

void slots_clear(struct slots *s)
{
    free(s->at);
    slots_init(s);
}

static void chain_free(struct slots *s, size_t from, size_t to)
{
    while (to-- > from) {
        s->at[to].next = s->free;
        s->free = (uint32_t)to;
    }
}

bool slots_grow(struct slots *s, size_t n)
{
    if (n >= NO_SLOT)
        return false;
    struct slot *at = reallocarray(s->at, n, sizeof *at);
    if (at == NULL)
        return false;
    s->at = at;
    chain_free(s, s->n, n);
    s->n = n;
    return true;
}

uint32_t slots_append(struct slots *s, const struct slot *value)
{
    assert(s->free != NO_SLOT);
    uint32_t id = s->free;
    struct slot *slot = &s->at[id];
    s->free = slot->next;
    *slot = *value;
    slot->prev = s->last;
    slot->next = NO_SLOT;
    if (s->last == NO_SLOT)
        s->first = id;
    else
        s->at[s->last].next = id;
    s->last = id;
    s->n_used++;
    return id;
}

void slots_free(struct slots *s, uint32_t id)
{
    struct slot *slot = &s->at[id];
    if (slot->prev == NO_SLOT)
        s->first = slot->next;
    else
        s->at[slot->prev].next = slot->next;
    if (slot->next == NO_SLOT)
        s->last = slot->prev;
    else
        s->at[slot->next].prev = slot->prev;
    slot->next = s->free;
    s->free = id;
    s->n_used--;
}

bool slots_shrink(struct slots *s, size_t n, uint32_t *ids)
{
    assert(n >= s->n_used && n > 0);
    struct slots small;
    slots_init(&small);
    if (!slots_grow(&small, n))
        return false;
    for (uint32_t id = s->first; id != NO_SLOT; id = s->at[id].next)
        s->at[id].link = slots_append(&small, &s->at[id]);
    for (size_t i = 0; i < s->n_used; i++)
        ids[i] = s->at[ids[i]].link;
    free(s->at);
    *s = small;
    return true;
}
