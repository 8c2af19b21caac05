/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <zlib.h>
#include <zstd.h>

#include "error_fixture.h"
#include "file_fixture.h"
#include "lines.h"
#include "memory_fixture.h"

#define SIZE (1 << 20)
static uint8_t text[SIZE], packed[2 * SIZE + 1000];
static char path[32];

/* Lines of all lengths, which do not shrink. */
static void fill(void)
{
    unsigned seed = 1;
    for (size_t i = 0; i < SIZE; i++)
        text[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
    text[SIZE - 1] = '\n';
}

static size_t gzip(const void *data, size_t len, uint8_t *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data,
                  .avail_in = (uInt)len,
                  .next_out = out,
                  .avail_out = SIZE + 1000};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return z.total_out;
}

static size_t zstd(const void *data, size_t len, uint8_t *out)
{
    return ZSTD_compress(out, SIZE + 1000, data, len, 3);
}

static struct rp_lines *open_of(const void *bytes, size_t len)
{
    struct rp_lines *l;
    struct rp_error err;
    strcpy(path, "/tmp/lines-XXXXXX");
    file_make(path, bytes, len);
    if (rp_lines_open(path, &l, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(unlink(path), 0);
    return l;
}

/* Reads all lines, which together are `text` so many times over. */
static void assert_holds(const void *bytes, size_t len, int times)
{
    struct rp_lines *l = open_of(bytes, len);
    struct rp_error err;
    struct rp_bytes line;
    bool more;
    size_t at = 0;
    for (;;) {
        if (rp_lines_next(l, &line, &more, &err) != 0)
            fail_msg("%s", err.text);
        if (!more)
            break;
        if (at == SIZE) {
            at = 0;
            times--;
        }
        assert_true(line.len < SIZE - at);
        assert_memory_equal(line.data, text + at, line.len);
        at += line.len + 1;
        assert_int_equal(text[at - 1], '\n');
    }
    assert_int_equal(at, SIZE);
    assert_int_equal(times, 1);
    rp_lines_close(l);
}

static void assert_damaged(const void *bytes, size_t len, const char *because)
{
    struct rp_lines *l = open_of(bytes, len);
    struct rp_error err;
    struct rp_bytes line;
    bool more = true;
    int rc = 0;
    while (rc == 0 && more)
        rc = rp_lines_next(l, &line, &more, &err);
    assert_int_equal(rc, -1);
    assert_int_equal(err.code, RP_E_DECODE);
    assert_int_equal(err.cls, RP_POISON);
    assert_says(&err, path);
    assert_says(&err, because);
    rp_lines_close(l);
}

static void a_file_is_read_whether_compressed_or_not(void **state)
{
    (void)state;
    assert_holds(text, SIZE, 1);
    assert_holds(packed, gzip(text, SIZE, packed), 1);
    assert_holds(packed, zstd(text, SIZE, packed), 1);
}

static void one_frame_may_follow_another(void **state)
{
    (void)state;
    size_t n = gzip(text, SIZE, packed);
    assert_holds(packed, n + gzip(text, SIZE, packed + n), 2);
    n = zstd(text, SIZE, packed);
    assert_holds(packed, n + zstd(text, SIZE, packed + n), 2);
}

static void a_file_that_is_cut_short_is_no_end(void **state)
{
    (void)state;
    size_t n = gzip(text, SIZE, packed);
    assert_damaged(packed, n / 2, "ends too early");
    assert_damaged(packed, n - 1, "ends too early");
    assert_damaged(packed, 2, "ends too early");
    n = zstd(text, SIZE, packed);
    assert_damaged(packed, n / 2, "ends too early");
    assert_damaged(packed, n - 1, "ends too early");
    assert_damaged(packed, 4, "ends too early");
}

static void damage_is_told(void **state)
{
    (void)state;
    size_t n = gzip(text, SIZE, packed);
    packed[n - 8] ^= 1; /* its checksum */
    assert_damaged(packed, n, "incorrect data check");
    (void)gzip("a\n", 2, packed);
    memset(packed + 10, 0xff, 1000);
    assert_damaged(packed, 1010, "invalid block type");
    (void)zstd("a\n", 2, packed);
    memset(packed + 4, 0xff, 1000);
    assert_damaged(packed, 1004, "");
}

static void pack(ZSTD_CStream *z, ZSTD_outBuffer *out, const void *data, size_t len)
{
    ZSTD_inBuffer in = {data, len, 0};
    assert_int_equal(ZSTD_isError(ZSTD_compressStream(z, out, &in)), 0);
    assert_int_equal(in.pos, len);
}

static void assert_next(struct rp_lines *l, struct rp_bytes expected)
{
    struct rp_bytes line;
    struct rp_error err;
    bool more;
    assert_int_equal(rp_lines_next(l, &line, &more, &err), 0);
    assert_true(more);
    assert_int_equal(line.data == NULL, expected.data == NULL);
    assert_int_equal(line.len, expected.len);
    if (expected.len > 0)
        assert_memory_equal(line.data, expected.data, expected.len);
}

/* Nobody's memory is to be filled by a file of nothing. */
static void a_line_that_is_too_long_is_passed_over(void **state)
{
    (void)state;
    static const char nothing[1 << 20];
    struct rp_bytes line;
    struct rp_error err;
    bool more;
    for (int ended = 0; ended <= 1; ended++) {
        ZSTD_CStream *z = ZSTD_createCStream();
        ZSTD_outBuffer out = {packed, sizeof packed, 0};
        assert_non_null(z);
        pack(z, &out, "before\n", 7);
        for (size_t n = 0; n <= RP_LINES_MAX; n += sizeof nothing)
            pack(z, &out, nothing, sizeof nothing);
        if (ended)
            pack(z, &out, "\nbehind", 7);
        assert_int_equal(ZSTD_endStream(z, &out), 0);
        (void)ZSTD_freeCStream(z);
        struct rp_lines *l = open_of(packed, out.pos);
        assert_next(l, rp_str("before"));
        assert_next(l, RP_NULL_BYTES);
        if (ended)
            assert_next(l, rp_str("behind"));
        assert_int_equal(rp_lines_next(l, &line, &more, &err), 0);
        assert_false(more);
        rp_lines_close(l);
    }
}

static void the_last_line_may_lack_its_end(void **state)
{
    (void)state;
    struct rp_lines *l = open_of("a\n\nb", 4);
    struct rp_error err;
    struct rp_bytes line;
    static const char *const lines[] = {"a", "", "b"};
    bool more;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rp_lines_next(l, &line, &more, &err), 0);
        assert_true(more);
        assert_int_equal(line.len, strlen(lines[i]));
        assert_memory_equal(line.data, lines[i], line.len);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rp_lines_next(l, &line, &more, &err), 0);
        assert_false(more);
    }
    rp_lines_close(l);
}

static void a_file_may_have_a_byte_or_none(void **state)
{
    (void)state;
    struct rp_error err;
    struct rp_bytes line;
    bool more;
    for (size_t n = 0; n <= 1; n++) {
        struct rp_lines *l = open_of("\x1f", n);
        assert_int_equal(rp_lines_next(l, &line, &more, &err), 0);
        assert_int_equal(more, n > 0);
        assert_int_equal(line.len, n);
        rp_lines_close(l);
    }
}

/* Opens stdin as a pipe of these bytes, each of which is read by itself. Returns what it was. */
static int open_stdin(const void *bytes, size_t n, struct rp_lines **out)
{
    struct rp_error err;
    int fds[2], before = dup(STDIN_FILENO);
    assert_int_equal(pipe2(fds, O_DIRECT), 0);
    assert_true(fcntl(fds[1], F_SETPIPE_SZ, 1 << 18) > 0); /* a page for each byte */
    for (size_t i = 0; i < n; i++)
        assert_int_equal(write(fds[1], (const uint8_t *)bytes + i, 1), 1);
    assert_int_equal(close(fds[1]), 0);
    assert_int_equal(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(rp_lines_open("-", out, &err), 0);
    return before;
}

static void close_stdin(int before)
{
    char c;
    assert_int_equal(read(STDIN_FILENO, &c, 1), 0); /* it is still open */
    if (before >= 0) {
        assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
        assert_int_equal(close(before), 0);
    }
}

static void a_dash_is_stdin(void **state)
{
    (void)state;
    struct rp_lines *l;
    struct rp_error err;
    struct rp_bytes line;
    bool more;
    int before = open_stdin("\x1f\x8b", 2, &l);
    assert_int_equal(rp_lines_next(l, &line, &more, &err), -1);
    assert_string_equal(err.text, "stdin: ends too early");
    rp_lines_close(l);
    close_stdin(before);
}

static void a_pipe_may_give_its_bytes_one_by_one(void **state)
{
    (void)state;
    static const char plain[] = "\x28\xb5";
    const size_t lengths[] = {2, gzip("ab", 2, packed), zstd("ab", 2, packed + 500)};
    const void *const bytes[] = {plain, packed, packed + 500};
    for (size_t i = 0; i < 3; i++) {
        struct rp_lines *l;
        struct rp_error err;
        struct rp_bytes line;
        bool more;
        int before = open_stdin(bytes[i], lengths[i], &l);
        if (rp_lines_next(l, &line, &more, &err) != 0)
            fail_msg("%s", err.text);
        assert_true(rp_bytes_equal(line, rp_str(i == 0 ? plain : "ab")));
        assert_int_equal(rp_lines_next(l, &line, &more, &err), 0);
        assert_false(more);
        rp_lines_close(l);
        close_stdin(before);
    }
}

static void what_cannot_be_read_says_why(void **state)
{
    (void)state;
    struct rp_lines *l;
    struct rp_error err;
    struct rp_bytes line;
    bool more;
    assert_int_equal(rp_lines_open("/tmp/there/is/none", &l, &err), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_says(&err, "cannot read /tmp/there/is/none: No such file");
    assert_int_equal(rp_lines_open("/tmp", &l, &err), 0);
    assert_int_equal(rp_lines_next(l, &line, &more, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_says(&err, "cannot read /tmp: Is a directory");
    rp_lines_close(l);
}

static size_t len;

static int read_line(struct rp_error *err)
{
    struct rp_lines *l;
    struct rp_bytes line;
    bool more;
    strcpy(path, "/tmp/lines-XXXXXX");
    file_make(path, packed, len);
    int rc = rp_lines_open(path, &l, err);
    assert_int_equal(unlink(path), 0);
    if (rc != 0)
        return -1;
    rc = rp_lines_next(l, &line, &more, err);
    rp_lines_close(l);
    return rc;
}

static void want_of_memory_is_no_damage(void **state)
{
    (void)state;
    len = gzip("a\n", 2, packed);
    assert_true(starve(read_line) >= 3);
    len = zstd("a\n", 2, packed);
    assert_true(starve(read_line) >= 3);
}

int main(void)
{
    fill();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whether_compressed_or_not),
        cmocka_unit_test(one_frame_may_follow_another),
        cmocka_unit_test(a_file_that_is_cut_short_is_no_end),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(a_line_that_is_too_long_is_passed_over),
        cmocka_unit_test(the_last_line_may_lack_its_end),
        cmocka_unit_test(a_file_may_have_a_byte_or_none),
        cmocka_unit_test(a_dash_is_stdin),
        cmocka_unit_test(a_pipe_may_give_its_bytes_one_by_one),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(want_of_memory_is_no_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
