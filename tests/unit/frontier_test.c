/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "frontier.h"
#include "reprise/task.h"

/* A tier of 10 s whose reach is 60 s. All records are appended at 0 unless a test says so. */
#define LENGTH 10000
#define REACH  60000

struct state {
    int64_t low;
    char text[FRONTIER_METADATA_MAX];
};

static struct frontier *open_as(int64_t reach, int64_t low, const char *metadata, bool *out_lost)
{
    struct frontier *f;
    struct rp_error err;
    assert_int_equal(frontier_new(LENGTH, reach, low, rp_str(metadata), out_lost, &f, &err), 0);
    return f;
}

static struct frontier *open_new(void)
{
    bool lost;
    struct frontier *f = open_as(REACH, -1, NULL, &lost);
    assert_false(lost);
    return f;
}

static struct frontier *recover(const struct state *s)
{
    bool lost;
    struct frontier *f = open_as(REACH, s->low, s->text, &lost);
    assert_false(lost);
    return f;
}

static void ignore(void *opaque, uint64_t handle)
{
    (void)handle;
    if (opaque != NULL)
        ++*(int *)opaque;
}

static void finish(struct frontier *f)
{
    frontier_free(f, ignore, NULL);
}

static bool add_at(struct frontier *f, int64_t offset, int64_t append, int64_t due)
{
    bool held;
    struct rp_error err;
    assert_int_equal(frontier_add(f, offset, append, due, (uint64_t)offset * 2, &held, &err), 0);
    return held;
}

static bool add(struct frontier *f, int64_t offset, int64_t due)
{
    return add_at(f, offset, 0, due);
}

/* Takes the next record, and says which; -1: none. */
static int64_t take(struct frontier *f)
{
    struct frontier_entry e;
    if (!frontier_peek(f, &e))
        return -1;
    assert_int_equal(e.handle, e.offset * 2);
    frontier_take(f);
    return e.offset;
}

static void settle(struct frontier *f)
{
    frontier_send_off(f);
    frontier_settled(f);
}

static struct state state_of(const struct frontier *f)
{
    struct state s;
    frontier_state(f, &s.low, s.text);
    return s;
}

static void expect_state(const struct frontier *f, int64_t low, const char *text)
{
    struct state s = state_of(f);
    assert_int_equal(s.low, low);
    assert_string_equal(s.text, text);
}

static void records_come_in_the_order_of_settle_time_and_offset(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 300), add(f, 1, 100), add(f, 2, 200), add(f, 3, 100);
    assert_int_equal(take(f), 1);
    assert_int_equal(take(f), 3);
    assert_int_equal(take(f), 2);
    assert_int_equal(take(f), 0);
    assert_int_equal(take(f), -1);
    finish(f);
}

static void a_record_due_within_the_reach_settles_when_due(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    struct frontier_entry e;
    add_at(f, 0, 1000, 1000 + REACH);
    assert_true(frontier_peek(f, &e));
    assert_int_equal(e.settle_ms, 1000 + REACH);
    assert_false(e.lap);
    finish(f);
}

static void a_record_due_beyond_the_reach_takes_a_lap(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    struct frontier_entry e;
    add_at(f, 0, 1000, 1001 + REACH);
    assert_true(frontier_peek(f, &e));
    assert_int_equal(e.settle_ms, 1000 + LENGTH);
    assert_true(e.lap);
    finish(f);
}

static void a_record_without_a_due_time_is_due_one_length_after_its_append(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    struct frontier_entry e;
    add_at(f, 0, 1000, RP_NO_TIME);
    assert_true(frontier_peek(f, &e));
    assert_int_equal(e.settle_ms, 1000 + LENGTH);
    assert_false(e.lap);
    finish(f);
}

static void times_at_the_ends_of_the_range_do_not_wrap(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    struct frontier_entry e;
    add_at(f, 0, INT64_MAX, INT64_MAX), add_at(f, 1, INT64_MAX, RP_NO_TIME);
    add_at(f, 2, -1, INT64_MAX), add_at(f, 3, INT64_MIN, INT64_MIN + 1);
    assert_true(frontier_peek(f, &e));
    assert_int_equal(e.settle_ms, INT64_MIN + 1);
    assert_int_equal(take(f), 3);
    assert_true(frontier_peek(f, &e));
    assert_int_equal(e.settle_ms, LENGTH - 1);
    assert_true(e.lap);
    assert_int_equal(take(f), 2);
    assert_int_equal(take(f), 0);
    assert_int_equal(take(f), 1);
    finish(f);
}

static void the_state_is_low_high_and_settled(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 5, 300), add(f, 6, 100), add(f, 9, 200);
    assert_int_equal(take(f), 6);
    expect_state(f, 5, "reprise/1 high=10 settled=100:6 reach=0:60000");
    settle(f);
    expect_state(f, 5, "reprise/1 high=10 settled=100:6 reach=0:60000");
    finish(f);
}

static void a_frontier_that_read_nothing_has_nothing_to_commit(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    expect_state(f, -1, "");
    assert_int_equal(frontier_low(f), -1);
    assert_int_equal(frontier_high(f), -1);
    finish(f);
}

static void with_all_settled_the_next_offset_is_committed(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 5, 100);
    assert_int_equal(take(f), 5);
    settle(f);
    frontier_read_to(f, 8);
    expect_state(f, 8, "reprise/1 high=8 settled=- reach=0:60000");
    finish(f);
}

static void a_log_that_was_cut_behind_its_end_is_another_one(void **unused)
{
    (void)unused;
    bool lost;
    struct frontier *f = open_as(REACH, 98, "reprise/1 high=98 settled=- reach=0:60000", &lost);
    frontier_read_to(f, 101); /* no record among them */
    assert_true(add(f, 90, 100));
    assert_true(add(f, 91, 50));
    assert_int_equal(frontier_low(f), 90);
    assert_int_equal(take(f), 91);
    finish(f);
}

static void a_recovery_drops_what_was_settled_and_keeps_the_rest(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 300), add(f, 1, 100), add(f, 2, 200), add(f, 3, 400);
    take(f), take(f);
    struct state s = state_of(f);
    finish(f);

    f = recover(&s);
    assert_true(add(f, 0, 300));
    assert_false(add(f, 1, 100));
    assert_false(add(f, 2, 200));
    assert_true(add(f, 3, 400));
    assert_int_equal(take(f), 0);
    finish(f);
}

static void a_recovery_gives_nothing_out_before_it_has_read_up_to_high(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 300), add(f, 1, 100), add(f, 3, 200);
    take(f);
    struct state s = state_of(f);
    finish(f);

    f = recover(&s);
    add(f, 0, 300);
    assert_true(frontier_recovering(f));
    assert_int_equal(take(f), -1);
    add(f, 3, 200);
    assert_false(frontier_recovering(f));
    assert_int_equal(take(f), 3);
    finish(f);
}

static void a_recovery_may_end_in_what_is_no_record(void **unused)
{
    (void)unused;
    bool lost;
    struct frontier *f = open_as(REACH, 0, "reprise/1 high=4 settled=100:1 reach=0:60000", &lost);
    assert_false(lost);
    add(f, 0, 300);
    frontier_read_to(f, 4);
    assert_int_equal(take(f), 0);
    finish(f);
}

static void a_commit_during_a_recovery_changes_nothing_but_low(void **unused)
{
    (void)unused;
    bool lost;
    const char *text = "reprise/1 high=4 settled=200:2 reach=0:60000";
    struct frontier *f = open_as(REACH, 0, text, &lost);
    expect_state(f, 0, text);
    add(f, 0, 100);
    expect_state(f, 1, text);
    add(f, 1, 300), add(f, 2, 200);
    expect_state(f, 1, text);
    finish(f);
}

static void a_late_record_goes_first(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500);
    take(f), settle(f);
    add(f, 2, 50), add(f, 3, 110), add(f, 4, 40);
    assert_int_equal(take(f), 2);
    assert_int_equal(take(f), 4);
    assert_int_equal(take(f), 3);
    assert_int_equal(take(f), 1);
    finish(f);
}

static void while_a_late_record_waits_high_is_its_offset(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500);
    take(f), settle(f);
    add(f, 2, 200), add(f, 3, 50), add(f, 4, 40), add(f, 5, 300);
    expect_state(f, 1, "reprise/1 high=3 settled=100:0 reach=0:60000");
    take(f);
    expect_state(f, 1, "reprise/1 high=4 settled=100:0 reach=0:60000");
    take(f);
    expect_state(f, 1, "reprise/1 high=6 settled=100:0 reach=0:60000");
    finish(f);
}

static void a_late_record_that_waits_survives_a_crash(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500);
    take(f), settle(f);
    add(f, 2, 200), add(f, 3, 50), add(f, 4, 40);
    take(f);
    struct state s = state_of(f); /* 3 is settled, 4 is late and is not */
    finish(f);

    f = recover(&s);
    assert_true(add(f, 1, 500));
    assert_true(add(f, 2, 200));
    assert_false(add(f, 3, 50));
    assert_true(add(f, 4, 40));
    assert_int_equal(take(f), 4);
    finish(f);
}

static void a_record_read_while_others_are_in_flight_may_be_late_too(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500);
    take(f);
    add(f, 2, 50);
    expect_state(f, 1, "reprise/1 high=2 settled=100:0 reach=0:60000");
    settle(f);
    assert_int_equal(take(f), 2);
    finish(f);
}

static void untake_brings_back_the_old_order_and_state(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500), add(f, 2, 200);
    take(f), settle(f);
    struct state before = state_of(f);
    take(f), take(f);
    frontier_untake(f);
    assert_int_equal(frontier_in_flight(f), 0);
    expect_state(f, before.low, before.text);
    assert_int_equal(take(f), 2);
    assert_int_equal(take(f), 1);
    finish(f);
}

static void what_was_late_only_for_a_failed_transaction_is_late_no_more(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500), add(f, 2, 900);
    take(f), settle(f);
    take(f);
    add(f, 3, 50), add(f, 4, 300);
    frontier_untake(f);
    expect_state(f, 1, "reprise/1 high=3 settled=100:0 reach=0:60000");
    assert_int_equal(take(f), 3);
    assert_int_equal(take(f), 4);
    assert_int_equal(take(f), 1);
    finish(f);
}

static void what_was_sent_off_is_settled_and_what_was_taken_beside_it_is_not(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 200), add(f, 2, 300);
    take(f);
    struct state first = state_of(f);
    frontier_send_off(f);
    take(f);
    expect_state(f, 2, "reprise/1 high=3 settled=200:1 reach=0:60000");
    frontier_settled(f);
    assert_int_equal(frontier_in_flight(f), 1);
    assert_int_equal(frontier_low(f), 1);
    frontier_untake(f);
    expect_state(f, first.low, first.text);
    assert_int_equal(take(f), 1);
    assert_int_equal(take(f), 2);
    finish(f);
}

static void what_was_sent_off_and_what_was_taken_beside_it_go_back_together(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 200), add(f, 2, 300);
    take(f);
    frontier_send_off(f);
    add(f, 3, 50);
    take(f);
    take(f);
    frontier_untake(f);
    assert_int_equal(frontier_in_flight(f), 0);
    assert_int_equal(frontier_sent_off(f), 0);
    expect_state(f, 0, "reprise/1 high=4 settled=- reach=0:60000");
    settle(f); /* of nothing */
    assert_int_equal(take(f), 3);
    assert_int_equal(take(f), 0);
    assert_int_equal(take(f), 1);
    finish(f);
}

static void late_records_in_flight_go_back_in_front_of_those_that_wait(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500);
    take(f), settle(f);
    add(f, 2, 60), add(f, 3, 50);
    take(f);
    add(f, 4, 40);
    frontier_untake(f);
    assert_int_equal(take(f), 2);
    assert_int_equal(take(f), 3);
    assert_int_equal(take(f), 4);
    finish(f);
}

static void settled_begins_anew_where_nothing_lies_between_low_and_high(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 50000);
    take(f), settle(f);
    add(f, 1, 300), add(f, 2, 200);
    assert_int_equal(take(f), 2); /* neither is late */
    finish(f);
}

static void a_clock_that_ran_ahead_does_not_make_everything_late_for_ever(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 50000), add(f, 1, 55000);
    take(f), settle(f); /* by a wrong clock */
    add(f, 2, 300), add(f, 3, 200);
    take(f), frontier_untake(f);
    take(f), take(f), take(f);
    settle(f);
    add(f, 4, 400), add(f, 5, 350);
    assert_int_equal(take(f), 5);
    finish(f);
}

static void a_new_reach_counts_from_the_recovered_high_on(void **unused)
{
    (void)unused;
    bool lost;
    struct frontier_entry e;
    struct frontier *f = open_as(20000, 0, "reprise/1 high=2 settled=15000:7 reach=0:60000", &lost);
    assert_true(lost); /* settled lies behind high */
    finish(f);

    f = open_as(20000, 0, "reprise/1 high=2 settled=9000:1 reach=0:60000", &lost);
    assert_false(lost);
    assert_true(add(f, 0, 30000));
    assert_false(add(f, 1, 9000));
    assert_true(add(f, 2, 30000)); /* by the new reach it takes a lap */
    expect_state(f, 0, "reprise/1 high=3 settled=9000:1 reach=0:60000,2:20000");
    assert_true(frontier_peek(f, &e));
    assert_int_equal(e.offset, 2);
    assert_true(e.lap);
    take(f);
    assert_int_equal(take(f), 0);
    expect_state(f, 3, "reprise/1 high=3 settled=30000:0 reach=2:20000");
    finish(f);
}

static void the_log_may_begin_above_low(void **unused)
{
    (void)unused;
    bool lost;
    struct frontier *f = open_as(REACH, 10, "reprise/1 high=20 settled=5:12 reach=0:60000", &lost);
    assert_true(add(f, 50, 100));
    assert_int_equal(take(f), 50);
    expect_state(f, 51, "reprise/1 high=51 settled=100:50 reach=0:60000");
    finish(f);
}

static void a_log_that_begins_below_low_is_another_one(void **unused)
{
    (void)unused;
    bool lost;
    struct frontier *f =
        open_as(REACH, 10, "reprise/1 high=20 settled=500:12 reach=0:60000", &lost);
    assert_true(add(f, 0, 100));
    assert_true(add(f, 15, 50));
    assert_int_equal(take(f), 15);
    expect_state(f, 0, "reprise/1 high=16 settled=50:15 reach=0:60000");
    finish(f);
}

static void a_log_that_was_cut_ends_the_recovery(void **unused)
{
    (void)unused;
    bool lost;
    struct frontier *f =
        open_as(20000, 10, "reprise/1 high=20 settled=500:12 reach=0:60000,15:70000", &lost);
    assert_true(add(f, 10, 900));
    frontier_log_cut(f, 11);
    assert_int_equal(take(f), 10);
    frontier_untake(f);
    assert_true(add(f, 11, 400));
    assert_true(add(f, 12, 30000));
    expect_state(f, 10, "reprise/1 high=11 settled=500:10 reach=0:60000,11:20000");
    assert_int_equal(take(f), 11);
    struct state before = state_of(f);
    frontier_log_cut(f, 12); /* no recovery is under way */
    expect_state(f, before.low, before.text);
    finish(f);
}

static void a_record_that_comes_again_is_not_held_twice(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    assert_true(add(f, 3, 100));
    assert_false(add(f, 3, 100));
    assert_int_equal(frontier_held(f), 1);
    finish(f);
}

static void lost_state_is_told_and_sends_again(void **unused)
{
    (void)unused;
    bool lost;
    struct frontier *f = open_as(REACH, 4, "something else", &lost);
    assert_true(lost);
    assert_true(add(f, 4, 100));
    assert_int_equal(take(f), 4);
    expect_state(f, 5, "reprise/1 high=5 settled=100:4 reach=0:60000");
    finish(f);
}

static void freeing_gives_back_each_handle_in_flight_or_held(void **unused)
{
    (void)unused;
    struct frontier *f = open_new();
    add(f, 0, 100), add(f, 1, 500), add(f, 2, 300);
    take(f), settle(f);
    take(f);
    add(f, 3, 50);
    int released = 0;
    frontier_free(f, ignore, &released);
    assert_int_equal(released, 3);
    frontier_free(NULL, ignore, &released);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_the_order_of_settle_time_and_offset),
        cmocka_unit_test(a_record_due_within_the_reach_settles_when_due),
        cmocka_unit_test(a_record_due_beyond_the_reach_takes_a_lap),
        cmocka_unit_test(a_record_without_a_due_time_is_due_one_length_after_its_append),
        cmocka_unit_test(times_at_the_ends_of_the_range_do_not_wrap),
        cmocka_unit_test(the_state_is_low_high_and_settled),
        cmocka_unit_test(a_frontier_that_read_nothing_has_nothing_to_commit),
        cmocka_unit_test(with_all_settled_the_next_offset_is_committed),
        cmocka_unit_test(a_log_that_was_cut_behind_its_end_is_another_one),
        cmocka_unit_test(a_recovery_drops_what_was_settled_and_keeps_the_rest),
        cmocka_unit_test(a_recovery_gives_nothing_out_before_it_has_read_up_to_high),
        cmocka_unit_test(a_recovery_may_end_in_what_is_no_record),
        cmocka_unit_test(a_commit_during_a_recovery_changes_nothing_but_low),
        cmocka_unit_test(a_late_record_goes_first),
        cmocka_unit_test(while_a_late_record_waits_high_is_its_offset),
        cmocka_unit_test(a_late_record_that_waits_survives_a_crash),
        cmocka_unit_test(a_record_read_while_others_are_in_flight_may_be_late_too),
        cmocka_unit_test(untake_brings_back_the_old_order_and_state),
        cmocka_unit_test(what_was_late_only_for_a_failed_transaction_is_late_no_more),
        cmocka_unit_test(what_was_sent_off_is_settled_and_what_was_taken_beside_it_is_not),
        cmocka_unit_test(what_was_sent_off_and_what_was_taken_beside_it_go_back_together),
        cmocka_unit_test(late_records_in_flight_go_back_in_front_of_those_that_wait),
        cmocka_unit_test(settled_begins_anew_where_nothing_lies_between_low_and_high),
        cmocka_unit_test(a_clock_that_ran_ahead_does_not_make_everything_late_for_ever),
        cmocka_unit_test(a_new_reach_counts_from_the_recovered_high_on),
        cmocka_unit_test(the_log_may_begin_above_low),
        cmocka_unit_test(a_log_that_begins_below_low_is_another_one),
        cmocka_unit_test(a_log_that_was_cut_ends_the_recovery),
        cmocka_unit_test(a_record_that_comes_again_is_not_held_twice),
        cmocka_unit_test(lost_state_is_told_and_sends_again),
        cmocka_unit_test(freeing_gives_back_each_handle_in_flight_or_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
