/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_BYTES_H
#define REPRISE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "reprise/error.h"

/* A borrowed run of bytes, not terminated. `data == NULL` is null, which differs from empty. */
struct rp_bytes {
    const void *data;
    size_t len;
};

#define RP_NULL_BYTES ((struct rp_bytes){NULL, 0})

/* The bytes of a C string; NULL gives null. */
static inline struct rp_bytes rp_str(const char *s)
{
    return (struct rp_bytes){s, s == NULL ? 0 : strlen(s)};
}

static inline bool rp_bytes_equal(struct rp_bytes a, struct rp_bytes b)
{
    return a.len == b.len && (a.data == NULL) == (b.data == NULL) &&
           (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* A growing buffer that owns its bytes. A zeroed one is empty and ready. */
struct rp_buf {
    uint8_t *data;
    size_t len, cap;
};

/* Makes room for `n` more bytes. Fails with RP_E_NOMEM. */
RP_NODISCARD int rp_buf_reserve(struct rp_buf *b, size_t n, struct rp_error *err);
/* Fails with RP_E_NOMEM; the buffer is then as before. */
RP_NODISCARD int rp_buf_append(struct rp_buf *b, const void *data, size_t n, struct rp_error *err);
/* Frees the bytes and leaves the buffer empty and ready. */
void rp_buf_clear(struct rp_buf *b);
/* Empties the buffer for its next use. Room for more than `keep` bytes is given back: a single huge
 * record must not pin its size for ever. */
void rp_buf_reset(struct rp_buf *b, size_t keep);
#define RP_BUF_KEEP ((size_t)8 << 20)

static inline struct rp_bytes rp_buf_bytes(const struct rp_buf *b)
{
    return (struct rp_bytes){b->data, b->len};
}

#endif
