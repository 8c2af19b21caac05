/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_GLOB_H
#define REPRISE_GLOB_H

#include <stdbool.h>

#include "reprise/bytes.h"

/* Globs over bytes: `*` is any run, `?` any one byte, all else is itself. No recursion; the time
 * is at most the product of both lengths. */
bool rp_glob_match(const char *pattern, struct rp_bytes text);

/* Whether `pattern` occurs anywhere in `text`, ASCII letters in either case. The same globs. */
bool rp_glob_search(const char *pattern, struct rp_bytes text);

/* Whether it has a wildcard at all; if not, it is a plain name. */
bool rp_glob_is(const char *pattern);

/* How many bytes of it are literal: of two globs that match, the more specific has more. */
size_t rp_glob_literals(const char *pattern);

#endif
