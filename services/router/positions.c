/* SPDX-License-Identifier: Apache-2.0 */
#include "positions.h"

#include <stdlib.h>

#include "array.h"

#define NONE INT64_MIN /* before any offset, and not the one before the first */

struct position *positions_find(const struct positions *p, int32_t partition)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].partition == partition)
            return &p->items[i];
    return NULL;
}

static struct position *find_or_add(struct positions *p, int32_t partition, struct rp_error *err)
{
    struct position *known = positions_find(p, partition);
    if (known != NULL)
        return known;
    struct position *items = rp_array_grow(p->items, p->n, &p->cap, sizeof *items);
    if (items == NULL) {
        (void)rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a partition");
        return NULL;
    }
    p->items = items;
    p->items[p->n] =
        (struct position){.partition = partition, .epoch = -1, .next = -1, .repeated = NONE};
    return &p->items[p->n++];
}

int positions_set(struct positions *p, int32_t partition, int64_t next, struct rp_error *err)
{
    struct position *known = find_or_add(p, partition, err);
    if (known == NULL)
        return -1;
    known->next = next; /* the epoch stays: nothing that was read is younger than the last record */
    known->end = known->whole = 0;
    return 0;
}

void positions_forget(struct positions *p, int32_t partition)
{
    struct position *known = positions_find(p, partition);
    if (known != NULL)
        *known = p->items[--p->n];
}

void positions_clear(struct positions *p)
{
    free(p->items);
    *p = (struct positions){0};
}

int positions_ended(struct positions *p, int32_t partition, int64_t end, struct rp_error *err)
{
    struct position *known = find_or_add(p, partition, err);
    if (known == NULL)
        return -1;
    known->end = end;
    return 0;
}

int64_t positions_reached(const struct positions *p, int32_t partition)
{
    const struct position *known = positions_find(p, partition);
    return known == NULL ? 0 : known->end > known->next ? known->end : known->next;
}

int64_t positions_next(const struct positions *p, int32_t partition)
{
    const struct position *known = positions_find(p, partition);
    return known == NULL ? -1 : known->next;
}

enum position_kind position_look(const struct position *known, int64_t offset, int32_t epoch)
{
    if (known == NULL || offset >= known->next)
        return POSITION_NEXT;
    /* Epochs rise with the offsets of a log, so an older record has no younger one. */
    if (known->epoch >= 0 && epoch > known->epoch)
        return POSITION_CUT;
    return offset == known->repeated + 1 ? POSITION_REPEAT : POSITION_ASK;
}

int positions_advance(struct positions *p, int32_t partition, int64_t offset, int32_t epoch,
                      struct rp_error *err)
{
    struct position *known = find_or_add(p, partition, err);
    if (known == NULL)
        return -1;
    known->next = offset + 1;
    known->epoch = epoch;
    known->repeated = NONE;
    return 0;
}
