/* SPDX-License-Identifier: Apache-2.0 */
#include "counts.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "array.h"
#include "pgtext.h"
#include "row.h"

#define FIRST_SLOTS 64
#define HOUR_MS     INT64_C(3600000)

struct counted {
    struct count_of of;
    int64_t hour; /* since 1970-01-01 */
    uint64_t hash;
    int64_t n, first_ms, last_ms;
};

#define N_COLUMNS 10
const char counts_columns[] =
    "hour, task_type, reason, category, fingerprint, status, n, came_back, first_at, last_at";

static int64_t hour_of(int64_t ms)
{
    int64_t hour = ms / HOUR_MS;
    return ms % HOUR_MS < 0 ? hour - 1 : hour;
}

static uint64_t hash_of(const struct count_of *of, int64_t hour)
{
    const int64_t numbers[] = {hour, of->fingerprint, (int64_t)of->reason};
    uint64_t hash = XXH3_64bits(numbers, sizeof numbers);
    hash = XXH3_64bits_withSeed(of->task_type.data, of->task_type.len, hash);
    return XXH3_64bits_withSeed(of->category.data, of->category.len, hash);
}

static bool is_same(const struct counted *a, const struct counted *b)
{
    return a->hash == b->hash && a->hour == b->hour && a->of.reason == b->of.reason &&
           a->of.fingerprint == b->of.fingerprint &&
           rp_bytes_equal(a->of.task_type, b->of.task_type) &&
           rp_bytes_equal(a->of.category, b->of.category);
}

/* The slot that has it, or the free one where it belongs. */
static size_t *slot_of(const struct counts *c, const struct counted *wanted)
{
    size_t i = wanted->hash & (c->n_slots - 1);
    while (c->slots[i] != 0 && !is_same(&c->items[c->slots[i] - 1], wanted))
        i = (i + 1) & (c->n_slots - 1);
    return &c->slots[i];
}

static bool grow_slots(struct counts *c)
{
    size_t n = c->n_slots == 0 ? FIRST_SLOTS : 2 * c->n_slots;
    size_t *slots = calloc(n, sizeof *slots);
    if (slots == NULL)
        return false;
    free(c->slots);
    c->slots = slots;
    c->n_slots = n;
    for (size_t i = 0; i < c->n; i++)
        *slot_of(c, &c->items[i]) = i + 1;
    return true;
}

static bool keep(struct counts *c, struct rp_bytes *text)
{
    if (text->data == NULL)
        return true;
    text->data = rp_arena_copy(&c->arena, text->data, text->len);
    return text->data != NULL;
}

static bool add_new(struct counts *c, const struct counted *wanted)
{
    if (2 * c->n >= c->n_slots && !grow_slots(c))
        return false;
    struct counted *items = rp_array_grow(c->items, c->n, &c->cap, sizeof *items);
    if (items == NULL)
        return false;
    c->items = items;
    items[c->n] = *wanted;
    if (!keep(c, &items[c->n].of.task_type) || !keep(c, &items[c->n].of.category))
        return false;
    size_t *slot = slot_of(c, wanted);
    *slot = ++c->n;
    return true;
}

int counts_add(struct counts *c, const struct count_of *of, int64_t dead_at_ms,
               struct rp_error *err)
{
    struct counted one = {.of = *of,
                          .hour = hour_of(dead_at_ms),
                          .n = 1,
                          .first_ms = dead_at_ms,
                          .last_ms = dead_at_ms};
    one.hash = hash_of(of, one.hour);
    size_t place = c->n_slots == 0 ? 0 : *slot_of(c, &one);
    if (place == 0)
        return add_new(c, &one)
                   ? 0
                   : rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory to count a row");
    struct counted *known = &c->items[place - 1];
    known->n++;
    if (dead_at_ms < known->first_ms)
        known->first_ms = dead_at_ms;
    if (dead_at_ms > known->last_ms)
        known->last_ms = dead_at_ms;
    return 0;
}

int counts_rows(struct counts *c, struct rp_bytes *out, struct rp_error *err)
{
    c->rows.buf.len = 0;
    c->rows.failed = false;
    for (size_t i = 0; i < c->n; i++) {
        const struct counted *one = &c->items[i];
        copy_row(&c->rows, N_COLUMNS);
        copy_time(&c->rows, one->hour * HOUR_MS);
        (void)pgtext_copy(&c->rows, one->of.task_type, ROW_NAME_MAX);
        copy_bytes(&c->rows, rp_str(rp_reason_name(one->of.reason)));
        (void)pgtext_copy(&c->rows, one->of.category, ROW_NAME_MAX);
        copy_int64(&c->rows, one->of.fingerprint);
        copy_bytes(&c->rows, rp_str("dead"));
        copy_int64(&c->rows, one->n);
        copy_int64(&c->rows, 0);
        copy_time(&c->rows, one->first_ms);
        copy_time(&c->rows, one->last_ms);
    }
    *out = rp_buf_bytes(&c->rows.buf);
    return c->rows.failed ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for counts") : 0;
}

void counts_drop(struct counts *c)
{
    if (c->n > 0)
        memset(c->slots, 0, c->n_slots * sizeof *c->slots);
    c->n = 0;
    rp_arena_reset(&c->arena);
}

void counts_clear(struct counts *c)
{
    rp_arena_clear(&c->arena);
    rp_buf_clear(&c->rows.buf);
    free(c->slots);
    free(c->items);
    *c = (struct counts){0};
}
