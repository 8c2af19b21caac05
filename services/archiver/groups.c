/* SPDX-License-Identifier: Apache-2.0 */
#include "groups.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64

/* A fingerprint is a hash already. */
static int64_t *slot_of(int64_t *slots, size_t n_slots, int64_t fingerprint)
{
    size_t i = (uint64_t)fingerprint & (n_slots - 1);
    while (slots[i] != 0 && slots[i] != fingerprint)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static bool grow(struct groups *g)
{
    size_t n = g->n_slots == 0 ? FIRST_SLOTS : 2 * g->n_slots;
    int64_t *slots = calloc(n, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < g->n_slots; i++)
        if (g->slots[i] != 0)
            *slot_of(slots, n, g->slots[i]) = g->slots[i];
    free(g->slots);
    g->slots = slots;
    g->n_slots = n;
    return true;
}

bool groups_add(struct groups *g, int64_t fingerprint)
{
    if (2 * g->n >= g->n_slots && !grow(g))
        return true;
    int64_t *slot = slot_of(g->slots, g->n_slots, fingerprint);
    if (*slot != 0)
        return false;
    *slot = fingerprint;
    g->n++;
    return true;
}

void groups_drop(struct groups *g)
{
    if (g->n > 0)
        memset(g->slots, 0, g->n_slots * sizeof *g->slots);
    g->n = 0;
    g->rows.buf.len = 0;
}

void groups_clear(struct groups *g)
{
    rp_buf_clear(&g->rows.buf);
    free(g->slots);
    *g = (struct groups){0};
}
