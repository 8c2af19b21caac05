/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "reprise/rng.h"

static void the_numbers_are_those_of_splitmix64(void **state)
{
    (void)state;
    /* The first outputs for this seed, as in the reference implementation. */
    struct rp_rng rng;
    rp_rng_init(&rng, 1234567);
    assert_true(rp_rng_next(&rng) == 6457827717110365317u);
    assert_true(rp_rng_next(&rng) == 3203168211198807973u);
    assert_true(rp_rng_next(&rng) == 9817491932198370423u);
}

static void both_ends_of_a_range_are_drawn_and_nothing_beyond(void **state)
{
    (void)state;
    struct rp_rng rng;
    rp_rng_init(&rng, 1);
    int seen[3] = {0};
    for (int i = 0; i < 3000; i++) {
        int64_t n = rp_rng_between(&rng, -1, 1);
        assert_in_range(n + 1, 0, 2);
        seen[n + 1]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(seen[i], 900, 1100);
}

static void a_range_may_be_one_number_or_all_of_them(void **state)
{
    (void)state;
    struct rp_rng rng;
    rp_rng_init(&rng, 2);
    assert_int_equal(rp_rng_between(&rng, 7, 7), 7);
    assert_int_equal(rp_rng_between(&rng, INT64_MAX, INT64_MAX), INT64_MAX);
    int negative = 0;
    for (int i = 0; i < 1000; i++)
        negative += rp_rng_between(&rng, INT64_MIN, INT64_MAX) < 0;
    assert_in_range(negative, 430, 570);
}

static void two_random_seeds_differ(void **state)
{
    (void)state;
    struct rp_rng a, b;
    rp_rng_init_random(&a);
    rp_rng_init_random(&b);
    assert_true(a.state != b.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_are_those_of_splitmix64),
        cmocka_unit_test(both_ends_of_a_range_are_drawn_and_nothing_beyond),
        cmocka_unit_test(a_range_may_be_one_number_or_all_of_them),
        cmocka_unit_test(two_random_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
