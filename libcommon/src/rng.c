/* SPDX-License-Identifier: Apache-2.0 */
#include "reprise/rng.h"

#include <assert.h>
#include <sys/random.h>

#include "clock.h"

void rp_rng_init(struct rp_rng *rng, uint64_t seed)
{
    rng->state = seed;
}

void rp_rng_init_random(struct rp_rng *rng)
{
    if (getrandom(&rng->state, sizeof rng->state, 0) != sizeof rng->state)
        rng->state = (uint64_t)rp_wall_us();
}

uint64_t rp_rng_next(struct rp_rng *rng)
{
    uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t rp_rng_between(struct rp_rng *rng, int64_t low, int64_t high)
{
    assert(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    if (span == UINT64_MAX)
        return (int64_t)rp_rng_next(rng);
    /* Multiply-shift (Lemire 2019); its bias is below 2^-64 * span, which no delay shows. */
    uint64_t offset = (uint64_t)(((unsigned __int128)rp_rng_next(rng) * (span + 1)) >> 64);
    return (int64_t)((uint64_t)low + offset);
}
