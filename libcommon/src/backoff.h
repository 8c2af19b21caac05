/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_BACKOFF_H
#define REPRISE_BACKOFF_H

#include <stdint.h>

#include "reprise/rng.h"

/* How long a task waits before its next execution. In the order of the configuration's words and
 * fields. */
enum rp_backoff_kind {
    RP_BACKOFF_NONE,
    RP_BACKOFF_BY_CATEGORY, /* the category's profile stands in for it */
    RP_BACKOFF_FIXED,
    RP_BACKOFF_UNIFORM,
    RP_BACKOFF_EXPONENTIAL,
    RP_BACKOFF_EXPONENTIAL_RANDOM,
};

struct rp_backoff {
    int kind;           /* enum rp_backoff_kind; -1: not stated */
    int64_t initial_ms; /* the first, the fixed, the least delay */
    int64_t max_ms;     /* the bound of every delay, before jitter */
    int64_t multiplier; /* thousandths, 1000 to 8000 */
};

struct rp_delay_range {
    int64_t low_ms, high_ms; /* both included */
};

/* What the delay after execution number `attempt` (1 gives the first delay) is drawn from:
 *
 *     fixed               initial
 *     uniform             initial .. max
 *     exponential         step(attempt), where step(n) = min(initial * multiplier^(n - 1), max)
 *     exponential_random  step(attempt) .. step(attempt + 1)
 *
 * Jitter comes on top. Any attempt >= 1 is fine: nothing overflows. */
struct rp_delay_range rp_backoff_range(const struct rp_backoff *b, int32_t attempt);

/* The most that jitter of so many percent adds to a delay. */
int64_t rp_jitter_most(int64_t delay_ms, int64_t percent);

/* Draws a delay, and jitter: 0 to `jitter_percent` of what was drawn, on top. */
int64_t rp_backoff_delay(const struct rp_backoff *b, int64_t jitter_percent, int32_t attempt,
                         struct rp_rng *rng);

#endif
