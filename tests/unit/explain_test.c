/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "explain.h"

static struct rp_config *config;

static struct explain_course course_of(const char *type)
{
    const struct rp_failed_task task = {.task_type = rp_str(type)};
    const struct rp_policy *policy = rp_policies_match(config->policies, task.task_type);
    struct rp_policy_plan plan;
    struct explain_course course;
    rp_policy_plan(policy, rp_classify(config->policies, &task), &task, &plan);
    explain_course(&plan, &course);
    return course;
}

static void the_course_adds_up_delays_and_their_jitter(void **state)
{
    (void)state;
    struct explain_course c = course_of("plain");
    assert_int_equal(c.executions, 4);
    assert_int_equal(c.rows[3].delay.low_ms, 4000);
    assert_int_equal(c.rows[3].delay.high_ms, 4400);
    assert_int_equal(c.total.low_ms, 7000);
    assert_int_equal(c.total.high_ms, 7700);
    assert_string_equal(c.end, "EXHAUSTED");
}

static void a_deadline_allows_some_executions_only_perhaps(void **state)
{
    (void)state;
    struct explain_course c = course_of("dated");
    assert_int_equal(c.executions, 6);
    assert_false(c.rows[3].perhaps);
    assert_true(c.rows[4].perhaps);
    assert_int_equal(c.rows[4].total.high_ms, 5000);
    assert_string_equal(c.end, "DEADLINE_EXCEEDED");
}

static void what_has_no_end_is_cut(void **state)
{
    (void)state;
    struct explain_course c = course_of("endless");
    assert_null(c.end);
    assert_int_equal(c.n_rows, EXPLAIN_MAX_ROWS);
    assert_int_equal(c.executions, EXPLAIN_MAX_EXECUTIONS);
    assert_int_equal(c.rows[1].delay.high_ms, 0);
}

static void never_is_one_execution(void **state)
{
    (void)state;
    struct explain_course c = course_of("never");
    assert_int_equal(c.executions, 1);
    assert_int_equal(c.n_rows, 1);
    assert_string_equal(c.end, "NON_RETRYABLE");
}

static void laps_are_those_of_the_longest_tier(void **state)
{
    (void)state;
    assert_int_equal(explain_laps(config, 0), 0);
    assert_int_equal(explain_laps(config, 1), 1);
    assert_int_equal(explain_laps(config, 59999), 1);
    assert_int_equal(explain_laps(config, 120000), 1);
    assert_int_equal(explain_laps(config, 120001), 2);
    assert_int_equal(explain_laps(config, 180000), 2);
    assert_int_equal(explain_laps(config, 180001), 3);
}

static void times_are_rounded_to_what_matters(void **state)
{
    (void)state;
    char out[EXPLAIN_TIME_TEXT];
    assert_string_equal(explain_time(0, out), "0s");
    assert_string_equal(explain_time(999, out), "999ms");
    assert_string_equal(explain_time(1125, out), "1.125s");
    assert_string_equal(explain_time(60000, out), "1m 00s");
    assert_string_equal(explain_time(3599499, out), "59m 59s");
    assert_string_equal(explain_time(3599500, out), "1h 00m");
    assert_string_equal(explain_time(90061000, out), "1d 01h");
}

static void assert_prints(const struct rp_failed_task *task, double success, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    explain_print(out, config, task, success);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void it_prints_the_policy_why_it_applies_and_its_course(void **state)
{
    (void)state;
    const struct rp_failed_task task = {.task_type = rp_str("mail-eu"),
                                        .error_class = rp_str("TimeoutError")};
    assert_prints(
        &task, 0.5,
        "policy    mail-*, the most specific glob that matches\n"
        "category  TIMEOUT (by its class), not persistent\n"
        "retries   at most 2 executions\n"
        "delays    fixed 3m\n"
        "target    mail\n"
        "fallback  mail-last\n"
        "also      overrides for BUSY\n"
        "\n"
        "EXECUTION   AFTER                 TIER                    LAPS      TOTAL WAIT            "
        "SUCCESS\n"
        "        1   -                     -                       -         0s                    "
        " 50.00%\n"
        "        2   3m 00s                retry-60s               2         3m 00s                "
        " 75.00%\n"
        "\n"
        "At worst: 2 executions, 3m 00s of waiting, then a last try by mail-last, then a dead "
        "letter: EXHAUSTED.\n"
        "Of all such tasks, 75.00% succeed.\n");
}

static void it_prints_why_an_error_is_not_retried(void **state)
{
    (void)state;
    const struct rp_failed_task task = {.task_type = rp_str("other"),
                                        .error_message = rp_str("Access Denied")};
    assert_prints(
        &task, -1,
        "policy    default, which is built in: no policy is for this type\n"
        "category  UNAUTHORIZED (by its message), persistent: not retried unless a policy "
        "says so\n"
        "target    the event's\n"
        "\n"
        "EXECUTION   AFTER                 TIER                    LAPS      TOTAL WAIT\n"
        "        1   -                     -                       -         0s\n"
        "\n"
        "At worst: 1 execution, 0s of waiting, then a dead letter: NON_RETRYABLE.\n");
}

static void assert_explains(const struct rp_config *c, const char *type, double success,
                            const char *part)
{
    const struct rp_failed_task task = {.task_type = rp_str(type),
                                        .error_class = rp_str("TimeoutError")};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    explain_print(out, c, &task, success);
    assert_int_equal(fclose(out), 0);
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
    free(text);
}

static void each_rule_and_delay_is_put_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *type, *says;
        double success;
    } cases[] = {
        {"ruled",
         "retries   any of (at most 2 executions; all of (always; due within 1h of the "
         "first failure))\n",
         -1},
        {"ruled", "No end: it is retried until it succeeds.\n", -1},
        {"endless", "retries   always\ndelays    none\n", -1},
        {"endless", "      ...\n", -1},
        {"never", "then a dead letter: NON_RETRYABLE.\nOf all such tasks, 25.00% succeed.\n", 0.25},
        {"spread", "delays    uniform from 500ms to 3m\n", -1},
        {"spread", "500ms to 3m 00s       retry-1s, retry-60s     1 to 2    500ms to 3m 00s\n", -1},
        {"doubled", "delays    exponential from 1s x2, at most 1m, plus 0 to 10% of jitter\n", -1},
        {"profiled", "at most 400ms, the profile of the category, plus 0 to 10% of jitter\n", -1},
        {"dated", "plus 0 to 30% of jitter\n", -1},
        {"dated", "        ?  only where the delays drawn are short enough\n", -1},
        {"dated", " succeed at most.\n", 0.5},
        {"none", "policy    none, by the type's name\n", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_explains(config, cases[i].type, cases[i].success, cases[i].says);
    struct rp_config *own_default = load_good("policies: {default: {max_attempts: 2}}\n");
    assert_explains(own_default, "other", -1,
                    "policy    default, since no policy is for this type\n");
    rp_config_free(own_default);
}

static int load(void **state)
{
    (void)state;
    config = load_good(
        "policies:\n"
        "  plain: {max_attempts: 4}\n"
        "  dated: {deadline: 5s, backoff: {fixed: 1s}, jitter: 30%}\n"
        "  endless: {retry: always, backoff: none}\n"
        "  never: {retry: never}\n"
        "  ruled: {retry: {any_of: [{max_attempts: 2}, {all_of: [always, {deadline: 1h}]}]},\n"
        "          backoff: none}\n"
        "  spread: {max_attempts: 2, backoff: {uniform: {min: 500ms, max: 3m}}, jitter: 0}\n"
        "  doubled: {max_attempts: 2, jitter: 10%,\n"
        "            backoff: {exponential: {initial: 1s, multiplier: 2, max: 1m}}}\n"
        "  profiled: {max_attempts: 2, backoff: by_category}\n"
        "  none: {max_attempts: 1}\n"
        "  mail-*: {target: mail, fallback: mail-last, max_attempts: 2, backoff: {fixed: 3m},\n"
        "           jitter: 0, overrides: {BUSY: {retry: always}}}\n");
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
        cmocka_unit_test(the_course_adds_up_delays_and_their_jitter),
        cmocka_unit_test(a_deadline_allows_some_executions_only_perhaps),
        cmocka_unit_test(what_has_no_end_is_cut),
        cmocka_unit_test(never_is_one_execution),
        cmocka_unit_test(laps_are_those_of_the_longest_tier),
        cmocka_unit_test(times_are_rounded_to_what_matters),
        cmocka_unit_test(it_prints_the_policy_why_it_applies_and_its_course),
        cmocka_unit_test(it_prints_why_an_error_is_not_retried),
        cmocka_unit_test(each_rule_and_delay_is_put_in_words),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
