/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLOCK_FIXTURE_H
#define REPRISE_CLOCK_FIXTURE_H

#include <stdatomic.h>
#include <stdint.h>

/* What rp_mono_ms says, where a test wraps it. It stands still but for the naps of usleep and
 * nanosleep, which end at once where they are wrapped, too. */
extern _Atomic int64_t now_mono_ms;

/* From this time on each nap calls it; NULL: none does. */
void clock_call(int64_t from_mono_ms, void (*call)(void));

#endif
