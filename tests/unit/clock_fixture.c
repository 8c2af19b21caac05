/* SPDX-License-Identifier: Apache-2.0 */
#include "clock_fixture.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

_Atomic int64_t now_mono_ms = 1;
static int64_t call_from_mono_ms;
static void (*called)(void);

int64_t __wrap_rp_mono_ms(void);
int64_t __wrap_rp_mono_tick_ms(void);
int __wrap_usleep(useconds_t us);
int __wrap_nanosleep(const struct timespec *wish, struct timespec *left);

void clock_call(int64_t from_mono_ms, void (*call)(void))
{
    call_from_mono_ms = from_mono_ms;
    called = call;
}

int64_t __wrap_rp_mono_ms(void)
{
    return now_mono_ms;
}

int64_t __wrap_rp_mono_tick_ms(void)
{
    return now_mono_ms;
}

static int nap(int64_t ms)
{
    now_mono_ms += ms;
    if (called != NULL && now_mono_ms >= call_from_mono_ms)
        called();
    (void)sched_yield();
    return 0;
}

int __wrap_usleep(useconds_t us)
{
    return nap(us / 1000);
}

int __wrap_nanosleep(const struct timespec *wish, struct timespec *left)
{
    (void)left;
    return nap(wish->tv_sec * 1000 + wish->tv_nsec / 1000000);
}
