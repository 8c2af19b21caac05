/* SPDX-License-Identifier: Apache-2.0 */
#include "backoff.h"

#include <assert.h>
#include <math.h>

static int64_t step(const struct rp_backoff *b, int64_t n)
{
    if (b->initial_ms == 0)
        return 0; /* times infinity it is no number */
    double ms =
        (double)b->initial_ms * pow((double)b->multiplier / 1000, (double)(n - 1)); /* or inf */
    return ms < (double)b->max_ms ? llround(ms) : b->max_ms;
}

struct rp_delay_range rp_backoff_range(const struct rp_backoff *b, int32_t attempt)
{
    assert(attempt >= 1 && b->kind != RP_BACKOFF_BY_CATEGORY);
    switch (b->kind) {
    case RP_BACKOFF_FIXED:
        return (struct rp_delay_range){b->initial_ms, b->initial_ms};
    case RP_BACKOFF_UNIFORM:
        return (struct rp_delay_range){b->initial_ms, b->max_ms};
    case RP_BACKOFF_EXPONENTIAL:
        return (struct rp_delay_range){step(b, attempt), step(b, attempt)};
    case RP_BACKOFF_EXPONENTIAL_RANDOM:
        return (struct rp_delay_range){step(b, attempt), step(b, (int64_t)attempt + 1)};
    default:
        return (struct rp_delay_range){0, 0};
    }
}

int64_t rp_jitter_most(int64_t delay_ms, int64_t percent)
{
    return delay_ms / 100 * percent + delay_ms % 100 * percent / 100;
}

int64_t rp_backoff_delay(const struct rp_backoff *b, int64_t jitter_percent, int32_t attempt,
                         struct rp_rng *rng)
{
    struct rp_delay_range range = rp_backoff_range(b, attempt);
    int64_t delay = range.low_ms;
    if (range.high_ms > range.low_ms)
        delay = rp_rng_between(rng, range.low_ms, range.high_ms);
    int64_t jitter = rp_jitter_most(delay, jitter_percent);
    return jitter > 0 ? delay + rp_rng_between(rng, 0, jitter) : delay;
}
