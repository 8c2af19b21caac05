/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include <stdlib.h>

struct part *parts_find(const struct parts *p, int32_t partition)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].claim.partition == partition)
            return &p->items[i];
    return NULL;
}

int parts_add(struct parts *p, int32_t partition, struct metrics_archiver *metrics,
              struct rp_error *err)
{
    if (parts_find(p, partition) != NULL)
        return 0;
    if (p->n == p->cap) {
        size_t cap = p->cap == 0 ? 8 : 2 * p->cap;
        struct part *items = realloc(p->items, cap * sizeof *items);
        if (items == NULL)
            return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a partition");
        p->items = items;
        p->cap = cap;
    }
    p->items[p->n++] = (struct part){.claim = {.partition = partition},
                                     .paused = true,
                                     .lag = metrics_archiver_lag(metrics, partition)};
    return 0;
}

void parts_remove(struct parts *p, int32_t partition)
{
    struct part *part = parts_find(p, partition);
    if (part == NULL)
        return;
    rp_series_set(part->lag, 0); /* it is its new owner's to tell */
    *part = p->items[--p->n];
}

bool parts_all_live(const struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (!p->items[i].live)
            return false;
    return true;
}

void parts_clear(struct parts *p)
{
    free(p->items);
    *p = (struct parts){0};
}
