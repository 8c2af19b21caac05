/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JSON_SPAN_H
#define REPRISE_JSON_SPAN_H

#include <stdbool.h>

#include "reprise/bytes.h"

/* The text of a member's value as it stands in the text of an object, so that it can be passed on
 * byte for byte: a parser would lose the digits of 10.10 and numbers over 64 bits. `object` must be
 * JSON that a parser accepted. Where the name comes twice the last one counts, as in most parsers.
 * Null where there is none; a name written with escapes is not found. */
struct rp_bytes rp_json_member(struct rp_bytes object, const char *name);

/* Goes through the members of an object or the items of an array, as their texts stand in it. The
 * text must be JSON that a parser accepted. */
struct rp_json_cursor {
    const char *p, *end;
};

void rp_json_open(struct rp_bytes container, struct rp_json_cursor *out);
/* The next one; `*name` is with its quotes, and null in an array. False: there is none. */
bool rp_json_next(struct rp_json_cursor *c, struct rp_bytes *name, struct rp_bytes *value);

/* Puts U+FFFD, in place, for each escape of half a surrogate pair, which no parser of ours takes,
 * but Python and JavaScript write: of a file name that is no UTF-8, of a message cut within an
 * emoji. Returns whether there was one. */
bool rp_json_mend_surrogates(char *text, size_t len);
/* The same for jansson, which takes no escape of NUL in a name either. */
bool rp_json_mend(char *text, size_t len);

#endif
