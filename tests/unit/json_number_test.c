/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "json_number.h"

static int compare(const char *a, const char *b)
{
    int order = rp_number_compare(rp_str(a), rp_str(b));
    assert_int_equal(rp_number_compare(rp_str(b), rp_str(a)), -order);
    return order;
}

static void the_order_goes_by_all_the_digits(void **state)
{
    (void)state;
    assert_int_equal(compare("9007199254740993", "9007199254740992"), 1);
    assert_int_equal(compare("-9007199254740993", "-9007199254740992"), -1);
    assert_int_equal(compare("0.1", "0.10000000000000000001"), -1);
    assert_int_equal(compare("12.5", "12.45"), 1);
    assert_int_equal(compare("9", "10"), -1);
    assert_int_equal(compare("-1", "1"), -1);
    assert_int_equal(compare("0", "0.001"), -1);
    assert_int_equal(compare("0", "-0.001"), 1);
}

static void what_is_written_otherwise_is_the_same_number(void **state)
{
    (void)state;
    assert_int_equal(compare("10.10", "10.1"), 0);
    assert_int_equal(compare("1e3", "1000"), 0);
    assert_int_equal(compare("1E+3", "1000.00"), 0);
    assert_int_equal(compare("0.00123", "1.23e-3"), 0);
    assert_int_equal(compare("0", "-0.0e7"), 0);
}

static void exponents_may_be_of_any_length(void **state)
{
    (void)state;
    assert_int_equal(compare("1e99999999999999999999", "1e999"), 1);
    assert_int_equal(compare("1e-99999999999999999999", "1e-999"), -1);
    assert_true(isinf(rp_number_value(rp_str("1e99999999999999999999"))));
}

static void a_double_s_text_is_short_and_reads_back(void **state)
{
    (void)state;
    static const double values[] = {0.1, 1e300, -2.5e-7, 1.0 / 3, DBL_MIN, DBL_MAX, 123456.789};
    char text[RP_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_true(rp_number_value(rp_str(rp_number_text(values[i], text))) == values[i]);
    assert_string_equal(rp_number_text(0.1, text), "0.1");
    assert_string_equal(rp_number_text(1e15, text), "1000000000000000");
    assert_string_equal(rp_number_text(-0.0, text), "-0.0");
    assert_string_equal(rp_number_text(0, text), "0");
}

static void a_float_s_text_is_no_longer_than_the_float_wants(void **state)
{
    (void)state;
    char text[RP_NUMBER_TEXT];
    assert_string_equal(rp_float_text(0.1F, text), "0.1");
    assert_string_equal(rp_float_text(0, text), "0");
    assert_true(strtof(rp_float_text(1.0F / 3, text), NULL) == 1.0F / 3);
}

static void a_long_number_has_a_value_too(void **state)
{
    (void)state;
    char text[400] = "1.";
    memset(text + 2, '0', sizeof text - 3);
    assert_true(rp_number_value(rp_str(text)) == 1);
    assert_true(rp_number_is_safe(rp_str(text)));
}

static void what_a_double_cannot_stand_for_is_not_safe(void **state)
{
    (void)state;
    assert_true(rp_number_is_safe(rp_str("9007199254740991")));
    assert_false(rp_number_is_safe(rp_str("9007199254740992")));
    assert_false(rp_number_is_safe(rp_str("-9007199254740993")));
    assert_true(rp_number_is_safe(rp_str("10.10")));
    assert_false(rp_number_is_safe(rp_str("0.12345678901234567890")));
    assert_false(rp_number_is_safe(rp_str("1e400")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_goes_by_all_the_digits),
        cmocka_unit_test(what_is_written_otherwise_is_the_same_number),
        cmocka_unit_test(exponents_may_be_of_any_length),
        cmocka_unit_test(a_double_s_text_is_short_and_reads_back),
        cmocka_unit_test(a_float_s_text_is_no_longer_than_the_float_wants),
        cmocka_unit_test(a_long_number_has_a_value_too),
        cmocka_unit_test(what_a_double_cannot_stand_for_is_not_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
