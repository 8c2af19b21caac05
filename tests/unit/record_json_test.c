/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "codec.h"
#include "codec_fixture.h"
#include "error_fixture.h"
#include "plan.h"
#include "reprise/rng.h"

struct fixture {
    struct rp_codec *codec;
    struct rp_arena arena;
    struct rp_error err;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || rp_codec_new(NULL, &f->codec, &f->err) != 0)
        return -1;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_codec_free(f->codec);
    rp_arena_clear(&f->arena);
    free(f);
    return 0;
}

static struct rp_failed_task read_task(struct fixture *f, struct rp_bytes json)
{
    struct rp_failed_task task;
    if (rp_codec_decode_task(f->codec, json, &f->arena, &task, &f->err) != 0)
        fail_msg("%s", f->err.text);
    return task;
}

static void assert_refused(struct fixture *f, const char *json, const char *because)
{
    struct rp_failed_task task;
    assert_int_equal(rp_codec_decode_task(f->codec, rp_str(json), &f->arena, &task, &f->err), -1);
    assert_int_equal(f->err.cls, RP_POISON);
    assert_int_equal(f->err.code, RP_E_DECODE);
    assert_says(&f->err, because);
}

/* What must be there; `more` are further members. */
#define TASK(more)                                                                                 \
    "{\"task_id\": \"t\", \"task_type\": \"data-sync\", \"error\": {\"class\": \"E\", "            \
    "\"message\": \"\"}, \"source\": \"\"" more "}"
#define TIMED(more) TASK(", \"attempt\": 1, \"failed_at\": 0" more)

static void defaults_may_be_left_out(void **state)
{
    struct rp_failed_task expected = plain_task(), task = read_task(*state, rp_str(TIMED("")));
    assert_task_equal(&task, &expected);
}

static void defaults_may_be_null(void **state)
{
    struct rp_failed_task expected = plain_task();
    struct rp_failed_task task =
        read_task(*state, rp_str(TIMED(", \"target\": null, \"key\": null, \"payload\": null, "
                                       "\"payload_json\": null, \"headers\": null, "
                                       "\"first_failed_at\": null") "\n"));
    assert_task_equal(&task, &expected);
    task = read_task(*state, rp_str(TIMED(", \"headers\": []")));
    assert_task_equal(&task, &expected);
}

static void a_full_event_is_read(void **state)
{
    struct rp_failed_task expected = sample_task();
    struct rp_failed_task task = read_task(
        *state,
        rp_str("{\"task_id\": \"order-4711\", \"task_type\": \"payment\", "
               "\"target\": \"orders-charge\", \"key\": \"awB5\", "
               "\"payload\": \"eyJhbW91bnQiOiAxMC4xMH0=\", \"headers\": ["
               "{\"key\": \"trace\", \"value\": \"AP8=\"}, {\"key\": \"empty\", \"value_text\": "
               "\"\"}, "
               "{\"key\": \"none\"}], \"attempt\": 2, \"error\": {"
               "\"class\": \"com.example.PaymentException\", "
               "\"message\": \"card gateway \\u20ac: no answer\", \"category\": \"TIMEOUT\", "
               "\"causes\": [{\"class\": \"java.net.SocketTimeoutException\", "
               "\"message\": \"read timed out\"}, {\"class\": \"java.io.IOException\", "
               "\"message\": \"\"}]}, \"source\": \"payment-service\", "
               "\"first_failed_at\": \"2024-11-21T00:00:00Z\", "
               "\"failed_at\": \"2024-11-21T01:01:00.123+01:00\", \"unknown\": {\"a\": [1]}}"));
    assert_task_equal(&task, &expected);
}

static void names_may_have_escapes_where_no_text_is_kept(void **state)
{
    struct rp_failed_task expected = plain_task();
    struct rp_failed_task task =
        read_task(*state, rp_str("{\"t\\u0061sk_id\": \"t\", \"task_type\": \"data-sync\", "
                                 "\"\\u0065rror\": {\"cl\\u0061ss\": \"E\", \"message\": \"\"}, "
                                 "\"source\": \"\", \"attempt\": 1, \"failed_at\": 0}"));
    assert_task_equal(&task, &expected);
}

static void the_text_of_payload_json_is_kept_byte_for_byte(void **state)
{
    struct rp_failed_task task = read_task(
        *state, rp_str(TIMED(", \"payload_json\" :\n {\"amount\":  10.10, \"n\": "
                             "123456789012345678901234567890, \"s\": \"}\\\"]\\\\\"} , \"x\": 1")));
    assert_bytes_equal(task.payload, rp_str("{\"amount\":  10.10, \"n\": "
                                            "123456789012345678901234567890, "
                                            "\"s\": \"}\\\"]\\\\\"}"));
    task = read_task(*state, rp_str(TIMED(", \"payload_json\": 1.50")));
    assert_bytes_equal(task.payload, rp_str("1.50"));
    task = read_task(*state, rp_str(TIMED(", \"payload_json\": [\"a\", []]")));
    assert_bytes_equal(task.payload, rp_str("[\"a\", []]"));
}

static void a_number_of_the_payload_may_be_of_any_size(void **state)
{
    static const char *const numbers[] = {"1e400", "-1E+400", "-9e999999999", "[1e309, \"1e400\"]"};
    char json[1000], digits[401] = "";
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(json, sizeof json, TIMED(", \"x\": 1e400, \"payload_json\": %s"),
                       numbers[i]);
        assert_bytes_equal(read_task(*state, rp_str(json)).payload, rp_str(numbers[i]));
    }
    memset(digits, '7', 400);
    (void)snprintf(json, sizeof json, TIMED(", \"payload_json\": %s"), digits);
    assert_bytes_equal(read_task(*state, rp_str(json)).payload, rp_str(digits));
    /* The numbers of ours may not. */
    assert_refused(*state, TASK(", \"failed_at\": 1, \"attempt\": 1e400"),
                   "attempt: expected a whole number");
    (void)snprintf(json, sizeof json, TASK(", \"attempt\": 1, \"failed_at\": -%s"), digits);
    assert_refused(*state, json, "failed_at: expected ms since 1970");
}

static void bytes_may_be_text(void **state)
{
    struct rp_failed_task task = read_task(
        *state, rp_str(TIMED(", \"key_text\": \"k\\u0000\\u00e4\", \"payload_text\": \"p\"")));
    assert_bytes_equal(task.key, (struct rp_bytes){"k\0\xc3\xa4", 4});
    assert_bytes_equal(task.payload, rp_str("p"));
}

/* Whatever a payload is, as long as it is JSON, and what it stands beside. */
static void names_may_have_a_nul(void **state)
{
    static const char payload[] = "{\"a\\u0000b\": \"\\u0000\"}";
    char json[800];
    (void)snprintf(json, sizeof json, TIMED(", \"x\\u0000\": 1, \"payload_json\": %s"), payload);
    assert_bytes_equal(read_task(*state, rp_str(json)).payload, rp_str(payload));
}

static void numbers_may_be_written_as_scripts_write_them(void **state)
{
    struct rp_failed_task task =
        read_task(*state, rp_str(TASK(", \"attempt\": \"3\", \"failed_at\": 1732147260123.75, "
                                      "\"first_failed_at\": \"1732147200000\"")));
    assert_int_equal(task.attempt, 3);
    assert_int_equal(task.failed_at_ms, 1732147260123);
    assert_int_equal(task.first_failed_at_ms, 1732147200000);
    task = read_task(*state, rp_str(TASK(", \"attempt\": 4.0, \"failed_at\": 1.7e12")));
    assert_int_equal(task.attempt, 4);
    assert_int_equal(task.failed_at_ms, 1700000000000);
}

static void half_a_surrogate_pair_does_not_lose_the_event(void **state)
{
    struct rp_failed_task task =
        read_task(*state, rp_str(TIMED(", \"key_text\": \"a\\ud83d\\ude00 \\\\ud83d\", "
                                       "\"payload_json\": \"\\ud83d\", "
                                       "\"source\": \"\\udcff|\\ud83d|\\ud83d\\ud83d\\ude00\"")));
    assert_bytes_equal(task.source,
                       rp_str("\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD\xF0\x9F\x98\x80"));
    assert_bytes_equal(task.key, rp_str("a\xF0\x9F\x98\x80 \\ud83d"));
    assert_bytes_equal(task.payload, rp_str("\"\\ud83d\""));
}

static void the_last_of_two_members_counts(void **state)
{
    struct rp_failed_task task = read_task(
        *state, rp_str(TIMED(", \"source\": \"b\", \"payload_json\": 1, \"payload_json\": 2")));
    assert_bytes_equal(task.source, rp_str("b"));
    assert_bytes_equal(task.payload, rp_str("2"));
}

static void syntax_errors_say_line_and_column(void **state)
{
    assert_refused(*state, "{\"task_id\": \"t\",\n  oops}", "JSON: line 2, column");
    assert_refused(*state, "{", "JSON: line 1");
    assert_refused(*state, TIMED("") " x", "JSON: line 1");
    assert_refused(*state, "{\"task_id\": \"\xff\"}", "JSON: line 1");
}

static void what_does_not_fit_says_the_field(void **state)
{
    assert_refused(*state, "{}", "JSON: task_id: is missing");
    assert_refused(*state, TASK(", \"failed_at\": 1"), "attempt: is missing");
    assert_refused(*state, TASK(", \"attempt\": null"), "attempt: must not be null");
    assert_refused(*state, TASK(", \"attempt\": 1.5"), "attempt: expected a whole number");
    assert_refused(*state, TASK(", \"attempt\": true"), "found a boolean");
    assert_refused(*state, TASK(", \"attempt\": 2147483648"),
                   "attempt: 2147483648 is out of range");
    assert_refused(*state, TASK(", \"attempt\": -2147483649"), "attempt: -2147483649 is out of");
    assert_refused(*state, TASK(", \"attempt\": 1e300"), "attempt: expected a whole number");
    assert_refused(*state, TASK(", \"attempt\": \"99999999999999999999\""), "a whole number");
    assert_refused(*state, TASK(", \"attempt\": \"3x\""), "attempt: expected a whole number");
    assert_refused(*state, TASK(", \"attempt\": \"-\""), "attempt: expected a whole number");
    assert_refused(*state, TASK(", \"attempt\": \"\""), "attempt: expected a whole number");
    assert_refused(*state, TASK(", \"attempt\": 1, \"failed_at\": true"),
                   "failed_at: expected ms since 1970 or ISO 8601 in a string, found a boolean");
    assert_refused(*state, TASK(", \"attempt\": 1, \"failed_at\": -9223372036854775808"),
                   "failed_at: is out of range");
    assert_refused(*state, TASK(", \"attempt\": 1, \"failed_at\": \"soon\""),
                   "failed_at: 'soon' is no time");
    assert_refused(*state, TIMED(", \"target\": 1"), "target: expected a string, found a number");
    assert_refused(*state, TIMED(", \"target\": []"), "expected a string, found an array");
    assert_refused(*state, TIMED(", \"key\": 1"), "key: expected base64 in a string");
    assert_refused(*state, TIMED(", \"headers\": [null]"),
                   "headers[0]: expected an object, found null");
    assert_refused(*state, TIMED(", \"payload\\u005fjson\": 1"),
                   "payload: write the name payload_json without escapes");
    assert_refused(*state, TIMED(", \"error\": {\"class\": 7}"), "error.class: expected a string");
    assert_refused(*state, TIMED(", \"error\": \"E\""), "error: expected an object");
    assert_refused(*state, TIMED(", \"headers\": {}"), "headers: expected an array");
    assert_refused(*state, TIMED(", \"headers\": [{\"key\": \"a\"}, {\"value\": \"\"}]"),
                   "headers[1].key: is missing");
    assert_refused(*state, TIMED(", \"payload\": \"plain text\""),
                   "payload: no base64 at character 10; plain text goes into payload_text");
    assert_refused(*state, TIMED(", \"payload\": \"\", \"payload_text\": \"\""),
                   "payload: it comes twice");
}

static void more_items_than_an_event_may_have_are_refused(void **state)
{
    static char json[2 * RP_PLAN_MAX_ITEMS + 100];
    char *end = stpcpy(json, "{\"headers\": [0");
    for (int i = 0; i < RP_PLAN_MAX_ITEMS; i++)
        end = stpcpy(end, ",0");
    (void)stpcpy(end, "], \"task_id\": \"t\", \"task_type\": \"t\"}");
    assert_refused(*state, json, "headers: 131073 items, at most 131072");
}

static void a_json_too_deep_is_refused(void **state)
{
    struct fixture *f = *state;
    size_t n = 100000;
    char *deep = malloc(n + 1);
    assert_non_null(deep);
    memset(deep, '[', n);
    memcpy(deep, "{\"a\":", 5);
    deep[n] = '\0';
    assert_refused(f, deep, "maximum parsing depth");
    free(deep);
}

/* Braces of a few hundred KiB compressed would take gigabytes. */
static void a_json_of_too_many_values_is_refused(void **state)
{
    struct fixture *f = *state;
    const size_t n = 2 * 1024 * 1024;
    char *many = malloc(3 * n + 300);
    assert_non_null(many);
    char *end = stpcpy(many, TIMED(", \"payload_text\": \"")) - 1;
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, "{},");
    (void)stpcpy(end, "\"}");
    assert_int_equal(read_task(f, rp_str(many)).payload.len, 3 * n);
    rp_arena_reset(&f->arena);
    end = stpcpy(many, "{\"x\": [");
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, "{},");
    (void)stpcpy(end, "0]}");
    assert_refused(f, many, "so many values that to read it takes more than 512 MiB");
    free(many);
}

static void every_truncation_is_refused_and_no_flipped_byte_crashes(void **state)
{
    struct fixture *f = *state;
    static const char json[] = TIMED(", \"payload_json\": {\"a\": [1, \"\\\"\"]}, "
                                     "\"headers\": [{\"key\": \"k\", \"value\": \"AAAA\"}]");
    struct rp_rng rng;
    struct rp_failed_task task;
    rp_rng_init(&rng, 4);
    for (size_t n = 1; n < sizeof json - 1; n++)
        assert_int_equal(
            rp_codec_decode_task(f->codec, (struct rp_bytes){json, n}, &f->arena, &task, &f->err),
            -1);
    size_t refused = 0;
    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(sizeof json - 1);
        assert_non_null(copy);
        memcpy(copy, json, sizeof json - 1);
        copy[rp_rng_between(&rng, 1, sizeof json - 2)] = (char)rp_rng_between(&rng, 32, 127);
        rp_arena_reset(&f->arena);
        if (rp_codec_decode_task(f->codec, (struct rp_bytes){copy, sizeof json - 1}, &f->arena,
                                 &task, &f->err) != 0)
            refused++;
        free(copy);
    }
    assert_true(refused > 1000);
}

#define LETTER(reason)                                                                             \
    "{\"task\": " TIMED(                                                                           \
        ", \"payload_json\": {\"a\":1}") ", \"raw\": null, "                                       \
                                         "\"reason\": \"" reason                                   \
                                         "\", \"attempts\": 2, \"decided_at\": 5, \"topic\": "     \
                                         "\"t\", "                                                 \
                                         "\"partition\": 7, \"offset\": 9007199254740993}"

static void a_dead_letter_is_read(void **state)
{
    struct fixture *f = *state;
    struct rp_dead_letter letter;
    if (rp_codec_decode_dead_letter(f->codec, rp_str(LETTER("OVERSIZED")), &f->arena, &letter,
                                    &f->err) != 0)
        fail_msg("%s", f->err.text);
    assert_true(letter.has_task);
    assert_bytes_equal(letter.task.payload, rp_str("{\"a\":1}"));
    assert_int_equal(letter.reason, RP_OVERSIZED);
    assert_int_equal(letter.partition, 7);
    assert_int_equal(letter.offset, 9007199254740993);
    assert_int_equal(rp_codec_decode_dead_letter(f->codec, rp_str(LETTER("FROM_THE_FUTURE")),
                                                 &f->arena, &letter, &f->err),
                     0);
    assert_int_equal(letter.reason, RP_OTHER);
    assert_int_equal(rp_codec_decode_dead_letter(f->codec, rp_str("{\"reason\": 7}"), &f->arena,
                                                 &letter, &f->err),
                     -1);
    assert_says(&f->err, "reason: expected a reason, found a number");
    assert_int_equal(rp_codec_decode_dead_letter(f->codec, rp_str("{\"t\\u0061sk\": {}}"),
                                                 &f->arena, &letter, &f->err),
                     -1);
    assert_says(&f->err, "task: write the name task without escapes");
}

#define JSON_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        JSON_TEST(defaults_may_be_left_out),
        JSON_TEST(defaults_may_be_null),
        JSON_TEST(a_full_event_is_read),
        JSON_TEST(names_may_have_escapes_where_no_text_is_kept),
        JSON_TEST(the_text_of_payload_json_is_kept_byte_for_byte),
        JSON_TEST(a_number_of_the_payload_may_be_of_any_size),
        JSON_TEST(bytes_may_be_text),
        JSON_TEST(names_may_have_a_nul),
        JSON_TEST(numbers_may_be_written_as_scripts_write_them),
        JSON_TEST(half_a_surrogate_pair_does_not_lose_the_event),
        JSON_TEST(the_last_of_two_members_counts),
        JSON_TEST(syntax_errors_say_line_and_column),
        JSON_TEST(what_does_not_fit_says_the_field),
        JSON_TEST(more_items_than_an_event_may_have_are_refused),
        JSON_TEST(a_json_too_deep_is_refused),
        JSON_TEST(a_json_of_too_many_values_is_refused),
        JSON_TEST(every_truncation_is_refused_and_no_flipped_byte_crashes),
        JSON_TEST(a_dead_letter_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
