/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "reprise/task.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct rp_header header(const char *key, const char *value)
{
    return (struct rp_header){rp_str(key), rp_str(value)};
}

static void assert_text(struct rp_bytes b, const char *text)
{
    assert_true(rp_bytes_equal(b, rp_str(text)));
}

static void a_first_delivery_states_nothing(void **state)
{
    (void)state;
    struct rp_header h[] = {header("traceparent", "00-1-2-01"), header("reprise", "x")};
    struct rp_reinvocation in;
    struct rp_error err;
    assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, &err), 0);
    assert_null(in.task_id.data);
    assert_int_equal(in.attempt, 0);
    assert_int_equal(in.due_ms, RP_NO_TIME);
    assert_int_equal(in.first_failed_at_ms, RP_NO_TIME);
    assert_null(in.replay_id.data);
    assert_false(in.fallback);
}

static void no_headers_at_all_are_a_first_delivery(void **state)
{
    (void)state;
    struct rp_reinvocation in;
    assert_int_equal(rp_reinvocation_read(NULL, 0, &in, NULL), 0);
    assert_int_equal(in.attempt, 0);
}

static void a_reinvocation_is_read_in_full(void **state)
{
    (void)state;
    struct rp_header h[] = {
        header("reprise-task-id", "t-1"),
        header("reprise-attempt", "3"),
        header("mine", "kept"),
        header("reprise-due", "1763695000123"),
        header("reprise-first-failed-at", "1763694000000"),
        header("reprise-replay-id", "job-9"),
        header("reprise-fallback", "1"),
    };
    struct rp_reinvocation in;
    assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, NULL), 0);
    assert_text(in.task_id, "t-1");
    assert_int_equal(in.attempt, 3);
    assert_int_equal(in.due_ms, INT64_C(1763695000123));
    assert_int_equal(in.first_failed_at_ms, INT64_C(1763694000000));
    assert_text(in.replay_id, "job-9");
    assert_true(in.fallback);
}

static void of_a_header_that_comes_twice_the_last_counts(void **state)
{
    (void)state;
    struct rp_header h[] = {header("reprise-attempt", "no number"), header("reprise-attempt", "4")};
    struct rp_reinvocation in;
    assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, NULL), 0);
    assert_int_equal(in.attempt, 4);
}

static void the_largest_numbers_are_read(void **state)
{
    (void)state;
    struct rp_header h[] = {header("reprise-attempt", "2147483647"),
                            header("reprise-due", "9223372036854775807")};
    struct rp_reinvocation in;
    assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, NULL), 0);
    assert_int_equal(in.attempt, INT32_MAX);
    assert_int_equal(in.due_ms, INT64_MAX);
}

static void a_number_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         " 1",
                         "1 ",
                         "+1",
                         "-1",
                         "1.0",
                         "0x1",
                         "1e3",
                         "9223372036854775808",
                         "99999999999999999999999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct rp_header h[] = {header("reprise-due", bad[i])};
        struct rp_reinvocation in;
        struct rp_error err;
        assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, &err), -1);
        assert_int_equal(err.code, RP_E_DECODE);
        assert_non_null(strstr(err.text, "reprise-due"));
        assert_int_equal(in.due_ms, RP_NO_TIME);
    }
}

static void an_attempt_outside_its_range_is_an_error(void **state)
{
    (void)state;
    const char *bad[] = {"0", "-3", "2147483648"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct rp_header h[] = {header("reprise-attempt", bad[i])};
        struct rp_reinvocation in;
        assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, NULL), -1);
        assert_int_equal(in.attempt, 0);
    }
}

static void what_can_be_read_beside_a_bad_number_is_there(void **state)
{
    (void)state;
    struct rp_header h[] = {header("reprise-attempt", "two"), header("reprise-task-id", "t-1"),
                            header("reprise-due", "12")};
    struct rp_reinvocation in;
    assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, NULL), -1);
    assert_text(in.task_id, "t-1");
    assert_int_equal(in.due_ms, 12);
}

static void a_number_holding_a_nul_is_an_error(void **state)
{
    (void)state;
    struct rp_header h = {rp_str("reprise-due"), {"1\0002", 3}};
    struct rp_reinvocation in;
    assert_int_equal(rp_reinvocation_read(&h, 1, &in, NULL), -1);
}

static void a_null_value_counts_as_not_there(void **state)
{
    (void)state;
    struct rp_header h[] = {header("reprise-attempt", NULL), header("reprise-task-id", NULL)};
    struct rp_reinvocation in;
    assert_int_equal(rp_reinvocation_read(h, COUNT(h), &in, NULL), 0);
    assert_int_equal(in.attempt, 0);
    assert_null(in.task_id.data);
}

static void the_first_failure_is_attempt_one_under_the_id_given(void **state)
{
    (void)state;
    struct rp_header h[] = {header("mine", "kept")};
    struct rp_failed_task task;
    rp_failed_task_begin(&task, rp_str("order-7"), h, COUNT(h));
    assert_text(task.task_id, "order-7");
    assert_int_equal(task.attempt, 1);
    assert_int_equal(task.first_failed_at_ms, RP_NO_TIME);
    assert_ptr_equal(task.headers, h);
    assert_int_equal(task.n_headers, 1);
    assert_null(task.key.data);
    assert_null(task.payload.data);
}

static void a_later_failure_takes_over_id_attempt_and_first_failure(void **state)
{
    (void)state;
    struct rp_header h[] = {header("reprise-task-id", "t-1"), header("reprise-attempt", "2"),
                            header("reprise-first-failed-at", "77"), header("mine", "kept")};
    struct rp_failed_task task;
    rp_failed_task_begin(&task, rp_str("other"), h, COUNT(h));
    assert_text(task.task_id, "t-1");
    assert_int_equal(task.attempt, 2);
    assert_int_equal(task.first_failed_at_ms, 77);
    assert_int_equal(task.n_headers, 4);
}

static void an_empty_task_id_names_none(void **state)
{
    (void)state;
    struct rp_header h[] = {header("reprise-task-id", "")};
    struct rp_failed_task task;
    rp_failed_task_begin(&task, rp_str("order-7"), h, COUNT(h));
    assert_text(task.task_id, "order-7");
}

static void hostile_numbers_do_not_keep_a_handler_from_reporting(void **state)
{
    (void)state;
    struct rp_header h[] = {header("reprise-attempt", "-9"),
                            header("reprise-first-failed-at", "yesterday")};
    struct rp_failed_task task;
    rp_failed_task_begin(&task, rp_str("order-7"), h, COUNT(h));
    assert_int_equal(task.attempt, 1);
    assert_int_equal(task.first_failed_at_ms, RP_NO_TIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_delivery_states_nothing),
        cmocka_unit_test(no_headers_at_all_are_a_first_delivery),
        cmocka_unit_test(a_reinvocation_is_read_in_full),
        cmocka_unit_test(of_a_header_that_comes_twice_the_last_counts),
        cmocka_unit_test(the_largest_numbers_are_read),
        cmocka_unit_test(a_number_that_cannot_be_read_is_named),
        cmocka_unit_test(an_attempt_outside_its_range_is_an_error),
        cmocka_unit_test(what_can_be_read_beside_a_bad_number_is_there),
        cmocka_unit_test(a_number_holding_a_nul_is_an_error),
        cmocka_unit_test(a_null_value_counts_as_not_there),
        cmocka_unit_test(the_first_failure_is_attempt_one_under_the_id_given),
        cmocka_unit_test(a_later_failure_takes_over_id_attempt_and_first_failure),
        cmocka_unit_test(an_empty_task_id_names_none),
        cmocka_unit_test(hostile_numbers_do_not_keep_a_handler_from_reporting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
