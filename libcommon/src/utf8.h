/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_UTF8_H
#define REPRISE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* U+FFFD, which stands for bytes that are no UTF-8. */
#define RP_UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The length of the character that `p` begins with, and its code point. 0 where the bytes are no
 * UTF-8 by RFC 3629 (overlong, a surrogate, over U+10FFFF, cut short), and for n == 0. */
size_t rp_utf8_next(const uint8_t *p, size_t n, uint32_t *out);

#endif
