/* SPDX-License-Identifier: Apache-2.0 */
#include "day.h"

#include <stdbool.h>
#include <time.h>

int64_t day_of(int64_t ms)
{
    int64_t day = ms / DAY_MS;
    return ms % DAY_MS < 0 ? day - 1 : day;
}

void day_text(int64_t day, char out[DAY_TEXT_SIZE])
{
    time_t seconds = day * (DAY_MS / 1000);
    struct tm tm;
    out[0] = '\0';
    if (gmtime_r(&seconds, &tm) != NULL)
        (void)strftime(out, DAY_TEXT_SIZE, "%Y-%m-%d", &tm);
}

/* Written so that no time overflows, however wild. */
static bool makes_sense(int64_t ms, int64_t now_ms, int64_t keep_ms)
{
    return ms > now_ms - keep_ms && ms <= now_ms + DAY_MS;
}

int64_t day_dead_at(int64_t decided_at_ms, int64_t recorded_at_ms, int64_t now_ms, int64_t keep_ms)
{
    if (makes_sense(decided_at_ms, now_ms, keep_ms))
        return decided_at_ms;
    return makes_sense(recorded_at_ms, now_ms, keep_ms) ? recorded_at_ms : now_ms;
}

int64_t day_scheduled(int64_t now_ms, int minute)
{
    int64_t today = day_of(now_ms) * DAY_MS + minute * INT64_C(60000);
    return today <= now_ms ? today : today - DAY_MS;
}

int64_t day_keep_from(int64_t now_ms, int minute, int64_t keep_ms)
{
    return day_of(day_scheduled(now_ms, minute) - keep_ms);
}
