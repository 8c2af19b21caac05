/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PACE_H
#define REPRISE_PACE_H

#include <stdint.h>

/* A token bucket that gives in lumps of a twentieth of a second's worth, or of one, and saves up
 * half a second's: smooth, and true to its rate where each lump takes a while. The rate may change
 * at any time. Knows no clock. A zeroed one is empty and ready. */
struct rp_pace {
    double per_s; /* 0 or less: no limit */
    double tokens;
    int64_t at_mono_ms; /* 0: not used yet */
};

/* So many may go now; INT64_MAX where there is no limit. They are not taken yet. */
int64_t rp_pace_allows(struct rp_pace *p, double per_s, int64_t now_mono_ms);
void rp_pace_take(struct rp_pace *p, int64_t n);
/* How long until some may go, in ms, 1 to 1000. */
int64_t rp_pace_wait_ms(const struct rp_pace *p);

#endif
