/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "registry.h"
#include "settle.h"

#define NOW INT64_C(1763700000000)

enum rp_target_state __wrap_rp_targets_state(struct rp_targets *t, struct rp_bytes topic);
enum rp_target_state __wrap_rp_targets_state(struct rp_targets *t, struct rp_bytes topic)
{
    (void)t;
    (void)topic;
    return RP_TARGET_USABLE;
}

static bool fits;

bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record);
bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record)
{
    (void)t;
    return fits || !rp_bytes_equal(record->topic, rp_str("work"));
}

static struct rp_config *config;
static struct settle_context context;
static struct rp_buf value;

static struct rp_failed_task task;

static int encode(void)
{
    struct rp_error err;
    value.len = 0;
    return rp_failed_task_encode(&task, &value, &err);
}

static int set_up(void **state)
{
    struct rp_error err;
    task = (struct rp_failed_task){
        .task_id = rp_str("t-1"),
        .task_type = rp_str("mail"),
        .payload = rp_str("hello"),
        .attempt = 1,
        .error_class = rp_str("E"),
        .error_message = rp_str(""),
        .source = rp_str("test"),
        .first_failed_at_ms = RP_NO_TIME,
        .failed_at_ms = NOW - 1000,
    };
    (void)state;
    fits = true;
    config = load_good("targets: {allow: [work]}\n");
    context = (struct settle_context){.config = config, .policies = config->policies};
    assert_int_equal(rp_codec_new(NULL, &context.codec, &err), 0);
    return encode();
}

static int tear_down(void **state)
{
    (void)state;
    rp_codec_free(context.codec);
    rp_arena_clear(&context.arena);
    rp_buf_clear(&context.letter);
    rp_buf_clear(&value);
    rp_config_free(config);
    return 0;
}

/* Of a record whose due time lies beyond its tier's reach. */
static void settle_lap(int64_t due_ms, struct settlement *out)
{
    struct rp_error err;
    const struct settle_record r = {
        .parcel = {.passage = {.task_id = rp_str("t-1"),
                               .attempt = 2,
                               .due_ms = due_ms,
                               .first_failed_at_ms = NOW - 1000,
                               .target = rp_str("work")},
                   .value = rp_buf_bytes(&value)},
        .topic = "retry-1s",
        .lap = true,
        .now_ms = NOW,
    };
    assert_int_equal(settle_record(&context, &r, out, &err), 0);
}

static void what_is_due_later_takes_another_lap(void **state)
{
    struct settlement s;
    (void)state;
    settle_lap(NOW + 15000, &s);
    assert_int_equal(s.kind, SETTLE_LAP);
    assert_true(rp_bytes_equal(s.out.topic, rp_str("retry-10s")));
    assert_true(rp_bytes_equal(s.out.value, rp_buf_bytes(&value)));
}

/* Else each lap would begin with a time that has gone by, and end in the next lap at once. */
static void what_is_due_by_now_takes_no_lap(void **state)
{
    struct settlement s;
    (void)state;
    settle_lap(NOW, &s);
    assert_int_equal(s.kind, SETTLE_SENT);
    assert_true(rp_bytes_equal(s.out.topic, rp_str("work")));
    assert_true(rp_bytes_equal(s.out.value, rp_str("hello")));
}

static void what_its_topic_cannot_take_is_a_dead_letter(void **state)
{
    struct settlement s;
    (void)state;
    fits = false;
    settle_lap(NOW, &s);
    assert_int_equal(s.kind, SETTLE_DEAD);
    assert_int_equal(s.reason, RP_OVERSIZED);
    assert_string_equal(s.why, "it is larger than max.message.bytes of topic work");
}

/* Settles a record that the router did not write: it has the event, and nothing else. */
static void settle_bare(const struct rp_lesson *lesson, struct settlement *out)
{
    struct rp_error err;
    assert_int_equal(encode(), 0);
    const struct settle_record r = {
        .parcel = {.passage = {.due_ms = NOW + 15000, .first_failed_at_ms = RP_NO_TIME},
                   .value = rp_buf_bytes(&value)},
        .topic = "retry-1s",
        .lap = lesson != NULL && lesson->refused,
        .lesson = lesson,
        .now_ms = NOW};
    assert_int_equal(settle_record(&context, &r, out, &err), 0);
}

static void assert_header(const struct settlement *s, const char *name, const char *expected)
{
    for (size_t i = 0; i < s->out.n_headers; i++)
        if (rp_bytes_equal(s->out.headers[i].key, rp_str(name))) {
            assert_true(rp_bytes_equal(s->out.headers[i].value, rp_str(expected)));
            return;
        }
    fail_msg("there is no %s", name);
}

static void what_a_record_does_not_say_its_event_does(void **state)
{
    struct settlement s;
    (void)state;
    task.target = rp_str("work");
    settle_bare(NULL, &s);
    assert_int_equal(s.kind, SETTLE_SENT);
    assert_true(rp_bytes_equal(s.out.topic, rp_str("work")));
    assert_header(&s, RP_HDR_TASK_ID, "t-1");
    assert_header(&s, RP_HDR_ATTEMPT, "2");
    assert_header(&s, RP_HDR_FIRST_FAILED_AT, "1763699999000"); /* as it failed then */
    task.first_failed_at_ms = 5;
    task.attempt = INT32_MAX;
    settle_bare(NULL, &s);
    assert_header(&s, RP_HDR_ATTEMPT, "2147483647");
    assert_header(&s, RP_HDR_FIRST_FAILED_AT, "5");
}

static void a_task_without_a_target_is_a_dead_letter(void **state)
{
    struct settlement s;
    (void)state;
    settle_bare(NULL, &s);
    assert_int_equal(s.kind, SETTLE_DEAD);
    assert_int_equal(s.reason, RP_NO_TARGET);
    assert_string_equal(s.why, "neither the record nor its event names a target");
}

/* Its dead letter, not the task at its target. */
static void a_dead_letter_that_the_brokers_refuse_keeps_its_reason(void **state)
{
    static const struct rp_lesson lesson = {.letters_refused = 1};
    struct settlement s;
    (void)state;
    task.attempt = INT32_MAX;
    settle_bare(&lesson, &s);
    assert_int_equal(s.kind, SETTLE_DEAD);
    assert_int_equal(s.reason, RP_NO_TARGET);
    assert_non_null(memmem(s.out.value.data, s.out.value.len, "hello", 5));
    /* Its attempts, as Avro has them; the event within has the same. */
    const void *first = memmem(s.out.value.data, s.out.value.len, "\xfe\xff\xff\xff\x0f", 5);
    assert_non_null(first);
    size_t behind = (size_t)((const char *)first - (const char *)s.out.value.data) + 5;
    assert_non_null(memmem((const char *)s.out.value.data + behind, s.out.value.len - behind,
                           "\xfe\xff\xff\xff\x0f", 5));
}

static void what_the_brokers_refuse_takes_no_lap_and_leaves_its_payload(void **state)
{
    static const struct rp_lesson lesson = {.refused = true,
                                            .reason = RP_OVERSIZED,
                                            .refusal = "too large",
                                            .letters_refused = RP_BURY_MOST};
    struct settlement s;
    (void)state;
    task.target = rp_str("work");
    settle_bare(&lesson, &s);
    assert_int_equal(s.kind, SETTLE_DEAD);
    assert_int_equal(s.reason, RP_OVERSIZED);
    assert_string_equal(s.why, "too large");
    assert_null(memmem(s.out.value.data, s.out.value.len, "hello", 5));
}

/* Without the registry it cannot be said what is refused; it is not due before its time for that.
 */
static void what_cannot_be_read_yet_waits_for_its_time_at_least(void **state)
{
    static const struct rp_lesson lesson = {.refused = true, .refusal = "too large"};
    const struct rp_registry_options away = {.url = "http://127.0.0.1:1", .timeout_ms = 1000};
    const int64_t dues[] = {NOW - 5, NOW + 7200000};
    struct rp_registry *registry;
    struct rp_error err;
    (void)state;
    rp_codec_free(context.codec);
    assert_int_equal(rp_registry_new(&away, &registry, &err), 0);
    assert_int_equal(rp_codec_new(registry, &context.codec, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct settle_record r = {
            .parcel = {.passage = {.task_id = rp_str("t-1"), .due_ms = dues[i]},
                       .value = {"\0\0\0\0\7\2", 6}},
            .topic = "retry-1s",
            .lap = true,
            .lesson = &lesson,
            .now_ms = NOW};
        struct settlement s;
        assert_int_equal(settle_record(&context, &r, &s, &err), 0);
        assert_int_equal(s.kind, SETTLE_LAP);
        assert_true(rp_bytes_equal(s.out.topic, rp_str("retry-1s")));
        assert_header(&s, RP_HDR_DUE, i == 0 ? "1763700001000" : "1763707200000");
    }
    rp_codec_free(context.codec);
    context.codec = NULL;
    rp_registry_free(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_due_later_takes_another_lap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_due_by_now_takes_no_lap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_its_topic_cannot_take_is_a_dead_letter, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_record_does_not_say_its_event_does, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_task_without_a_target_is_a_dead_letter, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_dead_letter_that_the_brokers_refuse_keeps_its_reason,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_yet_waits_for_its_time_at_least, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_the_brokers_refuse_takes_no_lap_and_leaves_its_payload,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
