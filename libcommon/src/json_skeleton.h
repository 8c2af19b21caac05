/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JSON_SKELETON_H
#define REPRISE_JSON_SKELETON_H

#include <jansson.h>

#include "reprise/bytes.h"

/* The length of the JSON number at `p`; 0: there is none. */
size_t rp_json_number_length(const char *p, const char *end);

/* jansson's tree of a text may take a hundred times its bytes, and what is compressed may have a
 * thousand times its own. */
#define RP_JSON_TREE_MOST ((size_t)512 * 1024 * 1024)

/* Fails with RP_E_DECODE (POISON) where that may be too much. */
RP_NODISCARD int rp_json_check_tree(struct rp_bytes text, struct rp_error *err);

/* Parses JSON of any type whose numbers may have any number of digits: each is 0 in what is
 * returned, and half a surrogate pair is U+FFFD. NULL where it is no JSON or too large a one; `why`
 * then says so, with line and column.
 * `*fragile`, which may be NULL: a parser does not keep all of it, since an object names a member
 * twice or a string holds half a surrogate pair. */
json_t *rp_json_skeleton(struct rp_bytes text, bool *fragile, struct rp_error *why);

/* Puts 1e300, in place, for each number that is too large for a double, which no parser of ours
 * takes. Returns whether there was one. */
bool rp_json_tame_numbers(char *text, size_t len);

#endif
