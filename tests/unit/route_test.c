/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "route.h"

#define NOW 1800000000200

static struct rp_config *config;
static struct route_context context;
static struct route last;
static enum rp_target_state target_state;
static bool fits;

enum rp_target_state __wrap_rp_targets_state(struct rp_targets *t, struct rp_bytes topic);
bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record);

enum rp_target_state __wrap_rp_targets_state(struct rp_targets *t, struct rp_bytes topic)
{
    (void)t, (void)topic;
    return target_state;
}

bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record)
{
    (void)t;
    return fits || rp_bytes_equal(record->topic, rp_str("dead-letter"));
}

static int set_up_with(const char *guarantee)
{
    struct rp_error err;
    char text[200];
    (void)snprintf(text, sizeof text,
                   "targets: {allow: [work]}\npolicies: {default: {backoff: none}}\n"
                   "guarantee: %s\n",
                   guarantee);
    config = load_good(text);
    context = (struct route_context){.config = config, .policies = config->policies};
    rp_rng_init(&context.rng, 1);
    target_state = RP_TARGET_USABLE;
    fits = true;
    return rp_codec_new(NULL, &context.codec, &err) != 0 ||
           guard_new(64, 0, &context.guard, &err) != 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with("exactly-once");
}

static int set_up_at_least_once(void **state)
{
    (void)state;
    return set_up_with("at-least-once");
}

static int tear_down(void **state)
{
    (void)state;
    rp_codec_free(context.codec);
    guard_free(context.guard);
    rp_arena_clear(&context.arena);
    rp_buf_clear(&context.letter);
    rp_config_free(config);
    return 0;
}

/* What becomes of a failure in a whole second, told by the record at `offset`, which came after as
 * many tenths of a second. */
static enum route_kind route(int64_t offset, const struct rp_lesson *lesson)
{
    static const char event[] =
        "{\"task_id\": \"a\", \"task_type\": \"t\", \"target\": \"work\", \"attempt\": 1,"
        " \"error\": {\"class\": \"E\", \"message\": \"\"}, \"source\": \"s\","
        " \"failed_at\": 1800000000000}";
    struct rp_error err;
    const struct route_record r = {.value = rp_str(event),
                                   .topic = "failed-tasks",
                                   .offset = offset,
                                   .append_ms = NOW + 100 * offset,
                                   .now_ms = NOW + 100 * offset,
                                   .lesson = lesson};
    if (route_record(&context, &r, &last, &err) != 0)
        fail_msg("%s", err.text);
    return last.kind;
}

static void what_runs_again_may_fail_again(void **state)
{
    (void)state;
    assert_int_equal(route(1, NULL), ROUTE_DIRECT);
    assert_int_equal(route(2, NULL), ROUTE_DIRECT);
    assert_int_equal(last.attempt, 2);
}

static void a_repeat_of_what_has_no_target_is_one(void **state)
{
    (void)state;
    target_state = RP_TARGET_MISSING;
    assert_int_equal(route(1, NULL), ROUTE_DEAD);
    assert_int_equal(last.reason, RP_NO_TARGET);
    assert_int_equal(route(3, NULL), ROUTE_REPEAT);
}

static void a_repeat_of_what_is_too_large_is_one(void **state)
{
    (void)state;
    fits = false;
    assert_int_equal(route(1, NULL), ROUTE_DEAD);
    assert_int_equal(last.reason, RP_OVERSIZED);
    assert_int_equal(route(3, NULL), ROUTE_REPEAT);
}

static void a_repeat_of_what_the_brokers_refused_is_one(void **state)
{
    const struct rp_lesson refused = {.refused = true, .reason = RP_NO_TARGET};
    (void)state;
    assert_int_equal(route(1, NULL), ROUTE_DIRECT);
    assert_int_equal(route(1, &refused), ROUTE_DEAD);
    assert_int_equal(route(3, NULL), ROUTE_REPEAT);
}

/* It was refused as a dead letter, not at its target. */
static void a_dead_letter_that_the_brokers_refuse_keeps_its_reason(void **state)
{
    const struct rp_lesson letter = {.letters_refused = 1};
    (void)state;
    target_state = RP_TARGET_MISSING;
    assert_int_equal(route(1, NULL), ROUTE_DEAD);
    assert_int_equal(route(1, &letter), ROUTE_DEAD);
    assert_int_equal(last.reason, RP_NO_TARGET);
    assert_string_equal(last.why, "there is no topic work");
    assert_int_equal(route(3, NULL), ROUTE_REPEAT);
}

/* Sent, and read again since another record of its batch failed. */
static void what_may_be_out_may_fail_again(void **state)
{
    (void)state;
    assert_int_equal(route(1, NULL), ROUTE_DIRECT);
    target_state = RP_TARGET_MISSING;
    assert_int_equal(route(1, NULL), ROUTE_DEAD);
    target_state = RP_TARGET_USABLE;
    assert_int_equal(route(3, NULL), ROUTE_DIRECT);
    assert_int_equal(last.attempt, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(what_runs_again_may_fail_again),
        TEST(a_repeat_of_what_has_no_target_is_one),
        TEST(a_repeat_of_what_is_too_large_is_one),
        TEST(a_repeat_of_what_the_brokers_refused_is_one),
        TEST(a_dead_letter_that_the_brokers_refuse_keeps_its_reason),
#define AT_LEAST_ONCE(name) cmocka_unit_test_setup_teardown(name, set_up_at_least_once, tear_down)
        AT_LEAST_ONCE(what_may_be_out_may_fail_again),
        AT_LEAST_ONCE(a_repeat_of_what_has_no_target_is_one),
        AT_LEAST_ONCE(a_repeat_of_what_the_brokers_refused_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
