/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PLAN_CACHE_H
#define REPRISE_PLAN_CACHE_H

#include "plan.h"

/* Plans by number (a fingerprint or a registry's id); for a schema that has no plan, the reason, so
 * that it is not compiled again for each record. A zeroed cache is empty and ready. Bounded: a full
 * one is emptied, since ids come from outside. */
struct rp_plan_cache {
    struct rp_plan_entry *slots; /* open addressing, a power of two */
    size_t n, cap;
    size_t bytes; /* of the plans */
};

#define RP_PLAN_CACHE_MAX   4096
#define RP_PLAN_CACHE_BYTES ((size_t)64 << 20)

struct rp_plan_entry {
    uint64_t key;
    struct rp_plan *plan; /* NULL: see `why` */
    char *why;            /* both NULL: a free slot */
};

/* NULL where there is none. Valid until the next add. */
const struct rp_plan_entry *rp_plan_cache_find(const struct rp_plan_cache *cache, uint64_t key);
/* Takes `plan`, which may be NULL, and copies `why`, which then must not be; also when it fails.
 * The key must not be there yet. */
RP_NODISCARD int rp_plan_cache_add(struct rp_plan_cache *cache, uint64_t key, struct rp_plan *plan,
                                   const char *why, struct rp_error *err);
void rp_plan_cache_clear(struct rp_plan_cache *cache);

#endif
