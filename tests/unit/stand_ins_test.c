/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "json_number.h"
#include "stand_ins.h"

static struct rp_stand_ins found(const char *json)
{
    struct rp_stand_ins s;
    assert_int_equal(rp_stand_ins_find(rp_str(json), &s, NULL), 0);
    return s;
}

static void assert_text(struct rp_bytes got, const char *expected)
{
    assert_int_equal(got.len, strlen(expected));
    assert_memory_equal(got.data, expected, got.len);
}

static void assert_known_in_each_run(const char *json)
{
    struct rp_stand_ins s = found(json);
    for (int run = 0; run < RP_STAND_IN_RUNS; run++)
        for (size_t i = 0; i < s.n; i++) {
            struct rp_bytes literal = rp_stand_ins_literal(&s, s.items[i].values[run], run);
            assert_ptr_equal(literal.data, s.items[i].literal.data);
            for (int other = 0; other < run; other++)
                assert_true(s.items[i].values[run] != s.items[i].values[other]);
        }
    rp_stand_ins_clear(&s);
}

static void assert_put(const char *json, int run, const char *expected)
{
    struct rp_stand_ins s = found(json);
    struct rp_buf text = {0};
    assert_int_equal(rp_stand_ins_put(&s, rp_str(json), run, &text, NULL), 0);
    assert_text(rp_buf_bytes(&text), expected);
    rp_buf_clear(&text);
    rp_stand_ins_clear(&s);
}

static void what_a_double_stands_for_needs_none(void **state)
{
    (void)state;
    static const char json[] = "{\"a\": [1, -2.5, 1e3], \"b\": \"12345678901234567890\"}";
    struct rp_stand_ins s = found(json);
    assert_int_equal(s.n, 0);
    assert_null(rp_stand_ins_literal(&s, 1, 0).data);
    rp_stand_ins_clear(&s);
    assert_put(json, 0, json);
}

static void the_text_stays_but_for_those_numbers(void **state)
{
    (void)state;
    assert_put("{\"\\\"1e999\": 1e999, \"b\": 1 }", 0, "{\"\\\"1e999\": 1e+308, \"b\": 1 }");
    assert_put("[-12345678901234567890]", 2, "[-9007199254740991]");
}

static void each_run_has_another_for_each_number(void **state)
{
    (void)state;
    struct rp_stand_ins s =
        found("[12345678901234567890, 12345678901234567891, 12345678901234567890]");
    assert_int_equal(s.n, 2);
    for (int run = 0; run < RP_STAND_IN_RUNS; run++)
        assert_true(s.items[0].values[run] < s.items[1].values[run]);
    for (size_t i = 0; i < s.n; i++) {
        assert_true(s.items[i].values[0] != s.items[i].values[1]);
        assert_true(s.items[i].values[2] < RP_SAFE_INTEGER);
    }
    assert_text(rp_stand_ins_literal(&s, s.items[1].values[2], 2), "12345678901234567891");
    rp_stand_ins_clear(&s);
}

static void no_other_number_of_the_text_is_taken(void **state)
{
    (void)state;
    /* Those would be the first choices for it in the third run. */
    struct rp_stand_ins s = found("[12345678901234567890, 9007199254740991, 9007199254740989]");
    assert_int_equal(s.n, 1);
    assert_true(s.items[0].values[2] == RP_SAFE_INTEGER - 5);
    rp_stand_ins_clear(&s);
}

static void each_is_known_by_its_stand_in(void **state)
{
    (void)state;
    assert_known_in_each_run("12345678901234567890");
    assert_known_in_each_run("[-12345678901234567890,-1e400,1e400,0.12345678901234567890]");
    assert_known_in_each_run("[10.000000000000000000001, 1e-400, 10.0000000000000000000010]");
}

/* Those beyond 2^53 come below it in the third run. */
static void what_lies_just_below_2_to_the_53_keeps_its_place(void **state)
{
    (void)state;
    assert_known_in_each_run("{\"a\": 9007199254740990.5, \"b\": 9007199254740993}");
    assert_known_in_each_run("{\"a\": -9007199254740990.5, \"b\": -9007199254740993}");
    assert_known_in_each_run("[9007199254740990.5, 9007199254740988.25, 9007199254740988.75,"
                             " 9007199254740987, 9007199254740993, 9007199254740995.5, 1e400]");
}

static void large_ones_are_fractions_in_the_fourth_run(void **state)
{
    (void)state;
    struct rp_stand_ins s = found("[-1e400,-9007199254740993,1700000000000000,1700000000000000.125,"
                                  "2000000000000000.03125,9007199254740993,9007199254740994,1e30]");
    double at[7], distance = 0;
    assert_int_equal(s.n, 7);
    for (size_t i = 0; i < s.n; i++) {
        at[i] = s.items[i].values[3];
        assert_true(at[i] != trunc(at[i]));
        assert_true(i == 0 || at[i] > at[i - 1]);
        assert_true(fabs(at[i]) < 2e15);
        assert_true(i == 0 || at[i] - at[i - 1] != distance);
        distance = i == 0 ? 0 : at[i] - at[i - 1];
    }
    assert_true(at[1] < -4e12 && at[2] > 1.7e15);
    rp_stand_ins_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_double_stands_for_needs_none),
        cmocka_unit_test(the_text_stays_but_for_those_numbers),
        cmocka_unit_test(each_run_has_another_for_each_number),
        cmocka_unit_test(no_other_number_of_the_text_is_taken),
        cmocka_unit_test(each_is_known_by_its_stand_in),
        cmocka_unit_test(what_lies_just_below_2_to_the_53_keeps_its_place),
        cmocka_unit_test(large_ones_are_fractions_in_the_fourth_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
