/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_cache.h"

#include <stdlib.h>

static bool is_free(const struct rp_plan_entry *e)
{
    return e->plan == NULL && e->why == NULL;
}

/* The key's slot, or the free one where it belongs. There is always a free one. */
static struct rp_plan_entry *slot_of(const struct rp_plan_cache *c, uint64_t key)
{
    size_t i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (c->cap - 1);
    while (!is_free(&c->slots[i]) && c->slots[i].key != key)
        i = (i + 1) & (c->cap - 1);
    return &c->slots[i];
}

const struct rp_plan_entry *rp_plan_cache_find(const struct rp_plan_cache *c, uint64_t key)
{
    if (c->cap == 0)
        return NULL;
    const struct rp_plan_entry *e = slot_of(c, key);
    return is_free(e) ? NULL : e;
}

static int grow(struct rp_plan_cache *c, struct rp_error *err)
{
    struct rp_plan_cache bigger = {
        .n = c->n, .cap = c->cap == 0 ? 16 : 2 * c->cap, .bytes = c->bytes};
    bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
    if (bigger.slots == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for decode plans");
    for (size_t i = 0; i < c->cap; i++)
        if (!is_free(&c->slots[i]))
            *slot_of(&bigger, c->slots[i].key) = c->slots[i];
    free(c->slots);
    *c = bigger;
    return 0;
}

int rp_plan_cache_add(struct rp_plan_cache *c, uint64_t key, struct rp_plan *plan, const char *why,
                      struct rp_error *err)
{
    char *copy = plan == NULL ? strdup(why) : NULL;
    if (plan == NULL && copy == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for decode plans");
    size_t bytes = rp_plan_bytes(plan);
    if (c->n == RP_PLAN_CACHE_MAX || c->bytes + bytes > RP_PLAN_CACHE_BYTES)
        rp_plan_cache_clear(c);
    if (2 * (c->n + 1) > c->cap && grow(c, err) != 0) {
        rp_plan_free(plan);
        free(copy);
        return -1;
    }
    *slot_of(c, key) = (struct rp_plan_entry){.key = key, .plan = plan, .why = copy};
    c->n++;
    c->bytes += bytes;
    return 0;
}

void rp_plan_cache_clear(struct rp_plan_cache *c)
{
    for (size_t i = 0; i < c->cap; i++) {
        rp_plan_free(c->slots[i].plan);
        free(c->slots[i].why);
    }
    free(c->slots);
    *c = (struct rp_plan_cache){0};
}
