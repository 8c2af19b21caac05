/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SYSTEM_FIXTURE_H
#define REPRISE_SYSTEM_FIXTURE_H

#include <stdbool.h>

#include "reprise/error.h"

/* A system that refuses, and libraries that do. Counts what is asked of them, and refuses one
 * request. Programs with it are linked with ${system_wraps}. */

/* Refuses whatever goes by this name, as "socket"; NULL: no more. */
void system_refuse(const char *name);

/* Calls `step` with its first request refused, its second, and so on, until it makes no more of
 * them, and then must succeed. Before that it must fail, say so, and not be POISON: what came from
 * outside is not to blame. Returns how many requests it made. */
int refuse_each(int (*step)(struct rp_error *err));

/* How many files and sockets the process has. */
int system_open_files(void);

#endif
