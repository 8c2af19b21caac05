/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "reinvoke.h"

static struct rp_arena arena;
static const struct rp_header *headers;
static size_t n_headers;

static int tear_down(void **state)
{
    (void)state;
    rp_arena_clear(&arena);
    return 0;
}

static const struct rp_passage passage = {
    .task_id = {"t-1", 3},
    .attempt = 3,
    .due_ms = 1763700001234,
    .first_failed_at_ms = 1763700000000,
    .target = {"work", 4},
    .policy = {"payment", 7},
};

static void assert_header(size_t i, const char *name, const char *value)
{
    assert_true(i < n_headers);
    assert_true(rp_bytes_equal(headers[i].key, rp_str(name)));
    assert_true(rp_bytes_equal(headers[i].value, rp_str(value)));
}

static void a_target_gets_the_tasks_own_headers_then_ours(void **state)
{
    struct rp_error err;
    const struct rp_header own[] = {
        {rp_str("traceparent"), rp_str("00-ab")}, {rp_str("reprise-attempt"), rp_str("2")},
        {rp_str("twice"), rp_str("a")},           {rp_str("reprise-anything"), rp_str("old")},
        {rp_str("twice"), RP_NULL_BYTES},
    };
    const struct rp_failed_task task = {.headers = own, .n_headers = 5};
    (void)state;
    assert_int_equal(rp_target_headers(&passage, &task, &arena, &headers, &n_headers, &err), 0);
    assert_int_equal(n_headers, 7);
    assert_header(0, "traceparent", "00-ab");
    assert_header(1, "twice", "a");
    assert_true(rp_bytes_equal(headers[2].value, RP_NULL_BYTES));
    assert_header(3, "reprise-task-id", "t-1");
    assert_header(4, "reprise-attempt", "3");
    assert_header(5, "reprise-due", "1763700001234");
    assert_header(6, "reprise-first-failed-at", "1763700000000");
}

static void the_last_try_and_a_replay_are_marked(void **state)
{
    struct rp_error err;
    struct rp_passage p = passage;
    const struct rp_failed_task task = {0};
    (void)state;
    p.fallback = true;
    p.replay_id = rp_str("job-7");
    assert_int_equal(rp_target_headers(&p, &task, &arena, &headers, &n_headers, &err), 0);
    assert_header(4, "reprise-replay-id", "job-7");
    assert_header(5, "reprise-fallback", "1");
}

static void what_a_tier_is_given_is_read_back(void **state)
{
    struct rp_error err;
    struct rp_passage back;
    (void)state;
    assert_int_equal(rp_tier_headers(&passage, &arena, &headers, &n_headers, &err), 0);
    assert_int_equal(n_headers, 6);
    rp_passage_read(headers, n_headers, &back);
    assert_true(rp_bytes_equal(back.task_id, passage.task_id));
    assert_true(rp_bytes_equal(back.target, passage.target));
    assert_true(rp_bytes_equal(back.policy, passage.policy));
    assert_int_equal(back.attempt, 3);
    assert_int_equal(back.due_ms, passage.due_ms);
    assert_int_equal(back.first_failed_at_ms, passage.first_failed_at_ms);
    assert_null(back.replay_id.data);
}

static void what_cannot_be_read_is_not_there(void **state)
{
    const struct rp_header bad[] = {
        {rp_str("reprise-due"), rp_str("soon")},
        {rp_str("reprise-attempt"), rp_str("-1")},
    };
    struct rp_passage back;
    (void)state;
    rp_passage_read(bad, 2, &back);
    assert_int_equal(back.due_ms, RP_NO_TIME);
    assert_int_equal(back.attempt, 0);
    assert_null(back.target.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_gets_the_tasks_own_headers_then_ours),
        cmocka_unit_test(the_last_try_and_a_replay_are_marked),
        cmocka_unit_test(what_a_tier_is_given_is_read_back),
        cmocka_unit_test(what_cannot_be_read_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
