/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_UTF8_H
#define REPRISE_UTF8_H

#include <stdbool.h>

#include "reprise/bytes.h"

/* U+FFFD, which stands for bytes that are no UTF-8. */
#define RP_UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The length of the character that `p` begins with, and its code point. 0 where the bytes are no
 * UTF-8 by RFC 3629 (overlong, a surrogate, over U+10FFFF, cut short), and for n == 0. */
size_t rp_utf8_next(const uint8_t *p, size_t n, uint32_t *out);

/* How many bytes from the start are UTF-8. */
size_t rp_utf8_valid_prefix(struct rp_bytes text);

static inline bool rp_utf8_valid(struct rp_bytes text)
{
    return rp_utf8_valid_prefix(text) == text.len;
}

/* Copies with U+FFFD in place of each byte that is no UTF-8, and returns the copy's length, at most
 * three times the text's. `out` may be NULL: then it only counts. */
size_t rp_utf8_repair(struct rp_bytes text, uint8_t *out);

#endif
