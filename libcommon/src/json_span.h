/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JSON_SPAN_H
#define REPRISE_JSON_SPAN_H

#include "reprise/bytes.h"

/* The text of a member's value as it stands in the text of an object, so that it can be passed on
 * byte for byte: a parser would lose the digits of 10.10 and numbers over 64 bits. `object` must be
 * JSON that a parser accepted. Where the name comes twice the last one counts, as in most parsers.
 * Null where there is none; a name written with escapes is not found. */
struct rp_bytes rp_json_member(struct rp_bytes object, const char *name);

#endif
