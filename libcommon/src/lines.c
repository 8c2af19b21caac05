/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define ROOM      (128 * 1024)
#define GZIP_BITS (15 + 16)

struct rp_lines {
    char *path;
    int fd;
    enum { UNKNOWN, PLAIN, GZIP, ZSTD } kind;
    uint8_t in[ROOM]; /* as it is in the file; from `at` to `len` not taken yet */
    size_t at, len;
    bool end;    /* of the file */
    bool framed; /* in the middle of a compressed frame */
    z_stream gzip;
    bool gzip_begun;
    ZSTD_DCtx *zstd;
    struct rp_buf text; /* from `from` on not given out yet; up to `seen` there is no line feed */
    size_t from, seen;
    bool too_long;          /* what is passed over is the rest of such a line */
    bool (*given_up)(void); /* or NULL */
};

static int damaged(const struct rp_lines *l, const char *why, struct rp_error *err)
{
    return rp_fail(err, RP_E_DECODE, RP_POISON, "%s: %s", l->path, why);
}

static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};

static bool begins(const struct rp_lines *l, const uint8_t *with, size_t n)
{
    return memcmp(l->in, with, l->len < n ? l->len : n) == 0;
}

/* Whether the next byte makes a difference to what kind of file it is. */
static bool is_open(const struct rp_lines *l)
{
    return l->kind == UNKNOWN && ((l->len < sizeof gzip && begins(l, gzip, sizeof gzip)) ||
                                  (l->len < sizeof zstd && begins(l, zstd, sizeof zstd)));
}

void rp_lines_give_up_when(struct rp_lines *l, bool (*given_up)(void))
{
    l->given_up = given_up;
}

/* A pipe may give its bytes one by one. */
static int fill(struct rp_lines *l, struct rp_error *err)
{
    if (l->at < l->len)
        return 0;
    l->at = l->len = 0;
    while (!l->end && (l->len == 0 || is_open(l))) {
        ssize_t n = read(l->fd, l->in + l->len, ROOM - l->len);
        if (n < 0 && errno == EINTR && (l->given_up == NULL || !l->given_up()))
            continue;
        if (n < 0)
            return rp_fail(err, RP_E_IO, RP_RETRIABLE, "cannot read %s: %s", l->path,
                           strerror(errno));
        l->len += (size_t)n;
        l->end = n == 0;
    }
    return 0;
}

static int no_memory(struct rp_error *err)
{
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory to read with");
}

static int begin(struct rp_lines *l, struct rp_error *err)
{
    l->kind = PLAIN;
    if (l->len >= sizeof gzip && begins(l, gzip, sizeof gzip)) {
        l->kind = GZIP;
        l->gzip_begun = inflateInit2(&l->gzip, GZIP_BITS) == Z_OK;
        return l->gzip_begun ? 0 : no_memory(err);
    }
    if (l->len < sizeof zstd || !begins(l, zstd, sizeof zstd))
        return 0;
    l->kind = ZSTD;
    l->zstd = ZSTD_createDCtx();
    return l->zstd == NULL ? no_memory(err) : 0;
}

static int take_zstd(struct rp_lines *l, size_t *taken, struct rp_error *err)
{
    ZSTD_inBuffer in = {l->in + l->at, l->len - l->at, 0};
    ZSTD_outBuffer out = {l->text.data + l->text.len, ROOM, 0};
    size_t left = ZSTD_decompressStream(l->zstd, &out, &in);
    if (ZSTD_isError(left))
        return damaged(l, ZSTD_getErrorName(left), err);
    l->at += in.pos;
    l->framed = left > 0;
    *taken = out.pos;
    return 0;
}

/* One frame may follow another. */
static int take_gzip(struct rp_lines *l, size_t *taken, struct rp_error *err)
{
    l->gzip.next_in = l->in + l->at;
    l->gzip.avail_in = (uInt)(l->len - l->at);
    l->gzip.next_out = l->text.data + l->text.len;
    l->gzip.avail_out = ROOM;
    int rc = inflate(&l->gzip, Z_NO_FLUSH);
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        return damaged(l, l->gzip.msg == NULL ? zError(rc) : l->gzip.msg, err);
    l->at = l->len - l->gzip.avail_in;
    *taken = ROOM - l->gzip.avail_out;
    l->framed = rc != Z_STREAM_END;
    if (rc == Z_STREAM_END)
        (void)inflateReset(&l->gzip); /* fails only where there is no stream */
    return 0;
}

static size_t take_plain(struct rp_lines *l)
{
    size_t n = l->len - l->at;
    memcpy(l->text.data + l->text.len, l->in + l->at, n);
    l->at = l->len;
    return n;
}

/* More text, behind what there is; `*taken` 0 at the end. A decompressor may hold back what has no
 * room, so it is also asked when there is nothing more to read. */
static int take(struct rp_lines *l, size_t *taken, struct rp_error *err)
{
    *taken = 0;
    while (*taken == 0) {
        if (fill(l, err) != 0 || (l->kind == UNKNOWN && begin(l, err) != 0) ||
            rp_buf_reserve(&l->text, ROOM, err) != 0)
            return -1;
        bool dry = l->at == l->len && l->end;
        if (dry && !l->framed)
            return 0;
        if (l->kind == PLAIN)
            *taken = take_plain(l);
        else if ((l->kind == ZSTD ? take_zstd(l, taken, err) : take_gzip(l, taken, err)) != 0)
            return -1;
        if (dry && *taken == 0)
            return l->framed ? damaged(l, "ends too early", err) : 0;
    }
    l->text.len += *taken;
    return 0;
}

static void drop_given(struct rp_lines *l)
{
    if (l->from == 0)
        return;
    memmove(l->text.data, l->text.data + l->from, l->text.len - l->from);
    l->text.len -= l->from;
    l->seen -= l->from;
    l->from = 0;
}

static int give(struct rp_lines *l, struct rp_bytes text, struct rp_bytes *line)
{
    *line = l->too_long ? RP_NULL_BYTES : text;
    l->too_long = false;
    return 0;
}

int rp_lines_next(struct rp_lines *l, struct rp_bytes *line, bool *more, struct rp_error *err)
{
    for (;;) {
        const uint8_t *feed = NULL;
        if (l->text.len > l->seen)
            feed = memchr(l->text.data + l->seen, '\n', l->text.len - l->seen);
        if (feed != NULL) {
            const uint8_t *begin_at = l->text.data + l->from;
            *more = true;
            l->from = l->seen = (size_t)(feed + 1 - l->text.data);
            return give(l, (struct rp_bytes){begin_at, (size_t)(feed - begin_at)}, line);
        }
        l->seen = l->text.len;
        drop_given(l);
        if (l->too_long || l->text.len > RP_LINES_MAX) {
            l->too_long = true;
            l->text.len = l->seen = 0;
        }
        size_t taken;
        if (take(l, &taken, err) != 0)
            return -1;
        if (taken > 0)
            continue;
        *more = l->too_long || l->text.len > 0;
        l->from = l->seen = l->text.len;
        return give(l, rp_buf_bytes(&l->text), line);
    }
}

int rp_lines_open(const char *path, struct rp_lines **out, struct rp_error *err)
{
    struct rp_lines *l = calloc(1, sizeof *l);
    if (l == NULL)
        return no_memory(err);
    bool standard = strcmp(path, "-") == 0;
    l->path = strdup(standard ? "stdin" : path);
    l->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (l->path == NULL || l->fd < 0) {
        int failed = l->path == NULL ? no_memory(err)
                                     : rp_fail(err, RP_E_IO, RP_POISON, "cannot read %s: %s", path,
                                               strerror(errno));
        rp_lines_close(l);
        return failed;
    }
    *out = l;
    return 0;
}

void rp_lines_close(struct rp_lines *l)
{
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    if (l->gzip_begun)
        (void)inflateEnd(&l->gzip);
    (void)ZSTD_freeDCtx(l->zstd);
    rp_buf_clear(&l->text);
    free(l->path);
    free(l);
}
