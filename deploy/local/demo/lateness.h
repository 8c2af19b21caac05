/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_LATENESS_H
#define DEMO_LATENESS_H

#include <stdint.h>

/* How late re-invocations came: a histogram in steps of 0.1 ms up to 10 s, which are all one after
 * that. A zeroed one is empty and ready. Not thread-safe. */
#define LATENESS_STEP_US 100
#define LATENESS_STEPS   100000

struct lateness {
    uint64_t count, early;
    int64_t max_us;
    uint32_t steps[LATENESS_STEPS];
};

/* `late_us` below zero is early: it is counted as such, and as on time. */
void lateness_add(struct lateness *l, int64_t late_us);

/* The upper bound of the step that holds the fraction `q` of all, in ms; 0 when there are none. */
double lateness_quantile_ms(const struct lateness *l, double q);

#endif
