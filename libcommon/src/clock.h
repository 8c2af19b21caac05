/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLOCK_H
#define REPRISE_CLOCK_H

#include <stdint.h>

/* Wall time, ms since the epoch, UTC. Names end in `_ms`. */
int64_t rp_wall_ms(void);
/* The same in us, for lateness. Names end in `_us`. */
int64_t rp_wall_us(void);
/* Monotonic time; comparable only with itself. Names end in `_mono_ms` or `_mono_us`. */
int64_t rp_mono_ms(void);
int64_t rp_mono_us(void);
/* The same as rp_mono_ms, as of the kernel's last tick (some ms ago) and for a tenth of the price:
 * for what is asked several times a record. */
int64_t rp_mono_tick_ms(void);

#endif
