/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <xxhash.h>
#include <cmocka.h>

#include "guard.h"

static struct guard *guard;
static struct guard_life life;

static int set_up(void **state)
{
    struct rp_error err;
    (void)state;
    return guard_new(64, 0, &guard, &err);
}

static int tear_down(void **state)
{
    (void)state;
    guard_free(guard);
    return 0;
}

static struct guard_event event(const char *id, int32_t stated, int64_t failed_at_ms,
                                int64_t offset)
{
    return (struct guard_event){
        .task_id = rp_str(id), .attempt = stated, .failed_at_ms = failed_at_ms, .offset = offset};
}

static enum guard_verdict judge(const char *id, int32_t stated, int64_t failed_at_ms,
                                int64_t offset)
{
    const struct guard_event e = event(id, stated, failed_at_ms, offset);
    return guard_judge(guard, &e, &life);
}

static void recall(const char *id, int32_t stated, int64_t failed_at_ms, int64_t offset)
{
    const struct guard_event e = event(id, stated, failed_at_ms, offset);
    guard_recall(guard, &e);
}

static void attempts_that_count_up_pass(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 5; i++) {
        assert_int_equal(judge("a", i, 1000 * i, i), GUARD_NEW);
        assert_int_equal(life.attempt, i);
    }
}

static void an_attempt_that_is_not_counted_on_is_counted_on_here(void **state)
{
    (void)state;
    assert_int_equal(judge("a", 1, 1000, 1), GUARD_NEW);
    for (int32_t i = 2; i <= 5; i++) {
        assert_int_equal(judge("a", 1, 1000 * i, i), GUARD_LOOP);
        assert_int_equal(life.attempt, i);
    }
}

static void an_exact_repeat_is_found_out(void **state)
{
    (void)state;
    assert_int_equal(judge("a", 1, 1000, 1), GUARD_NEW);
    assert_int_equal(judge("a", 1, 1000, 2), GUARD_REPEAT);
    assert_int_equal(judge("a", 2, 2000, 3), GUARD_NEW);
    assert_int_equal(judge("a", 1, 1000, 4), GUARD_REPEAT);
}

static void a_record_that_is_read_again_gets_the_same_answer(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        assert_int_equal(judge("a", 1, 1000, 5), GUARD_NEW);
        assert_int_equal(judge("a", 1, 1000, 9), GUARD_REPEAT);
        assert_int_equal(judge("a", 1, 2000, 12), GUARD_LOOP);
        assert_int_equal(life.attempt, 2);
    }
}

static void a_record_read_again_that_is_forgotten_passes(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 9; i++)
        assert_int_equal(judge("a", i, i, i), GUARD_NEW);
    assert_int_equal(judge("a", 1, 1, 1), GUARD_NEW);
    assert_int_equal(life.attempt, 1);
}

static void what_is_recalled_is_known(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 3; i++)
        recall("a", 1, 1000 * i + 1, i);
    assert_int_equal(judge("a", 1, 2001, 7), GUARD_REPEAT);
    assert_int_equal(judge("a", 1, 9000, 8), GUARD_LOOP);
    assert_int_equal(life.attempt, 4);
}

static void what_is_recalled_again_makes_nothing_forgotten(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 6; i++)
        (void)judge("a", 1, 1000 * i, i);
    for (int32_t i = 3; i <= 6; i++)
        recall("a", 1, 1000 * i, i);
    assert_int_equal(judge("a", 1, 9000, 9), GUARD_LOOP);
    assert_int_equal(life.attempt, 7);
}

static struct guard_event event_of(int64_t failed_at_ms, int64_t offset, int64_t append_ms)
{
    struct guard_event e = event("a", 1, failed_at_ms, offset);
    e.append_ms = append_ms;
    return e;
}

/* A handler that states whole seconds and no attempt says the same of each. */
static void a_second_failure_in_the_same_second_is_no_repeat(void **state)
{
    (void)state;
    const struct guard_event first = event_of(5000, 1, 5200), early = event_of(5000, 2, 5299),
                             second = event_of(5000, 3, 5300);
    assert_int_equal(guard_judge(guard, &first, &life), GUARD_NEW);
    guard_runs_again(guard, 5300, false);
    assert_int_equal(guard_judge(guard, &early, &life), GUARD_REPEAT);
    assert_int_equal(guard_judge(guard, &second, &life), GUARD_LOOP);
    assert_int_equal(life.attempt, 2);
    assert_int_equal(guard_judge(guard, &second, &life), GUARD_LOOP); /* read again */
    assert_int_equal(life.attempt, 2);
}

/* The brokers' clock may be behind the router's. */
static void what_came_before_its_time_by_another_clock_is_no_repeat(void **state)
{
    struct rp_error err;
    (void)state;
    const struct guard_event first = event_of(5000, 1, 5200), early = event_of(5000, 2, 5200),
                             exact = event_of(5001, 3, 5200), again = event_of(5001, 4, 5400);
    guard_free(guard);
    assert_int_equal(guard_new(64, 5000, &guard, &err), 0);
    assert_int_equal(guard_judge(guard, &first, &life), GUARD_NEW);
    guard_runs_again(guard, 5300, false);
    assert_int_equal(guard_judge(guard, &early, &life), GUARD_LOOP);
    assert_int_equal(life.attempt, 2);
    guard_runs_again(guard, 10201, false);
    assert_int_equal(guard_judge(guard, &exact, &life), GUARD_LOOP);
    guard_runs_again(guard, 5300, false);
    assert_int_equal(guard_judge(guard, &again, &life), GUARD_REPEAT);
}

/* What was sent the first time may be out, and the second draws another delay. */
static void of_a_record_read_again_the_earlier_time_counts(void **state)
{
    (void)state;
    const struct guard_event first = event_of(5000, 1, 5200), second = event_of(5000, 2, 5300);
    assert_int_equal(guard_judge(guard, &first, &life), GUARD_NEW);
    guard_runs_again(guard, 5300, false);
    assert_int_equal(guard_judge(guard, &first, &life), GUARD_NEW);
    guard_runs_again(guard, 9000, false);
    assert_int_equal(guard_judge(guard, &second, &life), GUARD_LOOP);
}

static void a_repeat_that_tells_milliseconds_is_one_at_any_time(void **state)
{
    (void)state;
    const struct guard_event first = event_of(5001, 1, 5200), late = event_of(5001, 2, 9000);
    assert_int_equal(guard_judge(guard, &first, &life), GUARD_NEW);
    guard_runs_again(guard, 5300, false);
    assert_int_equal(guard_judge(guard, &late, &life), GUARD_REPEAT);
}

/* By a handler that hands nothing back. */
static void that_a_task_ran_as_a_fallback_is_known(void **state)
{
    struct guard_event e = {.task_id = rp_str("a"), .attempt = 1, .failed_at_ms = 1001};
    (void)state;
    (void)guard_judge(guard, &e, &life);
    guard_runs_again(guard, 1100, false);
    e.failed_at_ms = 2001;
    e.offset = 1;
    for (int round = 0; round < 2; round++) { /* it is read again, and decided anew */
        assert_int_equal(guard_judge(guard, &e, &life), GUARD_LOOP);
        assert_false(life.was_fallback);
        guard_runs_again(guard, 2100, true);
    }
    e.failed_at_ms = 3001;
    e.offset = 2;
    e.attempt = 3; /* this one it may count by itself */
    for (int round = 0; round < 2; round++) {
        assert_int_equal(guard_judge(guard, &e, &life), GUARD_NEW);
        assert_true(life.was_fallback);
    }
    guard_runs_again(guard, 3100, false);
    e.failed_at_ms = 4001;
    e.offset = 3;
    e.attempt = 4;
    assert_int_equal(guard_judge(guard, &e, &life), GUARD_NEW);
    assert_false(life.was_fallback);
}

/* A handler that dies after its report runs what failed once more, while the fallback works. */
static void what_was_handed_back_says_whether_it_was_the_fallback(void **state)
{
    struct guard_event e = event("a", 2, 1001, 0);
    (void)state;
    e.handed_back = true;
    (void)guard_judge(guard, &e, &life);
    guard_runs_again(guard, 1100, true);
    e.failed_at_ms = 2001;
    e.offset = 1;
    (void)guard_judge(guard, &e, &life);
    assert_false(life.was_fallback);
}

static int64_t first_failure_of(int64_t failed_at_ms, int64_t first_failed_at_ms, int64_t offset)
{
    const struct guard_event e = {.task_id = rp_str("a"),
                                  .attempt = 1,
                                  .failed_at_ms = failed_at_ms,
                                  .offset = offset,
                                  .first_failed_at_ms = first_failed_at_ms};
    assert_int_not_equal(guard_judge(guard, &e, &life), GUARD_REPEAT);
    return life.first_failed_at_ms;
}

static void when_a_task_failed_first_is_known(void **state)
{
    static const int64_t twelve_days_ms = (1 << 30) - 1;
    (void)state;
    assert_int_equal(first_failure_of(1001, 1001, 1), 1001);
    for (int round = 0; round < 2; round++)
        assert_int_equal(first_failure_of(2001, 2001, 2), 1001);
    assert_int_equal(first_failure_of(3001, 3001, 3), 1001);
    assert_int_equal(first_failure_of(4001, 501, 4), 501); /* it was handed back */
    assert_int_equal(first_failure_of(5001, 5001, 5), 501);
    /* What was stated lies far in the future, and the router took another time for it. */
    assert_int_equal(first_failure_of(INT64_MAX, 501, 6), 501);
    assert_int_equal(first_failure_of(INT64_MAX - 1, 6001, 7), 6001);
    assert_int_equal(first_failure_of(INT64_MIN, INT64_MIN, 8), INT64_MIN);
    assert_int_equal(first_failure_of(0, 0, 9), INT64_MIN);
    assert_int_equal(first_failure_of(1, 1, 10), -twelve_days_ms);
}

static void what_a_recalled_task_does_next_is_not_known(void **state)
{
    (void)state;
    const struct guard_event first = event_of(5000, 1, 5200), second = event_of(5000, 2, 5300);
    guard_recall(guard, &first);
    assert_int_equal(guard_judge(guard, &second, &life), GUARD_LOOP);
    assert_int_equal(life.attempt, 2);
}

static void a_replay_begins_a_new_life(void **state)
{
    (void)state;
    struct guard_event e = event("a", 1, 1000, 1);
    assert_int_equal(guard_judge(guard, &e, &life), GUARD_NEW);
    e.replay_id = rp_str("job-1");
    e.offset = 2;
    assert_int_equal(guard_judge(guard, &e, &life), GUARD_NEW);
    assert_int_equal(life.attempt, 1);
}

/* Whoever repartitions the events of a task sends them by another partition, with other offsets. */
static void a_task_may_come_by_another_partition(void **state)
{
    (void)state;
    struct guard_event e = event("a", 1, 1000, 7);
    assert_int_equal(guard_judge(guard, &e, &life), GUARD_NEW);
    e.partition = 1;
    assert_int_equal(guard_judge(guard, &e, &life), GUARD_REPEAT);
    e.failed_at_ms = 2000;
    e.offset = 3;
    assert_int_equal(guard_judge(guard, &e, &life), GUARD_LOOP);
    assert_int_equal(life.attempt, 2);
    e.partition = 2;
    e.failed_at_ms = 3000;
    e.offset = 1;
    guard_recall(guard, &e);
    e.offset = 0; /* what is recalled comes in order: this one is known */
    guard_recall(guard, &e);
    e.failed_at_ms = 4000;
    e.offset = 2;
    assert_int_equal(guard_judge(guard, &e, &life), GUARD_LOOP);
    assert_int_equal(life.attempt, 4);
}

static void a_size_that_no_memory_has_is_refused(void **state)
{
    static const size_t sizes[] = {0, SIZE_MAX / 2, SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct guard *none;
        struct rp_error err;
        assert_int_equal(guard_new(sizes[i], 0, &none, &err), -1);
        assert_int_equal(err.code, RP_E_NOMEM);
    }
}

static void the_largest_attempt_does_not_overflow(void **state)
{
    (void)state;
    assert_int_equal(judge("a", INT32_MAX, 1000, 1), GUARD_NEW);
    (void)judge("a", 1, 2000, 2);
    assert_int_equal(life.attempt, INT32_MAX);
}

static void after_a_cut_an_offset_is_another_records(void **state)
{
    (void)state;
    assert_int_equal(judge("a", 1, 1000, 5), GUARD_NEW);
    assert_int_equal(judge("b", 1, 1000, 6), GUARD_NEW);
    guard_log_cut(guard, 0, 6, 7);
    assert_int_equal(judge("b", 2, 2000, 6), GUARD_NEW);
    assert_int_equal(life.attempt, 2);
    assert_int_equal(judge("b", 1, 1000, 7), GUARD_REPEAT); /* the event itself stays known */
    assert_int_equal(judge("a", 1, 1000, 5), GUARD_NEW);    /* and the records before the cut */
}

/* Its batch failed, or it could not be judged yet, and its reporter says it again. */
static void what_was_cut_before_it_was_answered_is_new(void **state)
{
    (void)state;
    assert_int_equal(judge("a", 1, 1000, 5), GUARD_NEW);
    assert_int_equal(judge("b", 1, 1000, 6), GUARD_NEW);
    guard_log_cut(guard, 0, 0, 6);
    assert_int_equal(judge("b", 1, 1000, 6), GUARD_NEW);
    assert_int_equal(judge("b", 1, 1000, 7), GUARD_REPEAT);
    assert_int_equal(judge("a", 1, 1000, 8), GUARD_REPEAT);
}

/* Of a task's events the last three are looked at: the first is not among them. */
static void what_is_read_again_of_a_log_that_was_cut_counts_as_before(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 5; i++)
        assert_int_equal(judge("a", i, 1000 * i, 10 * i), GUARD_NEW);
    guard_log_cut(guard, 0, 0, 51);
    for (int32_t i = 1; i <= 2; i++) {
        assert_int_equal(judge("a", i, 1000 * i, 10 * i), GUARD_NEW);
        assert_int_equal(life.attempt, i);
    }
    assert_int_equal(judge("a", 6, 6000, 60), GUARD_NEW);
    assert_int_equal(life.attempt, 6);
}

static void a_cut_of_another_partition_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(judge("a", 1, 1000, 5), GUARD_NEW);
    guard_log_cut(guard, 1, 0, 6);
    assert_int_equal(judge("a", 1, 1000, 5), GUARD_NEW);
}

static void memory_is_bounded_and_the_oldest_goes(void **state)
{
    char id[24];
    (void)state;
    assert_int_equal(judge("first", 1, 1000, 1), GUARD_NEW);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(id, sizeof id, "task-%d", i);
        assert_int_equal(judge(id, 1, 1000, 2 + i), GUARD_NEW);
    }
    assert_int_equal(judge("first", 1, 1000, 2000), GUARD_NEW);
    assert_int_equal(judge("task-999", 1, 1000, 2001), GUARD_REPEAT);
}

static void expect_repeats(int from, int to)
{
    char id[24];
    for (int i = from; i < to; i++) {
        (void)snprintf(id, sizeof id, "task-%d", i);
        assert_int_equal(judge(id, 1, 1000, 5000 + i), GUARD_REPEAT);
    }
}

static void judge_new(int from, int to)
{
    char id[24];
    for (int i = from; i < to; i++) {
        (void)snprintf(id, sizeof id, "task-%d", i);
        assert_int_equal(judge(id, 1, 1000, i), GUARD_NEW);
    }
}

static void as_many_events_are_known_as_were_asked_for(void **state)
{
    (void)state;
    judge_new(0, 164);
    expect_repeats(100, 164);
    assert_int_equal(judge("task-99", 1, 1000, 6000), GUARD_NEW);
}

static void a_task_of_which_repeats_come_is_not_forgotten(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 3; i++)
        assert_int_equal(judge("a", i, i, i), GUARD_NEW);
    for (int round = 0; round < 20; round++) {
        judge_new(40 * round, 40 * round + 40);
        for (int32_t i = 1; i <= 3; i++)
            assert_int_equal(judge("a", i, i, 9000), GUARD_REPEAT);
    }
    assert_int_equal(judge("a", 1, 2000, 9001), GUARD_LOOP);
    assert_int_equal(life.attempt, 4);
}

static void repeats_make_nothing_forgotten(void **state)
{
    (void)state;
    judge_new(0, 64);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(judge("task-63", 1, 1000, 9000), GUARD_REPEAT);
    expect_repeats(0, 64);
}

/* What is moved, since repeats come of it, is there once: by the place that it had nothing is told
 * of a failure in the same second, which comes when the task has run again. */
static void of_what_repeats_renewed_the_earlier_time_counts(void **state)
{
    const struct guard_event first = event_of(5000, 1, 5200), early = event_of(5000, 2, 5201),
                             second = event_of(5000, 3, 5300);
    (void)state;
    assert_int_equal(guard_judge(guard, &first, &life), GUARD_NEW);
    guard_runs_again(guard, 9000, false);
    judge_new(10, 50);
    assert_int_equal(guard_judge(guard, &early, &life), GUARD_REPEAT);
    assert_int_equal(guard_judge(guard, &first, &life), GUARD_NEW);
    guard_runs_again(guard, 5300, false);
    assert_int_equal(guard_judge(guard, &second, &life), GUARD_LOOP);
}

static void one_event_may_be_all_that_is_known(void **state)
{
    struct rp_error err;
    (void)state;
    guard_free(guard);
    assert_int_equal(guard_new(1, 0, &guard, &err), 0);
    assert_int_equal(judge("a", 1, 1000, 1), GUARD_NEW);
    assert_int_equal(judge("a", 1, 1000, 2), GUARD_REPEAT);
    assert_int_equal(judge("a", 1, 1000, 3), GUARD_REPEAT);
    assert_int_equal(judge("b", 1, 1000, 4), GUARD_NEW);
    assert_int_equal(judge("a", 1, 1000, 5), GUARD_NEW);
}

/* Whoever chooses ids so makes no event slow: of those behind the newest nothing is known. */
static void of_ids_that_were_made_to_share_a_chain_the_newest_are_known(void **state)
{
    static char ids[200][16];
    struct rp_error err;
    int n = 0;
    (void)state;
    for (int i = 0; n < 200; i++) {
        int size = snprintf(ids[n], sizeof ids[n], "%d", i);
        n += XXH3_128bits(ids[n], (size_t)size).low64 % 2048 == 7;
    }
    guard_free(guard);
    assert_int_equal(guard_new(1024, 0, &guard, &err), 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(judge(ids[i], 1, 1000, i), GUARD_NEW);
    for (int i = 136; i < 200; i++)
        assert_int_equal(judge(ids[i], 1, 1000, 300), GUARD_REPEAT);
    assert_int_equal(judge(ids[135], 1, 1000, 300), GUARD_NEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(attempts_that_count_up_pass),
        TEST(an_attempt_that_is_not_counted_on_is_counted_on_here),
        TEST(an_exact_repeat_is_found_out),
        TEST(a_record_that_is_read_again_gets_the_same_answer),
        TEST(a_record_read_again_that_is_forgotten_passes),
        TEST(what_is_recalled_is_known),
        TEST(what_is_recalled_again_makes_nothing_forgotten),
        TEST(a_second_failure_in_the_same_second_is_no_repeat),
        TEST(what_came_before_its_time_by_another_clock_is_no_repeat),
        TEST(of_a_record_read_again_the_earlier_time_counts),
        TEST(a_repeat_that_tells_milliseconds_is_one_at_any_time),
        TEST(that_a_task_ran_as_a_fallback_is_known),
        TEST(what_was_handed_back_says_whether_it_was_the_fallback),
        TEST(when_a_task_failed_first_is_known),
        TEST(what_a_recalled_task_does_next_is_not_known),
        TEST(a_replay_begins_a_new_life),
        TEST(a_task_may_come_by_another_partition),
        TEST(a_size_that_no_memory_has_is_refused),
        TEST(the_largest_attempt_does_not_overflow),
        TEST(after_a_cut_an_offset_is_another_records),
        TEST(what_was_cut_before_it_was_answered_is_new),
        TEST(a_cut_of_another_partition_changes_nothing),
        TEST(what_is_read_again_of_a_log_that_was_cut_counts_as_before),
        TEST(memory_is_bounded_and_the_oldest_goes),
        TEST(as_many_events_are_known_as_were_asked_for),
        TEST(a_task_of_which_repeats_come_is_not_forgotten),
        TEST(repeats_make_nothing_forgotten),
        TEST(of_what_repeats_renewed_the_earlier_time_counts),
        TEST(one_event_may_be_all_that_is_known),
        TEST(of_ids_that_were_made_to_share_a_chain_the_newest_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
