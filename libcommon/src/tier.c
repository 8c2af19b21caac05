/* SPDX-License-Identifier: Apache-2.0 */
#include "tier.h"

int rp_tier_for(const struct rp_tier *tiers, size_t n, int64_t left_ms)
{
    if (left_ms <= 0)
        return -1;
    int best = 0;
    for (size_t i = 1; i < n && tiers[i].length_ms <= left_ms; i++)
        best = (int)i;
    return best;
}
