/* SPDX-License-Identifier: Apache-2.0 */
/* The spill file on a file system that does not do what it is told. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "error_fixture.h"
#include "spill.h"

/* What the next call of each fails with; 0: it does not. */
static int open_errno, unlink_errno, pwrite_errno, pread_errno, truncate_errno;
static bool is_short; /* the file has no bytes */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
ssize_t __real_pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t __real_pread(int fd, void *data, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t n, off_t at);
int __real_ftruncate(int fd, off_t n);
int __wrap_ftruncate(int fd, off_t n);

static bool fails(int *why)
{
    errno = *why;
    *why = 0;
    return errno != 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = va_arg(args, mode_t);
    va_end(args);
    return fails(&open_errno) ? -1 : __real_open(path, flags, mode);
}

int __wrap_unlink(const char *path)
{
    assert_int_equal(__real_unlink(path), 0);
    return fails(&unlink_errno) ? -1 : 0;
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at)
{
    return fails(&pwrite_errno) ? -1 : __real_pwrite(fd, data, n, at);
}

ssize_t __wrap_pread(int fd, void *data, size_t n, off_t at)
{
    return fails(&pread_errno) ? -1 : is_short ? 0 : __real_pread(fd, data, n, at);
}

int __wrap_ftruncate(int fd, off_t n)
{
    return fails(&truncate_errno) ? -1 : __real_ftruncate(fd, n);
}

static struct spill *spill;
static struct rp_error err;

static int set_up(void **state)
{
    (void)state;
    return spill_new("/tmp", &spill, &err);
}

static int tear_down(void **state)
{
    (void)state;
    spill_free(spill);
    return 0;
}

static void a_file_may_need_a_name_for_a_moment(void **state)
{
    static const int reasons[] = {EOPNOTSUPP, EISDIR, EINVAL};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct spill *s;
        open_errno = reasons[i];
        assert_int_equal(spill_new("/tmp", &s, &err), 0);
        spill_free(s);
    }
}

static void a_folder_without_a_file_is_refused_with_the_reason(void **state)
{
    struct spill *s;
    (void)state;
    open_errno = EACCES;
    assert_int_equal(spill_new("/tmp", &s, &err), -1);
    assert_int_equal(err.cls, RP_FATAL);
    assert_string_equal(err.text, "no file can be made in /tmp: Permission denied");
    open_errno = EISDIR;
    unlink_errno = EROFS;
    assert_int_equal(spill_new("/tmp", &s, &err), -1);
    assert_says(&err, "Read-only file system");
    static char dir[5000];
    memset(dir, '/', sizeof dir - 1);
    open_errno = EISDIR;
    assert_int_equal(spill_new(dir, &s, &err), -1);
    assert_int_equal(err.code, RP_E_IO);
    spill_free(NULL);
}

static void a_signal_is_no_failure(void **state)
{
    uint64_t place;
    char back[6];
    (void)state;
    pwrite_errno = EINTR;
    assert_int_equal(spill_write(spill, "record", 6, &place, &err), 0);
    pread_errno = EINTR;
    assert_int_equal(spill_read(spill, place, 0, back, 6, &err), 0);
    assert_memory_equal(back, "record", 6);
}

static void what_is_not_written_takes_no_place(void **state)
{
    uint64_t place, again;
    (void)state;
    assert_int_equal(spill_write(spill, "a", 1, &place, &err), 0);
    pwrite_errno = ENOSPC;
    assert_int_equal(spill_write(spill, "b", 1, &again, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_string_equal(err.text, "spill file: No space left on device");
    uint64_t bytes = spill_file_bytes(spill);
    assert_int_equal(spill_write(spill, "b", 1, &again, &err), 0);
    assert_int_equal(spill_file_bytes(spill), bytes);
    assert_int_not_equal(again, place);
}

static void what_cannot_be_read_back_says_why(void **state)
{
    uint64_t place;
    char back[6];
    (void)state;
    assert_int_equal(spill_write(spill, "record", 6, &place, &err), 0);
    pread_errno = EIO;
    assert_int_equal(spill_read(spill, place, 0, back, 6, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_string_equal(err.text, "spill file: Input/output error");
    is_short = true;
    assert_int_equal(spill_read(spill, place, 0, back, 6, &err), -1);
    assert_string_equal(err.text, "spill file: it is shorter than what was written");
    is_short = false;
}

static void a_file_that_cannot_be_cut_is_used_again(void **state)
{
    uint64_t place, again;
    (void)state;
    assert_int_equal(spill_write(spill, "a", 1, &place, &err), 0);
    truncate_errno = EIO;
    spill_drop(spill, place, 1);
    assert_int_equal(spill_file_bytes(spill), SPILL_UNIT);
    assert_int_equal(spill_write(spill, "b", 1, &again, &err), 0);
    assert_int_equal(again, place);
    spill_drop(spill, again, 1);
    assert_int_equal(spill_file_bytes(spill), 0);
}

/* Beside one that stays, and where smaller ones left holes. */
static void the_place_of_a_large_piece_is_used_again(void **state)
{
    static const char piece[2 * SPILL_UNIT + 1];
    uint64_t small[5], place;
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(spill_write(spill, "a", 1, &small[i], &err), 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(spill_write(spill, piece, sizeof piece, &place, &err), 0);
        spill_drop(spill, place, sizeof piece);
    }
    assert_int_equal(spill_file_bytes(spill), 8 * SPILL_UNIT);
    for (int i = 0; i < 3; i++)
        spill_drop(spill, small[i], 1);
    assert_int_equal(spill_write(spill, piece, sizeof piece, &place, &err), 0);
    assert_int_equal(place, small[0]);
    assert_int_equal(spill_write(spill, piece, sizeof piece, &place, &err), 0);
    assert_int_equal(spill_file_bytes(spill), 8 * SPILL_UNIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_file_may_need_a_name_for_a_moment),
        TEST(a_folder_without_a_file_is_refused_with_the_reason),
        TEST(a_signal_is_no_failure),
        TEST(what_is_not_written_takes_no_place),
        TEST(what_cannot_be_read_back_says_why),
        TEST(the_place_of_a_large_piece_is_used_again),
        TEST(a_file_that_cannot_be_cut_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
