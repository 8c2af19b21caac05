/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "chart.h"

static void shows(const int64_t *values, size_t n, bool unicode, const char *expected)
{
    struct rp_buf out = {0};
    chart_append(&out, values, n, unicode);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.data, expected, out.len);
    rp_buf_clear(&out);
}

static void the_largest_value_has_the_highest_bar(void **state)
{
    (void)state;
    const int64_t values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    shows(values, 8, false, ".:-=+*%#");
    shows(values, 2, true, "\xe2\x96\x81\xe2\x96\x85");
}

static void nothing_is_empty_and_little_can_be_seen(void **state)
{
    (void)state;
    const int64_t values[] = {0, 1, 1000000, -3, INT64_MAX};
    shows(values, 3, false, " .#");
    shows(values, 5, false, " .. #");
    shows(values, 1, true, " ");
}

static void the_environment_says_whether_it_is_utf8(void **state)
{
    (void)state;
    (void)setenv("LC_ALL", "de_DE.UTF-8", 1);
    assert_true(chart_unicode());
    (void)setenv("LC_ALL", "C", 1);
    (void)setenv("LANG", "C.UTF-8", 1);
    assert_false(chart_unicode());
    (void)unsetenv("LC_ALL");
    (void)unsetenv("LC_CTYPE");
    assert_true(chart_unicode());
    (void)unsetenv("LANG");
    assert_false(chart_unicode());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_value_has_the_highest_bar),
        cmocka_unit_test(nothing_is_empty_and_little_can_be_seen),
        cmocka_unit_test(the_environment_says_whether_it_is_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
