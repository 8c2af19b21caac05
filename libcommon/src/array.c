/* SPDX-License-Identifier: Apache-2.0 */
#include "array.h"

#include <stdlib.h>
#include <string.h>

void *rp_array_grow(void *items, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return items;
    size_t more = *cap == 0 ? 16 : 2 * *cap;
    void *grown = reallocarray(items, more, size);
    if (grown != NULL)
        *cap = more;
    return grown;
}

void *rp_array_one_more(void *items, size_t n, size_t size, const char *name, char **copy)
{
    *copy = strdup(name);
    void *more = *copy == NULL ? NULL : reallocarray(items, n + 1, size);
    if (more == NULL)
        free(*copy);
    return more;
}
