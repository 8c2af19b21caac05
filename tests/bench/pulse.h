/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PULSE_H
#define PULSE_H

#include <stdbool.h>
#include <stdint.h>

/* Watches how fast the processor runs. A host may slow its clock to a tenth, for tens of
 * milliseconds, for reasons of its own: then all takes ten times as long, and no count of stolen
 * time shows it. A thread does the same small work over and over, and notes what it takes: 0.5% of
 * one core. That is processor time, so who only waits for a core is not slow. */
struct pulse;

struct pulse *pulse_start(void);

/* Ends it, and judges: slow is when the work took more than twice its median, twice in a row. */
void pulse_stop(struct pulse *pulse);

/* Whether it was slow at this time of the wall clock, shortly after, or shortly before: what was
 * held up then is still to be caught up with. After `pulse_stop`. */
bool pulse_was_slow(const struct pulse *pulse, int64_t wall_us);

void pulse_free(struct pulse *pulse);

#endif
