/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "filter.h"

static struct rp_filter *where(const char *expression)
{
    struct rp_filter *f;
    assert_int_equal(rp_filter_new(0, &f, NULL), 0);
    assert_int_equal(rp_filter_where(f, expression, NULL), 0);
    return f;
}

static void the_first_digits_are_found_wherever_they_are(void **state)
{
    (void)state;
    struct rp_filter *f =
        where("type = a and (group in (00000000000000ff, C57b) or not group = 8000) and class = b");
    struct rp_filter_prefix p;
    assert_true(rp_filter_prefix(f, 0, &p));
    assert_string_equal(p.text, "C57b");
    assert_int_equal(p.low, (int64_t)0xc57b000000000000);
    assert_int_equal(p.high, (int64_t)0xc57bffffffffffff);
    assert_true(rp_filter_prefix(f, 1, &p));
    assert_string_equal(p.text, "8000");
    assert_int_equal(p.low, INT64_MIN);
    assert_false(rp_filter_prefix(f, 2, &p));
    rp_filter_free(f);
}

static void a_whole_group_is_none(void **state)
{
    (void)state;
    struct rp_filter *f = where("group = ffffffffffffffff and group != none and attempts = 1234");
    struct rp_filter_prefix p;
    assert_false(rp_filter_prefix(f, 0, &p));
    rp_filter_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_digits_are_found_wherever_they_are),
        cmocka_unit_test(a_whole_group_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
