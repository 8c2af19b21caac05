/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "retry.h"

static const struct rp_retry_rule never = {.kind = RP_RETRY_NEVER};
static const struct rp_retry_rule always = {.kind = RP_RETRY_ALWAYS};
static struct rp_retry_rule terms[] = {
    {.kind = RP_RETRY_MAX_ATTEMPTS, .max_attempts = 3},
    {.kind = RP_RETRY_DEADLINE, .deadline_ms = 1000},
};
static const struct rp_retry_rule all_of = {.kind = RP_RETRY_ALL_OF, .terms = terms, .n_terms = 2};
static const struct rp_retry_rule any_of = {.kind = RP_RETRY_ANY_OF, .terms = terms, .n_terms = 2};

static void never_refuses_and_always_allows(void **state)
{
    (void)state;
    assert_ptr_equal(rp_retry_refusal(&never, 1, 0), &never);
    assert_null(rp_retry_refusal(&always, INT32_MAX, INT64_MAX));
}

static void max_attempts_counts_all_executions(void **state)
{
    (void)state;
    assert_null(rp_retry_refusal(&terms[0], 2, INT64_MAX));
    assert_ptr_equal(rp_retry_refusal(&terms[0], 3, 0), &terms[0]);
    assert_ptr_equal(rp_retry_refusal(&terms[0], INT32_MAX, 0), &terms[0]);
}

static void a_deadline_allows_what_is_due_on_it(void **state)
{
    (void)state;
    assert_null(rp_retry_refusal(&terms[1], INT32_MAX, 1000));
    assert_ptr_equal(rp_retry_refusal(&terms[1], 1, 1001), &terms[1]);
}

static void all_of_names_the_first_that_refuses(void **state)
{
    (void)state;
    assert_null(rp_retry_refusal(&all_of, 2, 1000));
    assert_ptr_equal(rp_retry_refusal(&all_of, 3, 1000), &terms[0]);
    assert_ptr_equal(rp_retry_refusal(&all_of, 2, 1001), &terms[1]);
    assert_ptr_equal(rp_retry_refusal(&all_of, 3, 1001), &terms[0]);
}

static void any_of_refuses_only_when_all_do(void **state)
{
    (void)state;
    assert_null(rp_retry_refusal(&any_of, 3, 1000));
    assert_null(rp_retry_refusal(&any_of, 2, 1001));
    assert_ptr_equal(rp_retry_refusal(&any_of, 3, 1001), &terms[0]);
}

static void rules_nest(void **state)
{
    (void)state;
    struct rp_retry_rule inner[] = {all_of, always};
    const struct rp_retry_rule outer = {RP_RETRY_ANY_OF, 0, 0, inner, 2};
    assert_null(rp_retry_refusal(&outer, 3, 1001));
    inner[1] = never;
    assert_ptr_equal(rp_retry_refusal(&outer, 3, 0), &terms[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_refuses_and_always_allows),
        cmocka_unit_test(max_attempts_counts_all_executions),
        cmocka_unit_test(a_deadline_allows_what_is_due_on_it),
        cmocka_unit_test(all_of_names_the_first_that_refuses),
        cmocka_unit_test(any_of_refuses_only_when_all_do),
        cmocka_unit_test(rules_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
