/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARENA_H
#define REPRISE_ARENA_H

#include <stddef.h>

/* Memory that is handed out piece by piece and taken back all at once. A zeroed arena is ready.
 * After a reset the same memory is used again, so that a loop which resets it allocates nothing
 * once it has seen its largest round. Not thread-safe. */
struct rp_arena {
    struct rp_arena_chunk *head; /* the chunk in use; older, full ones behind it */
    size_t used;
};

/* `n` bytes, aligned for any type, until the reset. NULL when there is no memory. */
void *rp_arena_alloc(struct rp_arena *a, size_t n);
/* A copy of `n` bytes. NULL when there is no memory. */
void *rp_arena_copy(struct rp_arena *a, const void *data, size_t n);
/* A copy of a C string; "" when there is no memory. */
const char *rp_arena_text(struct rp_arena *a, const char *text);
/* Takes everything back; keeps the newest, largest chunk unless it is over 1 MiB. */
void rp_arena_reset(struct rp_arena *a);
void rp_arena_clear(struct rp_arena *a);

#endif
