/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pace.h"

/* Takes all that is allowed for so long, looking each `step_ms`; returns how much that was. */
static int64_t take_for(struct rp_pace *p, double per_s, int64_t *now_mono_ms, int64_t ms,
                        int64_t step_ms)
{
    int64_t taken = 0;
    for (int64_t end = *now_mono_ms + ms; *now_mono_ms < end; *now_mono_ms += step_ms) {
        int64_t n = rp_pace_allows(p, per_s, *now_mono_ms);
        rp_pace_take(p, n);
        taken += n;
    }
    return taken;
}

static void it_keeps_to_its_rate(void **state)
{
    (void)state;
    static const double rates[] = {0.5, 1, 7, 20, 333, 20000, 1e6};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct rp_pace p = {0};
        int64_t now = 1000;
        int64_t taken = take_for(&p, rates[i], &now, 60000, 3);
        assert_in_range(taken, (int64_t)(rates[i] * 59.8), (int64_t)(rates[i] * 60));
    }
}

static void a_rate_of_which_a_step_is_a_fraction_loses_nothing(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    int64_t now = 1000, taken = take_for(&p, 3, &now, 100001, 1);
    assert_int_equal(taken, 300);
}

static void who_comes_late_gets_half_a_second_at_most(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    assert_int_equal(rp_pace_allows(&p, 100, 1000), 0);
    assert_int_equal(rp_pace_allows(&p, 100, 1000 + 3600000), 50);
    struct rp_pace slow = {0};
    assert_int_equal(rp_pace_allows(&slow, 0.1, 1000), 0);
    assert_int_equal(rp_pace_allows(&slow, 0.1, 1000 + 3600000), 1);
}

static void it_gives_in_lumps(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    assert_int_equal(rp_pace_allows(&p, 1000, 1000), 0);
    assert_int_equal(rp_pace_allows(&p, 1000, 1049), 0);
    assert_int_equal(rp_pace_wait_ms(&p), 1);
    assert_int_equal(rp_pace_allows(&p, 1000, 1050), 50);
}

static void what_is_not_taken_is_saved(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    (void)rp_pace_allows(&p, 100, 1000);
    assert_int_equal(rp_pace_allows(&p, 100, 1100), 10);
    rp_pace_take(&p, 4);
    assert_int_equal(rp_pace_allows(&p, 100, 1100), 6);
}

static void no_rate_is_no_limit(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    assert_true(rp_pace_allows(&p, 0, 1000) == INT64_MAX);
    rp_pace_take(&p, 1000000);
    assert_int_equal(rp_pace_wait_ms(&p), 1);
    /* What went without a limit is not held against the rate that is set then. */
    (void)rp_pace_allows(&p, 100, 1000);
    assert_int_equal(rp_pace_allows(&p, 100, 1100), 10);
}

static void the_rate_may_change_at_any_time(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    int64_t now = 1000;
    assert_in_range(take_for(&p, 1000, &now, 1000, 1), 950, 1000);
    assert_in_range(take_for(&p, 10, &now, 1000, 1), 9, 60);
    assert_in_range(take_for(&p, 10, &now, 10000, 1), 99, 101);
}

static void the_wait_is_a_second_at_most(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    (void)rp_pace_allows(&p, 0.001, 1000);
    assert_int_equal(rp_pace_wait_ms(&p), 1000);
}

static void a_clock_that_stands_gives_nothing(void **state)
{
    (void)state;
    struct rp_pace p = {0};
    for (int i = 0; i < 100; i++)
        assert_int_equal(rp_pace_allows(&p, 1e9, 1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_to_its_rate),
        cmocka_unit_test(a_rate_of_which_a_step_is_a_fraction_loses_nothing),
        cmocka_unit_test(who_comes_late_gets_half_a_second_at_most),
        cmocka_unit_test(it_gives_in_lumps),
        cmocka_unit_test(what_is_not_taken_is_saved),
        cmocka_unit_test(no_rate_is_no_limit),
        cmocka_unit_test(the_rate_may_change_at_any_time),
        cmocka_unit_test(the_wait_is_a_second_at_most),
        cmocka_unit_test(a_clock_that_stands_gives_nothing),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
