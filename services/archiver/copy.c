/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include <endian.h>

/* 2000-01-01, where PostgreSQL's times begin. */
#define PG_EPOCH_MS INT64_C(946684800000)

static const char header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0"; /* no flags, no extension */
static const char trailer[] = "\377\377";

const struct rp_bytes copy_header = {header, 19};
const struct rp_bytes copy_trailer = {trailer, 2};

/* Some 80 times a row, so it looks itself whether there is room. */
static void put(struct copy *c, const void *data, size_t n)
{
    struct rp_buf *b = &c->buf;
    if (c->failed || n == 0)
        return;
    if (n > b->cap - b->len && rp_buf_reserve(b, n, NULL) != 0) {
        c->failed = true;
        return;
    }
    memcpy(b->data + b->len, data, n);
    b->len += n;
}

static void put_int32(struct copy *c, int32_t n)
{
    uint32_t wire = htobe32((uint32_t)n);
    put(c, &wire, sizeof wire);
}

void copy_row(struct copy *c, int n_columns)
{
    uint16_t wire = htobe16((uint16_t)n_columns);
    put(c, &wire, sizeof wire);
}

void copy_null(struct copy *c)
{
    put_int32(c, -1);
}

void copy_int32(struct copy *c, int32_t n)
{
    put_int32(c, sizeof n);
    put_int32(c, n);
}

void copy_int64(struct copy *c, int64_t n)
{
    uint64_t wire = htobe64((uint64_t)n);
    put_int32(c, sizeof wire);
    put(c, &wire, sizeof wire);
}

void copy_time(struct copy *c, int64_t ms)
{
    copy_int64(c, (ms - PG_EPOCH_MS) * 1000);
}

void copy_bytes(struct copy *c, struct rp_bytes bytes)
{
    if (bytes.data == NULL) {
        copy_null(c);
        return;
    }
    if (bytes.len > INT32_MAX) { /* no record is as large, and the length would not fit */
        c->failed = true;
        return;
    }
    put_int32(c, (int32_t)bytes.len);
    put(c, bytes.data, bytes.len);
}

size_t copy_array(struct copy *c, enum copy_element type, size_t n)
{
    size_t begin = c->buf.len;
    put_int32(c, 0);             /* the length, put right at the end */
    put_int32(c, n > 0 ? 1 : 0); /* dimensions */
    put_int32(c, 1);             /* there may be nulls */
    put_int32(c, (int32_t)type);
    if (n > 0) {
        put_int32(c, (int32_t)n);
        put_int32(c, 1); /* the first index */
    }
    return begin;
}

void copy_array_end(struct copy *c, size_t begin)
{
    if (c->failed)
        return;
    uint32_t wire = htobe32((uint32_t)(c->buf.len - begin - sizeof wire));
    memcpy(c->buf.data + begin, &wire, sizeof wire);
}
