/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define ROOM (128 * 1024)
/* What makes zlib write gzip's frame. */
#define GZIP_BITS (15 + 16)

struct rp_pack {
    FILE *file;
    enum { PLAIN, GZIP, ZSTD } kind;
    z_stream gzip;
    bool gzip_begun;
    ZSTD_CCtx *zstd;
    uint8_t out[ROOM];
};

static int no_memory(struct rp_error *err)
{
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory to compress with");
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int begin(struct rp_pack *p, struct rp_error *err)
{
    if (p->kind == GZIP) {
        int rc = deflateInit2(&p->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_BITS, 8,
                              Z_DEFAULT_STRATEGY);
        p->gzip_begun = rc == Z_OK;
        return p->gzip_begun ? 0 : no_memory(err);
    }
    if (p->kind == PLAIN)
        return 0;
    p->zstd = ZSTD_createCCtx();
    if (p->zstd == NULL || ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1)))
        return no_memory(err);
    return 0;
}

int rp_pack_new(const char *path, FILE *file, struct rp_pack **out, struct rp_error *err)
{
    struct rp_pack *p = calloc(1, sizeof *p);
    if (p == NULL)
        return no_memory(err);
    p->file = file;
    p->kind = ends_with(path, ".zst") ? ZSTD : ends_with(path, ".gz") ? GZIP : PLAIN;
    if (begin(p, err) != 0) {
        rp_pack_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

static int put(struct rp_pack *p, const void *data, size_t n, struct rp_error *err)
{
    if (fwrite(data, 1, n, p->file) == n)
        return 0;
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "cannot write: %s", strerror(errno));
}

static int put_zstd(struct rp_pack *p, struct rp_bytes data, bool end, struct rp_error *err)
{
    ZSTD_inBuffer in = {data.data, data.len, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {p->out, ROOM, 0};
        left = ZSTD_compressStream2(p->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return rp_fail(err, RP_E_IO, RP_RETRIABLE, "cannot compress: %s",
                           ZSTD_getErrorName(left));
        if (put(p, p->out, out.pos, err) != 0)
            return -1;
    } while (end ? left > 0 : in.pos < in.size);
    return 0;
}

/* At most as much as zlib's counters hold. */
static int put_gzip(struct rp_pack *p, struct rp_bytes data, bool end, struct rp_error *err)
{
    int rc;
    p->gzip.next_in = (z_const Bytef *)data.data;
    p->gzip.avail_in = (uInt)data.len;
    do {
        p->gzip.next_out = p->out;
        p->gzip.avail_out = ROOM;
        rc = deflate(&p->gzip, end ? Z_FINISH : Z_NO_FLUSH);
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            return rp_fail(err, RP_E_IO, RP_RETRIABLE, "cannot compress: %s", zError(rc));
        if (put(p, p->out, ROOM - p->gzip.avail_out, err) != 0)
            return -1;
    } while (end ? rc != Z_STREAM_END : p->gzip.avail_out == 0);
    return 0;
}

static int pack(struct rp_pack *p, struct rp_bytes data, bool end, struct rp_error *err)
{
    if (p->kind == PLAIN)
        return put(p, data.data, data.len, err);
    return p->kind == ZSTD ? put_zstd(p, data, end, err) : put_gzip(p, data, end, err);
}

int rp_pack_put(struct rp_pack *p, struct rp_bytes data, struct rp_error *err)
{
    const uint8_t *from = data.data;
    while (data.len > 0) {
        size_t n = data.len < 1 << 30 ? data.len : 1 << 30;
        if (pack(p, (struct rp_bytes){from, n}, false, err) != 0)
            return -1;
        from += n;
        data.len -= n;
    }
    return 0;
}

int rp_pack_end(struct rp_pack *p, struct rp_error *err)
{
    return pack(p, rp_str(""), true, err);
}

void rp_pack_free(struct rp_pack *p)
{
    if (p == NULL)
        return;
    if (p->gzip_begun)
        (void)deflateEnd(&p->gzip);
    (void)ZSTD_freeCCtx(p->zstd);
    free(p);
}
