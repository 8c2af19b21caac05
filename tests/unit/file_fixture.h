/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FILE_FIXTURE_H
#define REPRISE_FILE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

/* Makes a file of these bytes. `path` ends with XXXXXX, and becomes its name; unlink it. */
static inline void file_make(char *path, const void *bytes, size_t len)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    assert_int_equal(close(fd), 0);
}

#endif
