/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_STRING_LIST_H
#define REPRISE_STRING_LIST_H

#include <stddef.h>

#include "reprise/error.h"

/* A list of owned strings. A zeroed one is empty and ready. */
struct rp_strings {
    char **items;
    size_t n;
};

/* Appends `text` and owns it, also when it fails (-1: no memory). */
RP_NODISCARD int rp_strings_take(struct rp_strings *strings, char *text);
void rp_strings_clear(struct rp_strings *strings);

#endif
