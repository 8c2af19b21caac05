/* SPDX-License-Identifier: Apache-2.0 */
#include "held.h"

#include <stdlib.h>

#include "array.h"

static bool make_room(struct rp_held *h)
{
    struct rp_held_record *items = rp_array_grow(h->items, h->n, &h->cap, sizeof *items);
    if (items != NULL)
        h->items = items;
    return items != NULL;
}

static bool copy(struct rp_held *h, struct rp_bytes *bytes)
{
    if (bytes->data == NULL)
        return true;
    bytes->data = rp_arena_copy(&h->arena, bytes->data, bytes->len);
    return bytes->data != NULL;
}

int rp_held_add(struct rp_held *h, const struct rp_outgoing *record, rd_kafka_headers_t *headers,
                struct rp_error *err)
{
    struct rp_held_record held = {.record = *record, .headers = headers};
    if (!make_room(h) || !copy(h, &held.record.topic) || !copy(h, &held.record.key) ||
        !copy(h, &held.record.value)) {
        rd_kafka_headers_destroy(headers);
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a record that waits");
    }
    h->items[h->n++] = held;
    return 0;
}

void rp_held_drop(struct rp_held *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->items[i].headers != NULL)
            rd_kafka_headers_destroy(h->items[i].headers);
    h->n = 0;
}

void rp_held_reset(struct rp_held *h)
{
    rp_held_drop(h);
    rp_arena_reset(&h->arena);
}

void rp_held_clear(struct rp_held *h)
{
    rp_held_drop(h);
    rp_arena_clear(&h->arena);
    free(h->items);
    *h = (struct rp_held){0};
}
