/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "policies.h"

static const struct rp_policy *match(const struct rp_config *c, const char *type)
{
    return rp_policies_match(c->policies, rp_str(type));
}

static void the_exact_type_counts_then_the_most_specific_glob_then_default(void **state)
{
    (void)state;
    struct rp_config *c = load_good("policies:\n"
                                    "  \"*\": {}\n"
                                    "  \"order-*\": {}\n"
                                    "  \"order-eu-*\": {}\n"
                                    "  \"order-?\?-*\": {}\n"
                                    "  order-eu-1: {}\n");
    assert_string_equal(rp_policy_name(match(c, "order-eu-1")), "order-eu-1");
    assert_string_equal(rp_policy_name(match(c, "order-eu-2")), "order-eu-*");
    assert_string_equal(rp_policy_name(match(c, "order-us-2")), "order-?\?-*");
    assert_string_equal(rp_policy_name(match(c, "order-asia-2")), "order-*");
    assert_string_equal(rp_policy_name(match(c, "x")), "*");
    rp_config_free(c);
    c = load_good("policies: {order: {}, default: {max_attempts: 9}}\n");
    assert_int_equal(match(c, "x")->schedule.max_attempts, 9);
    assert_false(match(c, "x")->built_in);
    assert_ptr_equal(rp_policies_match(c->policies, RP_NULL_BYTES), match(c, "default"));
    const struct rp_bytes with_nul = {"order\0", 6};
    assert_ptr_equal(rp_policies_match(c->policies, with_nul), match(c, "default"));
    rp_config_free(c);
}

static void policies_live_as_long_as_somebody_holds_them(void **state)
{
    (void)state;
    struct rp_config *c = load_good("policies: {a: {target: t, fallback: f}}\n");
    struct rp_policies *held = rp_policies_ref(c->policies);
    rp_config_free(c);
    const struct rp_policy *a = rp_policies_match(held, rp_str("a"));
    assert_string_equal(rp_policy_target(a), "t");
    assert_string_equal(rp_policy_fallback(a), "f");
    assert_null(rp_policy_target(rp_policies_match(held, rp_str("b"))));
    rp_policies_unref(held);
    rp_policies_unref(NULL);
}

static void a_preset_is_a_start(void **state)
{
    (void)state;
    struct rp_config *c = load_good("policies:\n"
                                    "  a: {preset: short}\n"
                                    "  b: {preset: medium, deadline: 2h, jitter: 5%}\n"
                                    "  c: {preset: long, retry: always, backoff: none}\n");
    const struct rp_schedule *s = &match(c, "a")->schedule;
    assert_int_equal(s->max_attempts, 5);
    assert_int_equal(rp_backoff_range(&s->backoff, 4).low_ms, 16000);
    s = &match(c, "b")->schedule;
    assert_int_equal(s->max_attempts, 7);
    assert_int_equal(s->deadline_ms, 7200000);
    assert_int_equal(s->jitter_percent, 5);
    assert_int_equal(s->backoff.initial_ms, 30000);
    s = &match(c, "c")->schedule;
    assert_int_equal(s->max_attempts, 0);
    assert_int_equal(s->rule->kind, RP_RETRY_ALWAYS);
    assert_int_equal(s->backoff.kind, RP_BACKOFF_NONE);
    rp_config_free(c);
}

static void each_preset_retries_as_often_and_as_late_as_promised(void **state)
{
    (void)state;
    static const struct {
        int least, most;
        int64_t from_ms, to_ms, multiplier;
    } promised[] = {
        {3, 5, 1000, 5000, 2000}, {5, 8, 30000, 60000, 2000}, {8, 12, 300000, 600000, 1750}};
    for (size_t i = 0; rp_preset_names[i] != NULL; i++) {
        assert_in_range(rp_presets[i].max_attempts - 1, promised[i].least, promised[i].most);
        assert_in_range(rp_presets[i].backoff.initial_ms, promised[i].from_ms, promised[i].to_ms);
        assert_int_equal(rp_presets[i].backoff.multiplier, promised[i].multiplier);
    }
}

static void a_rule_in_full_is_the_same_as_its_shorthand(void **state)
{
    (void)state;
    struct rp_config *c = load_good("policies:\n"
                                    "  a: {retry: {max_attempts: 5}}\n"
                                    "  b: {retry: {deadline: 1h}}\n"
                                    "  c: {max_attempts: 5, deadline: 1h}\n"
                                    "  d: {max_attempts: 5, retry: {any_of: [{max_attempts: 2}, "
                                    "{all_of: [{deadline: 1h}, always]}]}}\n");
    assert_int_equal(match(c, "a")->schedule.max_attempts, 5);
    assert_int_equal(match(c, "a")->schedule.deadline_ms, 0);
    assert_int_equal(match(c, "b")->schedule.max_attempts, 0);
    assert_int_equal(match(c, "b")->schedule.deadline_ms, 3600000);
    assert_int_equal(match(c, "c")->schedule.max_attempts, 5);
    assert_int_equal(match(c, "c")->schedule.deadline_ms, 3600000);
    const struct rp_schedule *d = &match(c, "d")->schedule;
    struct rp_retry_rule part;
    assert_null(rp_schedule_refusal(d, 4, 3600000, &part));
    assert_int_equal(rp_schedule_refusal(d, 5, 0, &part)->kind, RP_RETRY_MAX_ATTEMPTS);
    assert_int_equal(rp_schedule_refusal(d, 5, 0, &part)->max_attempts, 5);
    assert_int_equal(rp_schedule_refusal(d, 4, 3600001, &part)->max_attempts, 2);
    rp_config_free(c);
}

static void what_a_policy_does_not_state_is_the_defaults(void **state)
{
    (void)state;
    struct rp_config *c = load_good("policies: {a: {target: t}, b: {backoff: {fixed: 5s}}}\n");
    assert_int_equal(match(c, "a")->schedule.max_attempts, 3);
    assert_int_equal(match(c, "a")->schedule.backoff.max_ms, 60000);
    assert_int_equal(match(c, "b")->schedule.max_attempts, 3);
    assert_int_equal(match(c, "b")->schedule.jitter_percent, 10);
    rp_config_free(c);
}

static void limits_are_kept(void **state)
{
    (void)state;
    assert_faults(
        "policies:\n"
        "  a:\n"
        "    max_attempts: 101\n"
        "    jitter: 101%\n"
        "    backoff:\n"
        "      exponential: {initial: 1s, multiplier: 0.9, max: 2s}\n"
        "  b:\n"
        "    max_attempts: 0\n"
        "    backoff:\n"
        "      exponential: {initial: 1s, multiplier: 8.001, max: 2s}\n",
        "3: policies.a.max_attempts: expected a whole number from 1 to 100, found "
        "\"101\"\n"
        "4: policies.a.jitter: expected a percentage from 0% to 100% (10%), found "
        "\"101%\"\n"
        "6: policies.a.backoff.exponential.multiplier: expected a number from 1 to 8 (2, 1.75), "
        "found \"0.9\"\n"
        "8: policies.b.max_attempts: expected a whole number from 1 to 100, found "
        "\"0\"\n"
        "10: policies.b.backoff.exponential.multiplier: expected a number from 1 to 8 (2, 1.75), "
        "found \"8.001\"\n");
}

static void a_rule_or_a_backoff_is_one_of_several_things(void **state)
{
    (void)state;
    assert_faults("policies:\n"
                  "  a: {retry: sometimes}\n"
                  "  b: {backoff: {fixed: 1s, uniform: {min: 1s, max: 2s}}}\n"
                  "  c: {backoff: {uniform: {min: 1s}}}\n"
                  "  d: {retry: {all_of: []}}\n",
                  "2: policies.a.retry: expected one of never, always, {max_attempts: ...}, "
                  "{deadline: ...}, {all_of: ...}, {any_of: ...}, found \"sometimes\"\n"
                  "3: policies.b.backoff: expected one of none, by_category, {fixed: ...}, "
                  "{uniform: ...}, {exponential: ...}, {exponential_random: ...}, found a mapping\n"
                  "4: policies.c.backoff.uniform: expected max in it, which is missing\n"
                  "5: policies.d.retry.all_of: expected a list of 1 to 8 rules\n");
}

static void what_contradicts_itself_is_refused(void **state)
{
    (void)state;
    assert_faults(
        "policies:\n"
        "  a: {backoff: {uniform: {min: 2s, max: 1s}}}\n"
        "  b: {backoff: {exponential: {initial: 2s, max: 1s}}}\n"
        "  c: {deadline: 1s, backoff: {fixed: 2s}}\n"
        "  d: {retry: never, max_attempts: 2}\n"
        "  e: {retry: {deadline: 1h}, deadline: 2h}\n"
        "  f: {retryable: [X], non_retryable: [X]}\n"
        "  g: {target: t, fallback: t}\n"
        "  h: {retry: {max_attempts: 3}, max_attempts: 2}\n"
        "  i: {track: true}\n",
        "2: policies.a: backoff: min is greater than max\n"
        "3: policies.b: backoff: initial is greater than max\n"
        "4: policies.c: deadline 1s is shorter than the first delay, 2s: nothing would be retried\n"
        "5: policies.d: retry: never contradicts max_attempts\n"
        "6: policies.e: deadline is stated twice\n"
        "7: policies.f: X is both retryable and non_retryable\n"
        "8: policies.g: fallback is the target itself\n"
        "9: policies.h: max_attempts is stated twice\n"
        "10: policies.i: track: expected false: this version writes no task-events\n");
}

static void topics_of_our_own_are_never_targets(void **state)
{
    (void)state;
    assert_faults("topics: {prefix: eu.}\n"
                  "policies:\n"
                  "  a: {target: eu.retry-5s}\n"
                  "  b: {fallback: eu.dead-letter}\n"
                  "  c: {target: a/b}\n",
                  "3: policies.a: target: eu.retry-5s is a topic of reprise's own\n"
                  "4: policies.b: fallback: eu.dead-letter is a topic of reprise's own\n"
                  "5: policies.c: target: expected the name of a topic, found \"a/b\"\n");
}

static void overrides_name_categories_that_there_are(void **state)
{
    (void)state;
    assert_faults("policies:\n"
                  "  a:\n"
                  "    overrides:\n"
                  "      TIMEOUTS: {max_attempts: 2}\n"
                  "      BUSY: {max_attempts: 2}\n"
                  "      busy: {preset: short}\n",
                  "4: policies.a.overrides.TIMEOUTS: there is no such category (did you mean "
                  "TIMEOUT?)\n"
                  "6: policies.a.overrides.busy.preset: there is no such parameter\n"
                  "6: policies.a.overrides.busy: comes twice, as BUSY\n");
    rp_config_free(load_good("policies: {a: {overrides: {MINE: {max_attempts: 2}}}}\n"
                             "categories: {MINE: {}}\n"));
}

static void names_have_a_length_and_overrides_a_shape(void **state)
{
    (void)state;
    char name[258], text[1024];
    memset(name, 'A', 257);
    name[257] = '\0';
    (void)snprintf(text, sizeof text,
                   "categories:\n  %s: {}\npolicies:\n  %s: {}\n  b: {overrides: [a]}\n",
                   name + 192, name);
    assert_null(load_text(text, strlen(text)));
    assert_non_null(strstr(faults, "2: categories.AAAA"));
    assert_non_null(strstr(faults, ": expected a name of at most 64 characters\n"));
    assert_non_null(strstr(faults, ": expected a task type of at most 256 characters\n"));
    assert_non_null(strstr(faults, "5: policies.b.overrides: expected a mapping of categories, "
                                   "found a list\n"));
}

static void globs_of_equal_weight_have_an_order_all_the_same(void **state)
{
    (void)state;
    struct rp_config *c = load_good("policies: {\"a*c\": {}, \"*ac\": {}, \"a*?c\": {}}\n");
    assert_string_equal(rp_policy_name(match(c, "axxc")), "a*?c");
    assert_string_equal(rp_policy_name(match(c, "ac")), "*ac");
    rp_config_free(c);
}

static void categories_that_contradict_are_refused(void **state)
{
    (void)state;
    assert_faults("categories:\n"
                  "  A: {profile: no-retry}\n"
                  "  B: {persistent: false, profile: no-retry}\n"
                  "  b: {classes: [X]}\n"
                  "  C: {classes: [X]}\n",
                  "2: categories.A: profile no-retry contradicts persistent: false\n"
                  "2: categories: the class X is listed twice\n"
                  "3: categories.B: profile no-retry contradicts persistent: false\n"
                  "4: categories.b: comes twice, as B\n"
                  "4: categories.b: profile no-retry contradicts persistent: false\n");
}

static void rules_that_nest_without_end_are_refused(void **state)
{
    (void)state;
    const char *text = "policies: {a: {retry: &r {all_of: [*r, *r]}}}\n";
    assert_null(load_text(text, strlen(text)));
    assert_non_null(strstr(faults, "expected a rule that is nested less deeply"));
    text = "policies: {a: {retry: &r {all_of: [*r, *r, *r, *r, *r, *r, *r, *r]}}}\n";
    assert_null(load_text(text, strlen(text)));
    assert_non_null(strstr(load_error.text, "nested less deeply"));
    text = "policies:\n"
           "  a: {retry: {all_of: [&a {any_of: [&b {all_of: [&c {any_of: [always, never, always, "
           "never, always, never, always, never]}, *c, *c, *c, *c, *c, *c, *c]}, *b, *b, *b, *b, "
           "*b, *b, *b]}, *a, *a, *a, *a, *a, *a, *a]}}\n"
           "  b: {retry: {all_of: [*a, *a, *a, *a, *a, *a, *a, *a]}}\n"
           "  c: {retry: {all_of: [*a, *a, *a, *a, *a, *a, *a, *a]}}\n";
    assert_null(load_text(text, strlen(text)));
    assert_non_null(strstr(faults, "expected fewer rules in the file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_type_counts_then_the_most_specific_glob_then_default),
        cmocka_unit_test(policies_live_as_long_as_somebody_holds_them),
        cmocka_unit_test(a_preset_is_a_start),
        cmocka_unit_test(each_preset_retries_as_often_and_as_late_as_promised),
        cmocka_unit_test(a_rule_in_full_is_the_same_as_its_shorthand),
        cmocka_unit_test(what_a_policy_does_not_state_is_the_defaults),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(a_rule_or_a_backoff_is_one_of_several_things),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test(topics_of_our_own_are_never_targets),
        cmocka_unit_test(overrides_name_categories_that_there_are),
        cmocka_unit_test(names_have_a_length_and_overrides_a_shape),
        cmocka_unit_test(globs_of_equal_weight_have_an_order_all_the_same),
        cmocka_unit_test(categories_that_contradict_are_refused),
        cmocka_unit_test(rules_that_nest_without_end_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
