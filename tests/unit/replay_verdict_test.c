/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "replay_verdict.h"

static char why[120];

static enum rp_replay_verdict judge(const struct rp_replay_options *o,
                                    const struct rp_replay_standing *s)
{
    why[0] = '\0';
    return rp_replay_judge(o, s, why, sizeof why);
}

static struct rp_replay_options canaries(int64_t n, double share)
{
    struct rp_replay_options o;
    rp_replay_options_init(&o);
    o.canary = n;
    o.canary_share = share;
    return o;
}

static void without_wishes_all_is_sent(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(0, 0);
    for (int64_t next = 0; next <= 100; next++)
        assert_int_equal(
            judge(&o, &(struct rp_replay_standing){.total = 100, .next = next, .came_back = next}),
            RP_REPLAY_SEND);
}

static void canaries_have_their_time(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(10, 0);
    struct rp_replay_standing s = {.total = 100, .next = 10, .canary_age_ms = -1};
    assert_int_equal(judge(&o, &s), RP_REPLAY_HOLD);
    s.canary_age_ms = o.canary_wait_ms - 1;
    assert_int_equal(judge(&o, &s), RP_REPLAY_HOLD);
    s.canary_age_ms = o.canary_wait_ms;
    assert_int_equal(judge(&o, &s), RP_REPLAY_AWAIT); /* what died in it may not be archived yet */
    s.archived = true;
    assert_int_equal(judge(&o, &s), RP_REPLAY_SEND);
    s.came_back = 1;
    assert_int_equal(judge(&o, &s), RP_REPLAY_STOP);
}

static void one_canary_too_many_that_came_back_stops_it(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(10, 0.3);
    struct rp_replay_standing s = {.total = 100, .next = 10, .came_back = 3};
    assert_int_equal(judge(&o, &s), RP_REPLAY_HOLD);
    s.came_back = 4;
    assert_int_equal(judge(&o, &s), RP_REPLAY_STOP);
    assert_string_equal(why, "4 of 10 canaries came back dead");
}

static void the_share_of_canaries_still_being_sent_is_of_all_of_them(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(10, 0.3);
    struct rp_replay_standing s = {.total = 100, .next = 4, .came_back = 3, .canary_age_ms = -1};
    assert_int_equal(judge(&o, &s), RP_REPLAY_SEND);
    s.came_back = 4;
    assert_int_equal(judge(&o, &s), RP_REPLAY_STOP);
    assert_string_equal(why, "4 of 4 canaries came back dead");
}

static void nobody_waits_where_all_canaries_came_back_and_may(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(10, 1);
    struct rp_replay_standing s = {.total = 100, .next = 10, .came_back = 9};
    assert_int_equal(judge(&o, &s), RP_REPLAY_HOLD);
    s.came_back = 10;
    assert_int_equal(judge(&o, &s), RP_REPLAY_SEND);
}

static void others_go_in_the_place_of_canaries_that_were_refused(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(10, 0.3);
    struct rp_replay_standing s = {
        .total = 100, .next = 10, .refused = 10, .canary_age_ms = o.canary_wait_ms};
    assert_int_equal(judge(&o, &s), RP_REPLAY_SEND);
    s.next = 20;
    s.canary_age_ms = -1;
    assert_int_equal(judge(&o, &s), RP_REPLAY_HOLD);
    s.came_back = 4;
    assert_int_equal(judge(&o, &s), RP_REPLAY_STOP);
    assert_string_equal(why, "4 of 10 canaries came back dead");
    s.next = s.total = s.refused = 20;
    assert_int_equal(judge(&o, &s), RP_REPLAY_SEND);
}

static void canaries_that_are_all_there_is_are_not_waited_for(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(10, 0);
    assert_int_equal(judge(&o, &(struct rp_replay_standing){.total = 10, .next = 10}),
                     RP_REPLAY_SEND);
}

static void behind_the_canaries_their_share_says_nothing(void **state)
{
    (void)state;
    const struct rp_replay_options o = canaries(10, 0);
    assert_int_equal(
        judge(&o, &(struct rp_replay_standing){.total = 100, .next = 11, .came_back = 11}),
        RP_REPLAY_SEND);
}

static void a_share_is_of_twenty_at_least(void **state)
{
    (void)state;
    struct rp_replay_options o = canaries(0, 0);
    o.stop_if_dead = 0.5;
    struct rp_replay_standing s = {.total = 100, .next = 24, .refused = 5, .came_back = 19};
    assert_int_equal(judge(&o, &s), RP_REPLAY_SEND);
    s.next = 25;
    assert_int_equal(judge(&o, &s), RP_REPLAY_STOP);
    assert_string_equal(why, "19 of 20 tasks came back dead");
    s.came_back = 10;
    assert_int_equal(judge(&o, &s), RP_REPLAY_SEND);
}

static void what_is_through_is_not_stopped(void **state)
{
    (void)state;
    struct rp_replay_options o = canaries(0, 0);
    o.stop_if_dead = 0;
    assert_int_equal(
        judge(&o, &(struct rp_replay_standing){.total = 100, .next = 100, .came_back = 100}),
        RP_REPLAY_SEND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_wishes_all_is_sent),
        cmocka_unit_test(canaries_have_their_time),
        cmocka_unit_test(one_canary_too_many_that_came_back_stops_it),
        cmocka_unit_test(the_share_of_canaries_still_being_sent_is_of_all_of_them),
        cmocka_unit_test(nobody_waits_where_all_canaries_came_back_and_may),
        cmocka_unit_test(others_go_in_the_place_of_canaries_that_were_refused),
        cmocka_unit_test(canaries_that_are_all_there_is_are_not_waited_for),
        cmocka_unit_test(behind_the_canaries_their_share_says_nothing),
        cmocka_unit_test(a_share_is_of_twenty_at_least),
        cmocka_unit_test(what_is_through_is_not_stopped),
    };
    return cmocka_run_group_tests_name("replay_verdict", tests, NULL, NULL);
}
