/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARRAY_H
#define REPRISE_ARRAY_H

#include <stddef.h>

#include "reprise/error.h"

/* Returns the array of `n` items of `size` bytes, in place of `items`, with room for one more:
 * where it was full with twice its `*cap`. NULL: no memory, and all is as before. */
RP_NODISCARD void *rp_array_grow(void *items, size_t n, size_t *cap, size_t size);

/* Returns the array of `n` items of `size` bytes, in place of `items`, with room for one more,
 * which is to own `*copy`, a copy of `name`. NULL: no memory, and all is as before. */
RP_NODISCARD void *rp_array_one_more(void *items, size_t n, size_t size, const char *name,
                                     char **copy);

#endif
