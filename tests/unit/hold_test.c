/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hold.h"
#include "spill.h"

#define MIB ((size_t)1 << 20)

/* Stands in for open() (the linker's --wrap), as on a file system without unnamed files. */
static bool no_unnamed_files;
static int opened; /* last */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (no_unnamed_files && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    opened = __real_open(path, flags, mode);
    return opened;
}

static struct hold *open_hold(size_t budget)
{
    struct hold *h;
    struct rp_error err;
    assert_int_equal(hold_new(budget, "/tmp", &h, &err), 0);
    return h;
}

/* A record that tells its number from any byte of it. */
static uint64_t put(struct hold *h, unsigned n, size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    memset(bytes, (int)(n * 131 % 251), len);
    const struct rp_bytes parts[] = {{&n, sizeof n}, RP_NULL_BYTES, {bytes, len}};
    uint64_t handle;
    struct rp_error err;
    assert_int_equal(hold_put(h, parts, 3, &handle, &err), 0);
    free(bytes);
    return handle;
}

static void expect(struct hold *h, uint64_t handle, unsigned n, size_t len)
{
    struct rp_buf scratch = {0};
    struct rp_bytes got;
    struct rp_error err;
    unsigned number;
    assert_int_equal(hold_get(h, handle, &scratch, &got, &err), 0);
    assert_int_equal(got.len, sizeof n + len);
    memcpy(&number, got.data, sizeof number);
    assert_int_equal(number, n);
    const uint8_t *bytes = (const uint8_t *)got.data + sizeof n;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != n * 131 % 251)
            fail_msg("record %u differs at byte %zu", n, i);
    }
    rp_buf_clear(&scratch);
}

static void what_is_put_is_got(void **state)
{
    (void)state;
    struct hold *h = open_hold(MIB);
    uint64_t a = put(h, 1, 100), b = put(h, 2, 0), c = put(h, 3, 5000);
    expect(h, c, 3, 5000);
    expect(h, a, 1, 100);
    expect(h, b, 2, 0);
    assert_int_equal(hold_spilled_bytes(h), 0);
    hold_free(h);
}

static void what_is_over_the_budget_is_read_back_from_the_file(void **state)
{
    (void)state;
    enum { N = 10000 };
    struct hold *h = open_hold(2 * MIB);
    static uint64_t handles[N];
    for (unsigned i = 0; i < N; i++)
        handles[i] = put(h, i, i % 1000 * 2);
    assert_true(hold_memory_bytes(h) <= 3 * MIB);
    assert_true(hold_spilled_bytes(h) > 6 * MIB);
    for (unsigned i = 0; i < N; i++) {
        unsigned k = i * 7919u % N;
        expect(h, handles[k], k, k % 1000 * 2);
        hold_drop(h, handles[k]);
    }
    assert_int_equal(hold_spilled_bytes(h), 0);
    assert_true(hold_memory_bytes(h) <= 2 * MIB);
    hold_free(h);
}

static bool is_read_back(struct hold *h, uint64_t handle)
{
    struct rp_buf scratch = {0};
    struct rp_bytes got;
    struct rp_error err;
    int rc = hold_get(h, handle, &scratch, &got, &err);
    if (rc != 0)
        assert_int_equal(err.code, RP_E_IO);
    rp_buf_clear(&scratch);
    return rc == 0;
}

/* By a bad disk, or since somebody cut it, be it that it grew again. */
static void what_was_altered_in_the_file_is_not_read_back(void **state)
{
    (void)state;
    enum { N = 3000, LEN = 1000, AT = 500 };
    struct hold *h = open_hold(2 * MIB);
    static uint64_t handles[N];
    uint8_t byte;
    for (unsigned i = 0; i < N; i++)
        handles[i] = put(h, i, i == 1 ? 2 * MIB : i == 2 ? 0 : LEN);
    assert_true(hold_spilled_bytes(h) > 2 * MIB);
    assert_int_equal(pread(opened, &byte, 1, AT), 1);
    byte ^= 1;
    assert_int_equal(pwrite(opened, &byte, 1, AT), 1);
    size_t altered = 0;
    for (unsigned i = 0; i < N; i++)
        altered += !is_read_back(h, handles[i]);
    assert_int_equal(altered, 1);
    assert_int_equal(ftruncate(opened, 0), 0);
    assert_false(is_read_back(h, handles[0]));
    assert_int_equal(ftruncate(opened, (off_t)(8 * MIB)), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_false(is_read_back(h, handles[i]));
    expect(h, handles[N - 1], N - 1, LEN); /* in memory */
    hold_free(h);
}

static void a_record_larger_than_a_segment_is_held_too(void **state)
{
    (void)state;
    struct hold *h = open_hold(2 * MIB);
    uint64_t small = put(h, 1, 10), large = put(h, 2, 3 * MIB + 17), next = put(h, 3, 10);
    uint64_t larger = put(h, 4, 5 * MIB);
    assert_true(hold_spilled_bytes(h) > 3 * MIB);
    expect(h, small, 1, 10);
    expect(h, large, 2, 3 * MIB + 17);
    expect(h, next, 3, 10);
    expect(h, larger, 4, 5 * MIB);
    hold_drop(h, large);
    hold_drop(h, larger);
    assert_int_equal(hold_spilled_bytes(h), 0);
    assert_true(hold_memory_bytes(h) <= 2 * MIB);
    hold_free(h);
}

static void memory_does_not_grow_in_a_steady_flow(void **state)
{
    (void)state;
    enum { WINDOW = 5000 };
    struct hold *h = open_hold(2 * MIB);
    static uint64_t handles[WINDOW];
    for (unsigned i = 0; i < 20 * WINDOW; i++) {
        if (i >= WINDOW)
            hold_drop(h, handles[i % WINDOW]);
        handles[i % WINDOW] = put(h, i, 1000);
    }
    assert_true(hold_memory_bytes(h) <= 3 * MIB);
    assert_true(hold_spilled_bytes(h) <= WINDOW * 1024 + 2 * MIB);
    for (unsigned i = 19 * WINDOW; i < 20 * WINDOW; i++)
        expect(h, handles[i % WINDOW], i, 1000);
    hold_free(h);
}

static void a_hold_that_is_emptied_again_and_again_needs_no_second_segment(void **state)
{
    (void)state;
    struct hold *h = open_hold(2 * MIB);
    for (unsigned i = 0; i < 10000; i++)
        hold_drop(h, put(h, i, 1000));
    assert_int_equal(hold_memory_bytes(h), MIB);
    hold_free(h);
}

static void the_place_of_a_dropped_piece_is_used_again(void **state)
{
    (void)state;
    struct spill *s;
    struct rp_error err;
    uint64_t a, b, c, d;
    char *piece = calloc(1, 3 * MIB);
    assert_int_equal(spill_new("/tmp", &s, &err), 0);
    assert_int_equal(spill_write(s, piece, 100, &a, &err), 0);
    assert_int_equal(spill_write(s, piece, 2 * MIB + 1, &b, &err), 0);
    assert_int_equal(spill_file_bytes(s), 4 * MIB);
    spill_drop(s, b, 2 * MIB + 1);
    assert_int_equal(spill_write(s, piece, MIB, &c, &err), 0);
    assert_int_equal(spill_write(s, piece, 1, &d, &err), 0);
    assert_int_equal(spill_file_bytes(s), 4 * MIB);
    spill_drop(s, a, 100), spill_drop(s, c, MIB), spill_drop(s, d, 1);
    assert_int_equal(spill_file_bytes(s), 0);
    spill_free(s);
    free(piece);
}

static void what_cannot_be_written_stays_in_memory(void **state)
{
    (void)state;
    enum { N = 8000 };
    struct rlimit old, small;
    struct hold *h = open_hold(2 * MIB);
    static uint64_t handles[N];
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){2 * MIB + 1000, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (unsigned i = 0; i < N / 2; i++)
        handles[i] = put(h, i, 1000);
    for (unsigned i = N / 2; i < N; i++)
        handles[i] = put(h, i, 1000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(hold_memory_bytes(h) > 5 * MIB);
    assert_true(hold_spilled_bytes(h) > MIB);
    assert_true(hold_is_over(h));
    for (unsigned i = 0; i < N; i++)
        expect(h, handles[i], i, 1000);
    /* The disk has room again. */
    uint64_t more[2000];
    for (unsigned i = 0; i < 2000; i++)
        more[i] = put(h, N + i, 1000);
    assert_true(hold_memory_bytes(h) <= 3 * MIB);
    assert_false(hold_is_over(h));
    for (unsigned i = 0; i < N; i++)
        expect(h, handles[i], i, 1000);
    for (unsigned i = 0; i < 2000; i++)
        expect(h, more[i], N + i, 1000);
    hold_free(h);
    signal(SIGXFSZ, handler);
}

static size_t count_entries(const char *folder)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    assert_int_equal(closedir(dir), 0);
    return n;
}

static void without_unnamed_files_a_named_one_is_unlinked_at_once(void **state)
{
    (void)state;
    char folder[] = "/tmp/reprise-hold-test-XXXXXX", piece[] = "piece", got[sizeof piece];
    struct spill *s;
    struct rp_error err;
    uint64_t place;
    assert_non_null(mkdtemp(folder));
    size_t before = count_entries(folder);
    no_unnamed_files = true;
    int rc = spill_new(folder, &s, &err);
    no_unnamed_files = false;
    size_t after = count_entries(folder);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rc, 0);
    assert_int_equal(after, before);
    assert_int_equal(spill_write(s, piece, sizeof piece, &place, &err), 0);
    assert_int_equal(spill_read(s, place, 0, got, sizeof got, &err), 0);
    assert_string_equal(got, piece);
    spill_free(s);
}

static void a_folder_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct hold *h;
    struct rp_error err;
    assert_int_equal(hold_new(MIB, "/nonexistent/folder", &h, &err), -1);
    assert_int_equal(err.code, RP_E_IO);
    assert_non_null(strstr(err.text, "/nonexistent/folder"));
}

static void a_length_that_no_record_has_is_refused(void **state)
{
    (void)state;
    struct hold *h = open_hold(MIB);
    const struct rp_bytes parts[] = {{"", 1}, {"", SIZE_MAX}};
    uint64_t handle;
    struct rp_error err;
    assert_int_equal(hold_put(h, parts, 2, &handle, &err), -1);
    assert_int_equal(err.code, RP_E_RANGE);
    hold_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_got),
        cmocka_unit_test(what_is_over_the_budget_is_read_back_from_the_file),
        cmocka_unit_test(what_was_altered_in_the_file_is_not_read_back),
        cmocka_unit_test(a_record_larger_than_a_segment_is_held_too),
        cmocka_unit_test(memory_does_not_grow_in_a_steady_flow),
        cmocka_unit_test(a_hold_that_is_emptied_again_and_again_needs_no_second_segment),
        cmocka_unit_test(the_place_of_a_dropped_piece_is_used_again),
        cmocka_unit_test(what_cannot_be_written_stays_in_memory),
        cmocka_unit_test(without_unnamed_files_a_named_one_is_unlinked_at_once),
        cmocka_unit_test(a_folder_that_is_not_there_is_refused),
        cmocka_unit_test(a_length_that_no_record_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
