/* SPDX-License-Identifier: Apache-2.0 */
#include "counts.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ITEMS 64

const char counts_columns[] =
    "hour, task_type, reason, category, fingerprint, status, n, came_back,"
    " first_at, last_at";

struct count {
    uint64_t hash;
    size_t end; /* of its key */
    int64_t n, first_ms, last_ms;
};

static struct rp_bytes key_of(const struct counts *c, size_t i)
{
    size_t begin = i == 0 ? 0 : c->items[i - 1].end;
    return (struct rp_bytes){c->keys.buf.data + begin, c->items[i].end - begin};
}

static size_t *free_slot(const struct counts *c, uint64_t hash)
{
    size_t i = hash & (c->n_slots - 1);
    while (c->slots[i] != 0)
        i = (i + 1) & (c->n_slots - 1);
    return &c->slots[i];
}

/* Room for one more, in slots that are half free. */
static bool reserve(struct counts *c)
{
    if (c->n < c->cap)
        return true;
    size_t cap = c->cap == 0 ? FIRST_ITEMS : 2 * c->cap;
    struct count *items = realloc(c->items, cap * sizeof *items);
    if (items != NULL)
        c->items = items;
    size_t *slots = calloc(2 * cap, sizeof *slots);
    if (items == NULL || slots == NULL) {
        free(slots);
        return false;
    }
    free(c->slots);
    c->slots = slots;
    c->n_slots = 2 * cap;
    c->cap = cap;
    for (size_t i = 0; i < c->n; i++)
        *free_slot(c, c->items[i].hash) = i + 1;
    return true;
}

static struct count *find(const struct counts *c, uint64_t hash, struct rp_bytes key)
{
    for (size_t i = hash & (c->n_slots - 1); c->slots[i] != 0; i = (i + 1) & (c->n_slots - 1))
        if (c->items[c->slots[i] - 1].hash == hash &&
            rp_bytes_equal(key_of(c, c->slots[i] - 1), key))
            return &c->items[c->slots[i] - 1];
    return NULL;
}

void counts_add(struct counts *c, uint64_t hash, int64_t dead_at_ms)
{
    if (c->keys.failed || !reserve(c)) {
        c->keys.failed = true;
        return;
    }
    size_t begin = c->n == 0 ? 0 : c->items[c->n - 1].end, end = c->keys.buf.len;
    struct count *found = find(c, hash, (struct rp_bytes){c->keys.buf.data + begin, end - begin});
    if (found == NULL) {
        *free_slot(c, hash) = c->n + 1;
        c->items[c->n++] = (struct count){hash, end, 1, dead_at_ms, dead_at_ms};
        return;
    }
    c->keys.buf.len = begin;
    found->n++;
    if (dead_at_ms < found->first_ms)
        found->first_ms = dead_at_ms;
    if (dead_at_ms > found->last_ms)
        found->last_ms = dead_at_ms;
}

int counts_rows(struct counts *c, struct rp_bytes *out, struct rp_error *err)
{
    c->rows = (struct copy){.buf = {c->rows.buf.data, 0, c->rows.buf.cap}};
    for (size_t i = 0; i < c->n; i++) {
        copy_row(&c->rows, 10);
        copy_fields(&c->rows, key_of(c, i));
        copy_bytes(&c->rows, rp_str("dead"));
        copy_int64(&c->rows, c->items[i].n);
        copy_int64(&c->rows, 0);
        copy_time(&c->rows, c->items[i].first_ms);
        copy_time(&c->rows, c->items[i].last_ms);
    }
    *out = rp_buf_bytes(&c->rows.buf);
    return c->rows.failed ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for counts") : 0;
}

void counts_drop(struct counts *c)
{
    if (c->n > 0)
        memset(c->slots, 0, c->n_slots * sizeof *c->slots);
    c->n = 0;
    c->keys.buf.len = 0;
    c->keys.failed = false;
}

void counts_clear(struct counts *c)
{
    rp_buf_clear(&c->keys.buf);
    rp_buf_clear(&c->rows.buf);
    free(c->items);
    free(c->slots);
    *c = (struct counts){0};
}
