/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "memory_fixture.h"
#include "pack.h"

#define SIZE (1 << 20)
static uint8_t in[SIZE], packed[2 * SIZE], back[SIZE];

/* Half of it noise, which does not shrink: several rooms of what is compressed. */
static void fill(void)
{
    unsigned seed = 1;
    for (size_t i = 0; i < SIZE; i++)
        in[i] = i % 2 == 0 ? 'a' : (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
}

/* Packs `in` in two pieces; returns how many bytes that makes. */
static size_t pack(const char *path)
{
    struct rp_pack *p;
    struct rp_error err;
    FILE *f = tmpfile();
    assert_non_null(f);
    if (rp_pack_new(path, f, &p, &err) != 0 ||
        rp_pack_put(p, (struct rp_bytes){in, 1000}, &err) != 0 ||
        rp_pack_put(p, (struct rp_bytes){in + 1000, SIZE - 1000}, &err) != 0 ||
        rp_pack_end(p, &err) != 0)
        fail_msg("%s", err.text);
    rp_pack_free(p);
    rewind(f);
    size_t n = fread(packed, 1, sizeof packed, f);
    assert_int_equal(fclose(f), 0);
    return n;
}

static void a_file_of_any_other_name_has_the_bytes_themselves(void **state)
{
    (void)state;
    assert_int_equal(pack("/f/.gz.jsonl"), SIZE);
    assert_memory_equal(packed, in, SIZE);
    assert_int_equal(pack("z"), SIZE);
}

static void zst_is_a_whole_frame_with_a_checksum(void **state)
{
    (void)state;
    size_t n = pack("a.zst");
    assert_true(n < SIZE);
    assert_int_equal(ZSTD_decompress(back, SIZE, packed, n), SIZE);
    assert_memory_equal(back, in, SIZE);
    packed[n - 1] ^= 1; /* the checksum is the frame's end */
    assert_true(ZSTD_isError(ZSTD_decompress(back, SIZE, packed, n)));
}

static void gz_is_a_whole_gzip_file(void **state)
{
    (void)state;
    size_t n = pack("a.gz");
    assert_true(n < SIZE);
    z_stream z = {.next_in = packed, .avail_in = (uInt)n, .next_out = back, .avail_out = SIZE};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, SIZE);
    assert_int_equal(z.avail_in, 0);
    assert_int_equal(inflateEnd(&z), Z_OK);
    assert_memory_equal(back, in, SIZE);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "a.gz", "a.zst"};
    for (size_t i = 0; i < 3; i++) {
        struct rp_pack *p;
        struct rp_error err;
        FILE *full = fopen("/dev/full", "w");
        assert_non_null(full);
        assert_int_equal(setvbuf(full, NULL, _IONBF, 0), 0);
        assert_int_equal(rp_pack_new(names[i], full, &p, &err), 0);
        int rc = rp_pack_put(p, (struct rp_bytes){in, SIZE}, &err);
        assert_int_equal(rc, -1);
        assert_int_equal(err.code, RP_E_IO);
        assert_int_equal(err.cls, RP_RETRIABLE);
        assert_string_equal(err.text, "cannot write: No space left on device");
        rp_pack_free(p);
        assert_int_equal(fclose(full), 0);
    }
}

static int make(struct rp_error *err)
{
    struct rp_pack *p;
    int rc = rp_pack_new("a.gz", stdout, &p, err);
    if (rc == 0)
        rp_pack_free(p);
    return rc;
}

static void there_is_a_pack_or_no_memory(void **state)
{
    (void)state;
    rp_pack_free(NULL);
    assert_int_equal(starve(make), 1);
}

int main(void)
{
    fill();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_any_other_name_has_the_bytes_themselves),
        cmocka_unit_test(zst_is_a_whole_frame_with_a_checksum),
        cmocka_unit_test(gz_is_a_whole_gzip_file),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(there_is_a_pack_or_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
