/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define TELL_MS 1000

struct part *parts_find(const struct parts *p, int32_t partition)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].claim.partition == partition)
            return &p->items[i];
    return NULL;
}

static int reserve(struct parts *p, size_t n, struct rp_error *err)
{
    if (n <= p->cap)
        return 0;
    size_t cap = n < 8 ? 8 : 2 * n;
    struct part *items = realloc(p->items, cap * sizeof *items);
    if (items == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a partition");
    p->items = items;
    p->cap = cap;
    return 0;
}

int parts_add(struct parts *p, int32_t partition, struct metrics_archiver *metrics,
              struct rp_error *err)
{
    if (parts_find(p, partition) != NULL)
        return 0;
    if (reserve(p, p->n + 1, err) != 0)
        return -1;
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

static int64_t archived_to(const struct store_claim *c, int64_t seen_end)
{
    return seen_end > c->next_offset ? seen_end : c->next_offset;
}

int parts_tell_ends(struct parts *p, struct store *store, int64_t now_mono_ms, bool *out_lost,
                    struct rp_error *err)
{
    size_t n = 0;
    *out_lost = false;
    if (now_mono_ms < p->tell_mono_ms)
        return 0;
    p->tell_mono_ms = now_mono_ms + TELL_MS;
    struct store_claim *claims = calloc(p->n + 1, sizeof *claims);
    if (claims == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for partitions");
    for (size_t i = 0; i < p->n; i++) {
        struct part *part = &p->items[i];
        struct store_claim *claim = &part->claim;
        if (!part->live || part->position != claim->next_offset || part->end == 0 ||
            archived_to(claim, part->end) == archived_to(claim, claim->seen_end))
            continue;
        claim->seen_end = part->end;
        claims[n++] = *claim;
    }
    int failed = n == 0 ? 0 : store_tell_ends(store, claims, n, err);
    for (size_t i = 0; i < n && failed == 0; i++) {
        parts_find(p, claims[i].partition)->claim = claims[i];
        *out_lost = *out_lost || claims[i].epoch == 0;
    }
    free(claims);
    return failed;
}

bool parts_all_live(const struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (!p->items[i].live)
            return false;
    return true;
}

int parts_copy(struct parts *to, const struct parts *from, struct rp_error *err)
{
    if (reserve(to, from->n, err) != 0)
        return -1;
    to->n = from->n;
    if (from->n > 0)
        memcpy(to->items, from->items, from->n * sizeof *from->items);
    return 0;
}

void parts_clear(struct parts *p)
{
    free(p->items);
    *p = (struct parts){0};
}
