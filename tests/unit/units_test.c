/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "units.h"

static void a_duration_has_one_number_and_one_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"500ms", 500},      {"1s", 1000}, {"15m", 900000}, {"12h", 43200000},
                {"30d", 2592000000}, {"0", 0},     {"0ms", 0},      {"007s", 7000}};
    static const char *const bad[] = {"",    "1",    "s",     "1 s",  " 1s", "1s ",
                                      "-1s", "1.5s", "1s30s", "1sec", "1S",  "0x1s"};
    int64_t ms;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(rp_parse_duration(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(rp_parse_duration(bad[i], &ms));
}

static void what_does_not_fit_in_64_bits_is_refused(void **state)
{
    (void)state;
    int64_t n;
    assert_true(rp_parse_int("9223372036854775807", &n));
    assert_int_equal(n, INT64_MAX);
    assert_true(rp_parse_int("-9223372036854775807", &n));
    assert_false(rp_parse_int("9223372036854775808", &n));
    assert_false(rp_parse_int("99999999999999999999", &n));
    assert_false(rp_parse_duration("9223372036854775807d", &n));
    assert_false(rp_parse_size("9007199254740992GiB", &n));
    assert_false(rp_parse_ratio("9223372036854775807", &n));
    assert_false(rp_parse_ratio("9223372036854775.999", &n));
}

static void a_plain_number_may_be_negative_and_nothing_else(void **state)
{
    (void)state;
    int64_t n;
    assert_true(rp_parse_int("-1", &n));
    assert_int_equal(n, -1);
    assert_false(rp_parse_int("-", &n));
    assert_false(rp_parse_int("+1", &n));
    assert_false(rp_parse_int("1e3", &n));
    assert_false(rp_parse_int("", &n));
}

static void sizes_are_binary(void **state)
{
    (void)state;
    int64_t n;
    assert_true(rp_parse_size("64KiB", &n));
    assert_int_equal(n, 65536);
    assert_true(rp_parse_size("1MiB", &n));
    assert_int_equal(n, 1048576);
    assert_true(rp_parse_size("4096", &n));
    assert_int_equal(n, 4096);
    assert_false(rp_parse_size("1MB", &n));
}

static void a_ratio_has_three_places_at_most(void **state)
{
    (void)state;
    int64_t n;
    assert_true(rp_parse_ratio("2", &n));
    assert_int_equal(n, 2000);
    assert_true(rp_parse_ratio("1.75", &n));
    assert_int_equal(n, 1750);
    assert_true(rp_parse_ratio("1.005", &n));
    assert_int_equal(n, 1005);
    assert_false(rp_parse_ratio("1.0005", &n));
    assert_false(rp_parse_ratio("1.", &n));
    assert_false(rp_parse_ratio(".5", &n));
    assert_false(rp_parse_ratio("1.5x", &n));
    assert_false(rp_parse_ratio("1,5", &n));
}

static void a_time_of_day_is_five_characters(void **state)
{
    (void)state;
    int64_t n;
    assert_true(rp_parse_time_of_day("03:00", &n));
    assert_int_equal(n, 180);
    assert_true(rp_parse_time_of_day("23:59", &n));
    assert_int_equal(n, 1439);
    assert_false(rp_parse_time_of_day("24:00", &n));
    assert_false(rp_parse_time_of_day("12:60", &n));
    assert_false(rp_parse_time_of_day("3:00", &n));
    assert_false(rp_parse_time_of_day("03-00", &n));
    assert_false(rp_parse_time_of_day("0a:00", &n));
}

static void percent_and_bool_are_strict(void **state)
{
    (void)state;
    int64_t n;
    assert_true(rp_parse_percent("10%", &n));
    assert_int_equal(n, 10);
    assert_true(rp_parse_percent("0", &n));
    assert_false(rp_parse_percent("10", &n));
    assert_true(rp_parse_bool("true", &n));
    assert_int_equal(n, 1);
    assert_true(rp_parse_bool("false", &n));
    assert_int_equal(n, 0);
    assert_false(rp_parse_bool("yes", &n));
}

static void formatting_takes_the_largest_unit_that_divides(void **state)
{
    (void)state;
    char out[RP_UNIT_TEXT];
    assert_string_equal(rp_format_duration(0, out), "0");
    assert_string_equal(rp_format_duration(1500, out), "1500ms");
    assert_string_equal(rp_format_duration(90000, out), "90s");
    assert_string_equal(rp_format_duration(86400000, out), "1d");
    assert_string_equal(rp_format_size(65536, out), "64KiB");
    assert_string_equal(rp_format_size(1000, out), "1000");
    assert_string_equal(rp_format_ratio(1750, out), "1.75");
    assert_string_equal(rp_format_percent(10, out), "10%");
    assert_string_equal(rp_format_int(-7, out), "-7");
    assert_string_equal(rp_format_int(0, out), "0");
    assert_string_equal(rp_format_int(1763700000000, out), "1763700000000");
    assert_string_equal(rp_format_int(INT64_MAX, out), "9223372036854775807");
    assert_string_equal(rp_format_int(INT64_MIN, out), "-9223372036854775808");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_has_one_number_and_one_unit),
        cmocka_unit_test(what_does_not_fit_in_64_bits_is_refused),
        cmocka_unit_test(a_plain_number_may_be_negative_and_nothing_else),
        cmocka_unit_test(sizes_are_binary),
        cmocka_unit_test(a_ratio_has_three_places_at_most),
        cmocka_unit_test(a_time_of_day_is_five_characters),
        cmocka_unit_test(percent_and_bool_are_strict),
        cmocka_unit_test(formatting_takes_the_largest_unit_that_divides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
