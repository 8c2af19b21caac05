/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "dead_letter.h"
#include "policies.h"

#define NOW INT64_C(1800000000000)

static const char file[] =
    "policies:\n"
    "  plain: {max_attempts: 3, backoff: {exponential: {initial: 1s, max: 3s}}, jitter: 0}\n"
    "  dated: {deadline: 10s, backoff: {fixed: 4s}, jitter: 0}\n"
    "  endless: {retry: always, backoff: none}\n"
    "  none: {retry: never}\n"
    "  saved: {max_attempts: 2, backoff: {fixed: 1s}, fallback: saved-fallback}\n"
    "  listed:\n"
    "    retryable: [ValueError, \"java.net.*\", both.*, exact.Yes]\n"
    "    non_retryable: [TimeoutError, \"java.net.Malformed*\", both.No, \"exact.*\", \"b*\"]\n"
    "  ruled:\n"
    "    max_attempts: 5\n"
    "    deadline: 1h\n"
    "    backoff: by_category\n"
    "    jitter: 0\n"
    "    non_retryable: [Never]\n"
    "    overrides:\n"
    "      RATE_LIMITED: {max_attempts: 10, backoff: {fixed: 5s}}\n"
    "      INVALID: {deadline: 2s}\n"
    "      CONFLICT: {}\n"
    "      BUSY: {retry: never}\n"
    "      NETWORK: {retry: always}\n";

static struct rp_config *config;

struct given {
    const char *type, *class_name, *category;
    int32_t attempt;
    int64_t first_ms, failed_ms, now_ms; /* 0: NOW */
    bool was_fallback;
    const struct rp_cause *cause;
};

static struct rp_decision decide(struct given g)
{
    const struct rp_failed_task task = {
        .error_class = rp_str(g.class_name == NULL ? "Strange" : g.class_name),
        .error_category = rp_str(g.category),
        .causes = g.cause,
        .n_causes = g.cause != NULL,
    };
    const struct rp_failure failure = {
        .task = &task,
        .attempt = g.attempt == 0 ? 1 : g.attempt,
        .first_failed_at_ms = g.first_ms == 0 ? NOW : g.first_ms,
        .failed_at_ms = g.failed_ms == 0 ? NOW : g.failed_ms,
        .now_ms = g.now_ms == 0 ? NOW : g.now_ms,
        .was_fallback = g.was_fallback,
    };
    struct rp_rng rng;
    struct rp_decision d;
    rp_rng_init(&rng, 5);
    rp_decide(rp_policies_match(config->policies, rp_str(g.type)),
              rp_classify(config->policies, &task), &failure, &rng, &d);
    return d;
}

static void assert_dead(struct given g, enum rp_reason reason, const char *why)
{
    struct rp_decision d = decide(g);
    assert_int_equal(d.verdict, RP_DEAD);
    assert_int_equal(d.reason, reason);
    assert_string_equal(d.why, why);
}

static void assert_retry(struct given g, int64_t delay_ms)
{
    struct rp_decision d = decide(g);
    assert_int_equal(d.verdict, RP_RETRY);
    assert_int_equal(d.delay_ms, delay_ms);
}

static void attempts_are_counted_to_the_last_one(void **state)
{
    (void)state;
    assert_retry((struct given){.type = "plain"}, 1000);
    assert_retry((struct given){.type = "plain", .attempt = 2}, 2000);
    assert_dead((struct given){.type = "plain", .attempt = 3}, RP_EXHAUSTED,
                "execution 3, max_attempts 3");
    assert_dead((struct given){.type = "plain", .attempt = INT32_MAX}, RP_EXHAUSTED,
                "execution 2147483647, max_attempts 3");
}

static void the_delay_counts_from_the_failure_but_is_never_due_before_now(void **state)
{
    (void)state;
    struct rp_decision d = decide((struct given){.type = "plain", .failed_ms = NOW - 400});
    assert_int_equal(d.due_ms, NOW + 600);
    d = decide((struct given){.type = "plain", .failed_ms = NOW - 3600000});
    assert_int_equal(d.delay_ms, 1000);
    assert_int_equal(d.due_ms, NOW);
}

static void a_deadline_refuses_what_would_be_due_after_it(void **state)
{
    (void)state;
    assert_retry((struct given){.type = "dated", .first_ms = NOW - 6000, .attempt = 50}, 4000);
    assert_dead((struct given){.type = "dated", .first_ms = NOW - 6001}, RP_DEADLINE_EXCEEDED,
                "due 10001 ms after the first failure, deadline 10s");
    /* Due when it is decided, since the failure lies too far back. */
    assert_dead((struct given){.type = "dated", .first_ms = NOW - 11000, .failed_ms = NOW - 11000},
                RP_DEADLINE_EXCEEDED, "due 11000 ms after the first failure, deadline 10s");
}

static void always_retries_and_never_does_not(void **state)
{
    (void)state;
    assert_retry((struct given){.type = "endless", .attempt = INT32_MAX}, 0);
    assert_dead((struct given){.type = "none"}, RP_NON_RETRYABLE, "retry: never");
}

static void times_at_the_edge_do_not_overflow(void **state)
{
    (void)state;
    struct rp_decision d =
        decide((struct given){.type = "dated", .failed_ms = INT64_MAX, .first_ms = INT64_MAX});
    assert_int_equal(d.due_ms, INT64_MAX);
    assert_int_equal(d.verdict, RP_RETRY);
    d = decide((struct given){.type = "dated", .failed_ms = INT64_MAX, .first_ms = INT64_MIN});
    assert_int_equal(d.reason, RP_DEADLINE_EXCEEDED);
    d = decide((struct given){.type = "dated", .failed_ms = INT64_MIN, .first_ms = INT64_MIN});
    assert_int_equal(d.reason, RP_DEADLINE_EXCEEDED);
    d = decide((struct given){
        .type = "plain", .failed_ms = INT64_MIN, .first_ms = INT64_MAX, .now_ms = INT64_MIN});
    assert_int_equal(d.verdict, RP_RETRY);
}

static void a_persistent_category_stops_at_once(void **state)
{
    (void)state;
    assert_dead((struct given){.type = "plain", .class_name = "ValueError"}, RP_NON_RETRYABLE,
                "category INVALID is persistent");
}

static void the_policys_lists_beat_the_category(void **state)
{
    (void)state;
    assert_int_equal(decide((struct given){"listed", .class_name = "ValueError"}).verdict,
                     RP_RETRY);
    assert_dead((struct given){"listed", .class_name = "TimeoutError"}, RP_NON_RETRYABLE,
                "non_retryable lists TimeoutError");
}

static void an_exact_name_beats_a_glob_and_else_to_stop_wins(void **state)
{
    (void)state;
    assert_int_equal(decide((struct given){"listed", .class_name = "exact.Yes"}).verdict, RP_RETRY);
    assert_dead((struct given){"listed", .class_name = "exact.No"}, RP_NON_RETRYABLE,
                "non_retryable lists exact.*");
    assert_dead((struct given){"listed", .class_name = "both.No"}, RP_NON_RETRYABLE,
                "non_retryable lists both.No");
    assert_dead((struct given){"listed", .class_name = "both.Other"}, RP_NON_RETRYABLE,
                "non_retryable lists b*");
    assert_dead((struct given){"listed", .class_name = "java.net.MalformedURLException"},
                RP_NON_RETRYABLE, "non_retryable lists java.net.Malformed*");
}

static void causes_are_looked_at_after_the_class(void **state)
{
    (void)state;
    const struct rp_cause timeout = {rp_str("TimeoutError"), RP_NULL_BYTES};
    assert_dead((struct given){"listed", .class_name = "Wrapped", .cause = &timeout},
                RP_NON_RETRYABLE, "non_retryable lists TimeoutError");
    assert_int_equal(
        decide((struct given){"listed", .class_name = "ValueError", .cause = &timeout}).verdict,
        RP_RETRY);
    const struct rp_cause other = {rp_str("x"), RP_NULL_BYTES};
    assert_int_equal(
        decide((struct given){"listed", .class_name = "Wrapped", .cause = &other}).verdict,
        RP_RETRY);
}

static void causes_are_looked_at_to_a_depth(void **state)
{
    (void)state;
    struct rp_cause causes[RP_MAX_CAUSES + 1] = {0};
    struct rp_failed_task task = {.causes = causes, .n_causes = RP_MAX_CAUSES + 1};
    const struct rp_category *unknown = rp_classify(config->policies, &task);
    const struct rp_policy *listed = rp_policies_match(config->policies, rp_str("listed"));
    struct rp_policy_plan plan;
    causes[RP_MAX_CAUSES].class_name = rp_str("TimeoutError");
    rp_policy_plan(listed, unknown, &task, &plan);
    assert_false(plan.stops);
    causes[RP_MAX_CAUSES - 1].class_name = rp_str("TimeoutError");
    rp_policy_plan(listed, unknown, &task, &plan);
    assert_true(plan.stops);
}

static void a_stop_goes_to_the_fallback_once(void **state)
{
    (void)state;
    struct rp_decision d = decide((struct given){.type = "saved", .attempt = 2});
    assert_int_equal(d.verdict, RP_FALLBACK);
    assert_int_equal(d.reason, RP_EXHAUSTED);
    d = decide((struct given){.type = "saved", .class_name = "ValueError"});
    assert_int_equal(d.verdict, RP_FALLBACK);
    assert_int_equal(d.reason, RP_NON_RETRYABLE);
    assert_dead((struct given){.type = "saved", .attempt = 3, .was_fallback = true}, RP_EXHAUSTED,
                "execution 3, max_attempts 2");
    assert_dead((struct given){.type = "saved", .attempt = 1, .was_fallback = true}, RP_EXHAUSTED,
                "the fallback handler failed too");
}

static void an_override_replaces_what_it_states(void **state)
{
    (void)state;
    assert_retry((struct given){.type = "ruled", .category = "RATE_LIMITED", .attempt = 9}, 5000);
    assert_dead((struct given){.type = "ruled", .category = "RATE_LIMITED", .attempt = 10},
                RP_EXHAUSTED, "execution 10, max_attempts 10");
    assert_dead(
        (struct given){.type = "ruled", .category = "RATE_LIMITED", .first_ms = NOW - 3600000},
        RP_DEADLINE_EXCEEDED, "due 3605000 ms after the first failure, deadline 1h");
    assert_dead((struct given){.type = "ruled", .category = "BUSY"}, RP_NON_RETRYABLE,
                "retry: never");
    assert_retry(
        (struct given){.type = "ruled", .category = "NETWORK", .attempt = 1000, .first_ms = 1},
        400);
}

static void an_override_beats_the_persistent_flag_but_not_the_lists(void **state)
{
    (void)state;
    assert_retry((struct given){.type = "ruled", .category = "CONFLICT"}, 1000);
    assert_dead((struct given){.type = "ruled", .category = "CONFLICT", .attempt = 5}, RP_EXHAUSTED,
                "execution 5, max_attempts 5");
    assert_dead((struct given){.type = "ruled", .category = "INVALID", .attempt = 3},
                RP_DEADLINE_EXCEEDED, "due 4000 ms after the first failure, deadline 2s");
    assert_dead((struct given){.type = "ruled", .category = "CONFLICT", .class_name = "Never"},
                RP_NON_RETRYABLE, "non_retryable lists Never");
}

static void by_category_takes_the_profile_of_the_category(void **state)
{
    (void)state;
    assert_retry((struct given){.type = "ruled", .category = "TIMEOUT"}, 100);
    assert_retry((struct given){.type = "ruled", .category = "TIMEOUT", .attempt = 4}, 400);
    assert_retry((struct given){.type = "ruled", .category = "UNAVAILABLE", .attempt = 4}, 8000);
    assert_retry((struct given){.type = "ruled", .category = "UNKNOWN"}, 1000);
}

static void the_default_policy_is_three_executions_from_a_second(void **state)
{
    (void)state;
    struct rp_decision d = decide((struct given){.type = "unheard-of"});
    assert_int_equal(d.verdict, RP_RETRY);
    assert_in_range(d.delay_ms, 1000, 1100);
    assert_string_equal(d.why, "policy default, category UNKNOWN");
    d = decide((struct given){.type = "unheard-of", .attempt = 2});
    assert_in_range(d.delay_ms, 2000, 2200);
    assert_dead((struct given){.type = "unheard-of", .attempt = 3}, RP_EXHAUSTED,
                "execution 3, max_attempts 3");
}

static int load(void **state)
{
    (void)state;
    config = load_good(file);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    rp_config_free(config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attempts_are_counted_to_the_last_one),
        cmocka_unit_test(the_delay_counts_from_the_failure_but_is_never_due_before_now),
        cmocka_unit_test(a_deadline_refuses_what_would_be_due_after_it),
        cmocka_unit_test(always_retries_and_never_does_not),
        cmocka_unit_test(times_at_the_edge_do_not_overflow),
        cmocka_unit_test(a_persistent_category_stops_at_once),
        cmocka_unit_test(the_policys_lists_beat_the_category),
        cmocka_unit_test(an_exact_name_beats_a_glob_and_else_to_stop_wins),
        cmocka_unit_test(causes_are_looked_at_after_the_class),
        cmocka_unit_test(causes_are_looked_at_to_a_depth),
        cmocka_unit_test(a_stop_goes_to_the_fallback_once),
        cmocka_unit_test(an_override_replaces_what_it_states),
        cmocka_unit_test(an_override_beats_the_persistent_flag_but_not_the_lists),
        cmocka_unit_test(by_category_takes_the_profile_of_the_category),
        cmocka_unit_test(the_default_policy_is_three_executions_from_a_second),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
