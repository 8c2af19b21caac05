/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_MEMORY_FIXTURE_H
#define REPRISE_MEMORY_FIXTURE_H

#include <stdbool.h>

#include "reprise/error.h"

/* Memory that runs out. Counts what is asked of libc, of the arena and of buffers, and refuses one
 * request. Programs with it are linked with ${memory_wraps}. */

/* Refuses the n-th request from here on; 0: none. */
void memory_fail_at(int n);
/* Whether that has been. */
bool memory_failed(void);

/* Calls `step` with its first request refused, its second, and so on, until it needs no more of
 * them, and then must succeed. Before that, it must fail for want of memory, and not POISON: what
 * came from outside is not to blame. Returns how many requests it made. */
int starve(int (*step)(struct rp_error *err));

#endif
