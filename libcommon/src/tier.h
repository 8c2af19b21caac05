/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TIER_H
#define REPRISE_TIER_H

#include <stddef.h>
#include <stdint.h>

#define RP_MAX_TIERS 16

/* A delay topic. */
struct rp_tier {
    int64_t length_ms;
    int64_t reach_ms; /* the length of the next longer tier; the longest's is twice its own */
    char *topic;      /* with the prefix: "retry-10s" */
};

/* The tier for what is left until due: the largest that is not longer, else the smallest. -1 when
 * nothing is left: the task goes straight to its target. `tiers` ascend. */
int rp_tier_for(const struct rp_tier *tiers, size_t n, int64_t left_ms);

#endif
