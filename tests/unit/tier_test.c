/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tier.h"

static const struct rp_tier tiers[] = {
    {.length_ms = 1000}, {.length_ms = 10000}, {.length_ms = 60000}};

static void the_tier_is_the_largest_that_is_not_longer(void **state)
{
    (void)state;
    assert_int_equal(rp_tier_for(tiers, 3, 1000), 0);
    assert_int_equal(rp_tier_for(tiers, 3, 9999), 0);
    assert_int_equal(rp_tier_for(tiers, 3, 10000), 1);
    assert_int_equal(rp_tier_for(tiers, 3, 59999), 1);
    assert_int_equal(rp_tier_for(tiers, 3, 60000), 2);
    assert_int_equal(rp_tier_for(tiers, 3, INT64_MAX), 2);
}

static void less_than_the_smallest_takes_the_smallest(void **state)
{
    (void)state;
    assert_int_equal(rp_tier_for(tiers, 3, 1), 0);
    assert_int_equal(rp_tier_for(tiers, 1, 999), 0);
}

static void nothing_left_goes_straight_to_the_target(void **state)
{
    (void)state;
    assert_int_equal(rp_tier_for(tiers, 3, 0), -1);
    assert_int_equal(rp_tier_for(tiers, 3, INT64_MIN), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tier_is_the_largest_that_is_not_longer),
        cmocka_unit_test(less_than_the_smallest_takes_the_smallest),
        cmocka_unit_test(nothing_left_goes_straight_to_the_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
