/* SPDX-License-Identifier: Apache-2.0 */
#include "string_list.h"

#include <stdlib.h>

int rp_strings_take(struct rp_strings *strings, char *text)
{
    char **items = realloc(strings->items, (strings->n + 1) * sizeof *items);
    if (items == NULL) {
        free(text);
        return -1;
    }
    strings->items = items;
    items[strings->n++] = text;
    return 0;
}

void rp_strings_clear(struct rp_strings *strings)
{
    for (size_t i = 0; i < strings->n; i++)
        free(strings->items[i]);
    free(strings->items);
    *strings = (struct rp_strings){0};
}
