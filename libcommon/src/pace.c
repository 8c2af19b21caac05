/* SPDX-License-Identifier: Apache-2.0 */
#include "pace.h"

#define SAVED_S 0.5
#define LUMP_S  0.05

static double at_least_one(double n)
{
    return n < 1 ? 1 : n;
}

int64_t rp_pace_allows(struct rp_pace *p, double per_s, int64_t now_mono_ms)
{
    int64_t passed_ms = p->at_mono_ms == 0 ? 0 : now_mono_ms - p->at_mono_ms;
    p->at_mono_ms = now_mono_ms;
    p->per_s = per_s;
    if (per_s <= 0)
        return INT64_MAX;
    if (passed_ms > 0)
        p->tokens += per_s * (double)passed_ms / 1000;
    if (p->tokens > at_least_one(per_s * SAVED_S))
        p->tokens = at_least_one(per_s * SAVED_S);
    /* What sums of fractions fall short of by less than anybody can see. */
    double tokens = p->tokens + 1e-9;
    return tokens < at_least_one(per_s * LUMP_S) ? 0 : (int64_t)tokens;
}

void rp_pace_take(struct rp_pace *p, int64_t n)
{
    p->tokens = p->per_s > 0 ? p->tokens - (double)n : 0;
}

int64_t rp_pace_wait_ms(const struct rp_pace *p)
{
    double missing = at_least_one(p->per_s * LUMP_S) - p->tokens;
    double ms = p->per_s <= 0 ? 0 : missing * 1000 / p->per_s;
    return ms < 1 ? 1 : ms > 1000 ? 1000 : (int64_t)ms;
}
