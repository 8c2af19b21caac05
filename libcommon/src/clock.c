/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t); /* fails only for a clock that does not exist */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t rp_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t rp_wall_ms(void)
{
    return rp_wall_us() / 1000;
}

int64_t rp_mono_tick_ms(void)
{
    return read_us(CLOCK_MONOTONIC_COARSE) / 1000;
}

int64_t rp_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t rp_mono_ms(void)
{
    return rp_mono_us() / 1000;
}
