/* SPDX-License-Identifier: Apache-2.0 */
/* A file for import. The first byte says whether the input is the file as it is, or a text that is
 * compressed here in two frames, which the next byte parts: then all of it must come out again.
 * Where two further bytes cut that file, nothing else must, and an error at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "lines.h"

/* A file of so many bytes unfolds to some 40 MiB at most. */
#define MOST_BYTES 1024
/* A long text fills the reader's buffers twice. */
#define LONG_TEXT (280 * 1024)
#define ROOM      (2 * LONG_TEXT)
#define GZIP_BITS (15 + 16)
#define HEAD      4
#define LONG      0x80 /* of the first byte */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum how { AS_IT_IS, GZIP, ZSTD, N_HOWS };

static void must(bool good)
{
    if (!good)
        abort();
}

/* The lines so far are the text's, up to `at`. */
static void check_line(struct rp_bytes line, struct rp_bytes text, size_t *at)
{
    must(line.len <= text.len - *at &&
         memcmp(line.data, (const char *)text.data + *at, line.len) == 0);
    *at += line.len;
    must(*at == text.len || ((const char *)text.data)[*at] == '\n');
    *at += *at < text.len;
}

/* Whether it can be read to its end. A null `text` is not known. */
static bool read_lines(struct rp_lines *l, struct rp_bytes text)
{
    struct rp_bytes line;
    struct rp_error err;
    size_t at = 0;
    for (bool more = true; more;) {
        if (rp_lines_next(l, &line, &more, &err) != 0) {
            must(err.code == RP_E_DECODE && err.cls == RP_POISON);
            return false;
        }
        if (!more)
            break;
        must(line.data != NULL && memchr(line.data, '\n', line.len) == NULL);
        if (text.data != NULL)
            check_line(line, text, &at);
    }
    must(at == text.len || text.data == NULL);
    return true;
}

/* A file that nobody else sees. */
static bool read_file(const void *data, size_t size, struct rp_bytes text)
{
    char path[32];
    struct rp_lines *l;
    int fd = memfd_create("lines", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(rp_lines_open(path, &l, NULL) == 0);
    bool whole = read_lines(l, text);
    rp_lines_close(l);
    (void)close(fd);
    return whole;
}

static size_t compress_gzip(struct rp_bytes text, uint8_t *out)
{
    static z_stream z;
    if (z.state == NULL)
        must(deflateInit2(&z, 1, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    must(deflateReset(&z) == Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text.data;
    z.avail_in = (uInt)text.len;
    z.next_out = out;
    z.avail_out = ROOM / 2;
    must(deflate(&z, Z_FINISH) == Z_STREAM_END);
    return z.total_out;
}

static size_t compress_zstd(struct rp_bytes text, uint8_t *out)
{
    static ZSTD_CCtx *z;
    if (z == NULL)
        z = ZSTD_createCCtx();
    size_t n = ZSTD_compressCCtx(z, out, ROOM / 2, text.data, text.len, 1);
    must(!ZSTD_isError(n));
    return n;
}

/* Where one frame ends, the file may. What is left of its first bytes may be those of a plain one.
 */
static void check_cut(const uint8_t *file, size_t len, size_t frame, struct rp_bytes in_frame,
                      struct rp_bytes text)
{
    if (len == frame)
        must(read_file(file, len, in_frame));
    else if (len < 4)
        (void)read_file(file, len, RP_NULL_BYTES);
    else
        must(!read_file(file, len, text));
}

static void check_compressed(enum how how, struct rp_bytes text, size_t split, size_t cut)
{
    static uint8_t file[ROOM];
    size_t (*compress_to)(struct rp_bytes, uint8_t *) = how == GZIP ? compress_gzip : compress_zstd;
    const struct rp_bytes first = {text.data, split % (text.len + 1)};
    const struct rp_bytes second = {(const char *)text.data + first.len, text.len - first.len};
    const size_t frame = compress_to(first, file);
    const size_t len = frame + compress_to(second, file + frame);
    must(read_file(file, len, text));
    check_cut(file, cut % len, frame, first, text);
}

static bool is_plain(struct rp_bytes file)
{
    return (file.len < 2 || memcmp(file.data, "\x1f\x8b", 2) != 0) &&
           (file.len < 4 || memcmp(file.data, "\x28\xb5\x2f\xfd", 4) != 0);
}

/* The text so many times over, to what is long. */
static struct rp_bytes prolong(struct rp_bytes text)
{
    static uint8_t room[LONG_TEXT];
    size_t len = 0;
    for (; text.len > 0 && len + text.len <= LONG_TEXT; len += text.len)
        memcpy(room + len, text.data, text.len);
    return (struct rp_bytes){room, len};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD || size > MOST_BYTES)
        return 0;
    const enum how how = data[0] % N_HOWS;
    const size_t split = (size_t)data[1] << 12, cut = (size_t)data[2] << 8 | data[3];
    struct rp_bytes text = {data + HEAD, size - HEAD};
    if ((data[0] & LONG) != 0)
        text = prolong(text);
    if (how != AS_IT_IS)
        check_compressed(how, text, split, cut);
    else if (is_plain(text))
        must(read_file(text.data, text.len, text));
    else
        (void)read_file(text.data, text.len, RP_NULL_BYTES);
    return 0;
}
