/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_BASE64_H
#define REPRISE_BASE64_H

#include "reprise/bytes.h"

/* Room that decoding `len` characters needs at most. */
static inline size_t rp_base64_room(size_t len)
{
    return len / 4 * 3 + 3;
}

/* Decodes RFC 4648, in the standard or the URL's alphabet, with or without padding. Whitespace is
 * passed over, since base64(1) breaks its lines. Returns the number of bytes, or SIZE_MAX when it
 * is no base64; `*bad` is then the offset of what is wrong. */
size_t rp_base64_decode(struct rp_bytes text, uint8_t *out, size_t *bad);

/* Appends the bytes in the standard alphabet, padded, on one line. */
RP_NODISCARD int rp_base64_encode(struct rp_bytes bytes, struct rp_buf *out, struct rp_error *err);

#endif
