/* SPDX-License-Identifier: Apache-2.0 */
#include "reprise/bytes.h"

#include <stdlib.h>

int rp_buf_reserve(struct rp_buf *b, size_t n, struct rp_error *err)
{
    if (n <= b->cap - b->len)
        return 0;
    if (n > SIZE_MAX / 2 - b->len)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "a buffer of %zu bytes is too large", n);
    size_t cap = b->cap < 256 ? 256 : b->cap;
    while (cap - b->len < n)
        cap *= 2;
    uint8_t *data = realloc(b->data, cap);
    if (data == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu bytes", cap);
    b->data = data;
    b->cap = cap;
    return 0;
}

int rp_buf_append(struct rp_buf *b, const void *data, size_t n, struct rp_error *err)
{
    if (rp_buf_reserve(b, n, err) != 0)
        return -1;
    if (n > 0)
        memcpy(b->data + b->len, data, n);
    b->len += n;
    return 0;
}

void rp_buf_clear(struct rp_buf *b)
{
    free(b->data);
    *b = (struct rp_buf){0};
}

void rp_buf_reset(struct rp_buf *b, size_t keep)
{
    if (b->cap > keep)
        rp_buf_clear(b);
    b->len = 0;
}
