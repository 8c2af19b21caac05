/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_RNG_H
#define REPRISE_RNG_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014): small, fast, and good enough to spread delays. Not for
 * secrets. One per thread. */
struct rp_rng {
    uint64_t state;
};

/* The same seed gives the same numbers. */
void rp_rng_init(struct rp_rng *rng, uint64_t seed);
/* Seeds from the system's entropy. */
void rp_rng_init_random(struct rp_rng *rng);
uint64_t rp_rng_next(struct rp_rng *rng);
/* Uniform in [low, high], both included. Needs low <= high. */
int64_t rp_rng_between(struct rp_rng *rng, int64_t low, int64_t high);

#endif
