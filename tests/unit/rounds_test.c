/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "rounds.h"

static void a_round_holds_what_a_batch_may_have(void **state)
{
    struct rp_rounds r = {0};
    (void)state;
    assert_true(rp_rounds_take(&r, rp_str("small"), 60, 100));
    assert_true(rp_rounds_take(&r, rp_str("small"), 40, 100));
    assert_false(rp_rounds_take(&r, rp_str("small"), 1, 100));
    rp_rounds_clear(&r);
    assert_true(rp_rounds_take(&r, rp_str("small"), 1, 100));
}

static void topics_are_counted_one_by_one(void **state)
{
    struct rp_rounds r = {0};
    (void)state;
    assert_true(rp_rounds_take(&r, rp_str("a"), 100, 100));
    assert_true(rp_rounds_take(&r, rp_str("b"), 100, 100));
    assert_false(rp_rounds_take(&r, rp_str("a"), 1, 100));
}

/* Whether it is too large after all is for the brokers to say. */
static void the_first_record_always_fits(void **state)
{
    struct rp_rounds r = {0};
    (void)state;
    assert_true(rp_rounds_take(&r, rp_str("small"), 200, 100));
    assert_false(rp_rounds_take(&r, rp_str("small"), 1, 100));
}

static void one_topic_too_many_waits_for_the_next_round(void **state)
{
    struct rp_rounds r = {0};
    char name[8];
    (void)state;
    for (int i = 0; i < RP_ROUNDS_TOPICS; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_true(rp_rounds_take(&r, rp_str(name), 1, 100));
    }
    assert_true(rp_rounds_take(&r, rp_str("0"), 1, 100));
    assert_false(rp_rounds_take(&r, rp_str("one more"), 1, 100));
    rp_rounds_clear(&r);
    assert_true(rp_rounds_take(&r, rp_str("one more"), 1, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_holds_what_a_batch_may_have),
        cmocka_unit_test(topics_are_counted_one_by_one),
        cmocka_unit_test(the_first_record_always_fits),
        cmocka_unit_test(one_topic_too_many_waits_for_the_next_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
