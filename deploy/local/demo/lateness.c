/* SPDX-License-Identifier: Apache-2.0 */
#include "lateness.h"

void lateness_add(struct lateness *l, int64_t late_us)
{
    if (late_us < 0) {
        l->early++;
        late_us = 0;
    }
    int64_t step = late_us / LATENESS_STEP_US;
    l->steps[step < LATENESS_STEPS ? step : LATENESS_STEPS - 1]++;
    l->count++;
    if (late_us > l->max_us)
        l->max_us = late_us;
}

double lateness_quantile_ms(const struct lateness *l, double q)
{
    uint64_t seen = 0, wanted = (uint64_t)(q * (double)l->count);
    if (l->count == 0)
        return 0;
    for (int step = 0; step < LATENESS_STEPS; step++) {
        seen += l->steps[step];
        if (seen > wanted)
            return (double)(step + 1) * LATENESS_STEP_US / 1000;
    }
    return (double)l->max_us / 1000;
}
