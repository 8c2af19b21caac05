/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backoff.h"

#define YEAR_MS (INT64_C(365) * 86400000)

static struct rp_rng seeded(void)
{
    struct rp_rng rng;
    rp_rng_init(&rng, 42);
    return rng;
}

static int64_t low(const struct rp_backoff *b, int32_t attempt)
{
    return rp_backoff_range(b, attempt).low_ms;
}

static int64_t high(const struct rp_backoff *b, int32_t attempt)
{
    return rp_backoff_range(b, attempt).high_ms;
}

static void none_does_not_wait(void **state)
{
    (void)state;
    const struct rp_backoff b = {.kind = RP_BACKOFF_NONE};
    struct rp_rng rng = seeded();
    assert_int_equal(rp_backoff_delay(&b, 100, 1, &rng), 0);
}

static void fixed_is_the_same_each_time(void **state)
{
    (void)state;
    const struct rp_backoff b = {.kind = RP_BACKOFF_FIXED, .initial_ms = 5000};
    struct rp_rng rng = seeded();
    assert_int_equal(rp_backoff_delay(&b, 0, 1, &rng), 5000);
    assert_int_equal(rp_backoff_delay(&b, 0, INT32_MAX, &rng), 5000);
}

static void exponential_grows_to_its_bound(void **state)
{
    (void)state;
    const struct rp_backoff b = {RP_BACKOFF_EXPONENTIAL, 1000, 30000, 2000};
    static const int64_t expected[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (int32_t i = 0; i < 7; i++) {
        assert_int_equal(low(&b, i + 1), expected[i]);
        assert_int_equal(high(&b, i + 1), expected[i]);
    }
    const struct rp_backoff half = {RP_BACKOFF_EXPONENTIAL, 500, 10000, 1500};
    assert_int_equal(low(&half, 2), 750);
    assert_int_equal(low(&half, 3), 1125);
}

static void a_multiplier_of_one_never_grows(void **state)
{
    (void)state;
    const struct rp_backoff b = {RP_BACKOFF_EXPONENTIAL, 1000, 30000, 1000};
    assert_int_equal(low(&b, 1), 1000);
    assert_int_equal(low(&b, INT32_MAX), 1000);
}

static void no_attempt_overflows(void **state)
{
    (void)state;
    const struct rp_backoff b = {RP_BACKOFF_EXPONENTIAL_RANDOM, YEAR_MS / 2, YEAR_MS, 8000};
    assert_int_equal(low(&b, INT32_MAX), YEAR_MS);
    assert_int_equal(high(&b, INT32_MAX), YEAR_MS);
    struct rp_rng rng = seeded();
    for (int i = 0; i < 1000; i++)
        assert_in_range(rp_backoff_delay(&b, 100, INT32_MAX, &rng), YEAR_MS, 2 * YEAR_MS);
    const struct rp_backoff zero = {RP_BACKOFF_EXPONENTIAL, 0, YEAR_MS, 8000};
    assert_int_equal(low(&zero, INT32_MAX), 0);
    assert_int_equal(rp_jitter_most(INT64_MAX, 100), INT64_MAX);
}

static void exponential_random_lies_between_two_steps(void **state)
{
    (void)state;
    const struct rp_backoff b = {RP_BACKOFF_EXPONENTIAL_RANDOM, 1000, 5000, 2000};
    assert_int_equal(low(&b, 2), 2000);
    assert_int_equal(high(&b, 2), 4000);
    assert_int_equal(low(&b, 3), 4000);
    assert_int_equal(high(&b, 3), 5000);
    assert_int_equal(low(&b, 4), 5000);
}

static void uniform_is_spread_evenly_and_keeps_its_bounds(void **state)
{
    (void)state;
    const struct rp_backoff b = {RP_BACKOFF_UNIFORM, 1000, 2999, 0};
    struct rp_rng rng = seeded();
    int below = 0;
    int64_t sum = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t delay = rp_backoff_delay(&b, 0, 1, &rng);
        assert_in_range(delay, 1000, 2999);
        below += delay < 1500;
        sum += delay;
    }
    assert_in_range(below, 2300, 2700);
    assert_in_range(sum / 10000, 1980, 2020);
}

static void jitter_is_added_and_never_taken_away(void **state)
{
    (void)state;
    const struct rp_backoff b = {.kind = RP_BACKOFF_FIXED, .initial_ms = 1000};
    struct rp_rng rng = seeded();
    int64_t least = INT64_MAX, most = 0, sum = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t delay = rp_backoff_delay(&b, 10, 1, &rng);
        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
        sum += delay;
    }
    assert_int_equal(least, 1000);
    assert_int_equal(most, 1100);
    assert_in_range(sum / 10000, 1048, 1052);
}

static void jitter_of_a_short_delay_is_rounded_down(void **state)
{
    (void)state;
    assert_int_equal(rp_jitter_most(5, 10), 0);
    assert_int_equal(rp_jitter_most(19, 10), 1);
    assert_int_equal(rp_jitter_most(199, 50), 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_does_not_wait),
        cmocka_unit_test(fixed_is_the_same_each_time),
        cmocka_unit_test(exponential_grows_to_its_bound),
        cmocka_unit_test(a_multiplier_of_one_never_grows),
        cmocka_unit_test(no_attempt_overflows),
        cmocka_unit_test(exponential_random_lies_between_two_steps),
        cmocka_unit_test(uniform_is_spread_evenly_and_keeps_its_bounds),
        cmocka_unit_test(jitter_is_added_and_never_taken_away),
        cmocka_unit_test(jitter_of_a_short_delay_is_rounded_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
