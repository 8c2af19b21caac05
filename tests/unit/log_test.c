/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

/* What was logged since capture_begin, in a terminated buffer. */
static char captured[1 << 16];
static int saved_stderr;
static FILE *capture_file;

static int capture_begin(void **state)
{
    (void)state;
    capture_file = tmpfile();
    saved_stderr = dup(STDERR_FILENO);
    return capture_file != NULL && dup2(fileno(capture_file), STDERR_FILENO) >= 0 ? 0 : -1;
}

static const char *logged(void)
{
    ssize_t n = pread(fileno(capture_file), captured, sizeof captured - 1, 0);
    captured[n < 0 ? 0 : n] = '\0';
    return captured;
}

static int capture_end(void **state)
{
    (void)state;
    (void)fclose(capture_file);
    int rc = dup2(saved_stderr, STDERR_FILENO);
    (void)close(saved_stderr);
    return rc < 0 ? -1 : 0;
}

/* The line behind its time stamp. */
static const char *text_of_line(void)
{
    const char *line = logged();
    assert_true(strlen(line) > strlen("2026-11-21T03:35:10.123Z "));
    assert_int_equal(line[10], 'T');
    assert_int_equal(line[23], 'Z');
    return line + strlen("2026-11-21T03:35:10.123Z ");
}

static void a_line_has_level_service_event_and_pairs(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, false, "reprise-router");
    rp_log(RP_LOG_WARN, "target-missing", rp_f_str("topic", "orders"), rp_f_int("offset", -7));
    assert_string_equal(text_of_line(),
                        "warn  reprise-router target-missing topic=orders offset=-7\n");
}

static void an_event_needs_no_fields(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, false, "s");
    rp_log(RP_LOG_INFO, "started");
    assert_string_equal(text_of_line(), "info  s started\n");
}

static void what_is_below_the_level_is_not_written(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_WARN, false, "s");
    rp_log(RP_LOG_INFO, "quiet");
    rp_log_setup(RP_LOG_ERROR + 1, false, "s");
    rp_log(RP_LOG_ERROR, "quiet");
    assert_string_equal(logged(), "");
}

static void values_cannot_break_a_line_or_reach_a_terminal(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, false, "s");
    rp_log(RP_LOG_INFO, "e", rp_f_str("v", "a\nlevel=error \x1b[31m\"\\\xc2\x9b\xe2\x80\xae"));
    assert_string_equal(text_of_line(),
                        "info  s e v=\"a\\nlevel=error \\u001b[31m\\\"\\\\\\u009b\\u202e\"\n");
}

/* What has no width, or turns the line's direction, and the characters next to it. */
static void what_cannot_be_seen_is_escaped(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, false, "s");
    rp_log(RP_LOG_INFO, "e",
           rp_f_str("v", "\x7f\xc2\xa0|\xe2\x80\x8a\xe2\x80\x8b\xe2\x80\x8f\xe2\x80\x90|"
                         "\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf|"
                         "\xe2\x81\xa0\xe2\x81\xaf\xe2\x81\xb0|\xef\xbb\xbf"));
    assert_string_equal(text_of_line(),
                        "info  s e v=\"\\u007f\xc2\xa0|\xe2\x80\x8a\\u200b\\u200f\xe2\x80\x90|"
                        "\\u2028\\u202e\xe2\x80\xaf|\\u2060\\u206f\xe2\x81\xb0|\\ufeff\"\n");
}

static void null_empty_and_spaces_can_be_told_apart(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, false, "s");
    rp_log(RP_LOG_INFO, "e", rp_f_str("a", NULL), rp_f_str("b", ""), rp_f_str("c", "x y"),
           rp_f_str("d", "k=v"), rp_f_str("e", "x\"y"), rp_f_str("f", "x\\y"));
    assert_string_equal(text_of_line(), "info  s e a=null b=\"\" c=\"x y\" d=\"k=v\""
                                        " e=\"x\\\"y\" f=\"x\\\\y\"\n");
}

static void utf8_is_kept_and_other_bytes_are_replaced(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, false, "s");
    rp_log(RP_LOG_INFO, "e",
           rp_f_str("v", "gr\xc3\xbc\xc3\x9f"
                         "e \xff\xc3"));
    assert_string_equal(text_of_line(), "info  s e v=\"gr\xc3\xbc\xc3\x9f"
                                        "e \xef\xbf\xbd\xef\xbf\xbd\"\n");
}

static void a_long_value_is_cut(void **state)
{
    (void)state;
    char value[10000];
    memset(value, 'x', sizeof value);
    rp_log_setup(RP_LOG_INFO, false, "s");
    rp_log(RP_LOG_INFO, "e", rp_f_bytes("v", (struct rp_bytes){value, sizeof value}),
           rp_f_int("after", 1));
    const char *line = text_of_line();
    assert_non_null(strstr(line, "xxx...\" after=1\n"));
    assert_true(strlen(line) < 600);
}

static json_t *parse_line(void)
{
    json_error_t error;
    json_t *line = json_loads(logged(), JSON_ALLOW_NUL, &error);
    if (line == NULL)
        fail_msg("%s: %s", error.text, logged());
    return line;
}

static void a_json_line_is_one_object_whatever_the_bytes(void **state)
{
    (void)state;
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    rp_log_setup(RP_LOG_INFO, true, "reprise-router");
    rp_log(RP_LOG_ERROR, "e", rp_f_bytes("v", (struct rp_bytes){bytes, sizeof bytes}),
           rp_f_str("none", NULL), rp_f_int("n", INT64_MIN));
    json_t *line = parse_line();
    assert_string_equal(json_string_value(json_object_get(line, "level")), "error");
    assert_string_equal(json_string_value(json_object_get(line, "service")), "reprise-router");
    assert_string_equal(json_string_value(json_object_get(line, "event")), "e");
    assert_true(json_is_null(json_object_get(line, "none")));
    assert_true(json_integer_value(json_object_get(line, "n")) == INT64_MIN);
    json_decref(line);
}

/* 20 fields of 500 escaped bytes do not fit into a line. */
static void log_too_much(void)
{
    char value[500];
    memset(value, '\x01', sizeof value);
    struct rp_field fields[21] = {0};
    for (int i = 0; i < 20; i++)
        fields[i] = rp_f_bytes("v", (struct rp_bytes){value, i < 3 ? 100 : sizeof value});
    rp_log_fields(RP_LOG_INFO, "e", fields);
}

static void a_full_line_drops_fields_whole_and_says_so(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, true, "s");
    log_too_much();
    assert_true(strlen(logged()) <= 4096);
    json_t *line = parse_line();
    assert_true(json_is_true(json_object_get(line, "truncated")));
    json_decref(line);
}

static void a_full_text_line_ends_with_a_newline(void **state)
{
    (void)state;
    rp_log_setup(RP_LOG_INFO, false, "s");
    log_too_much();
    const char *line = text_of_line();
    assert_string_equal(line + strlen(line) - strlen("\" truncated=true\n"), "\" truncated=true\n");
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, capture_begin, capture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(a_line_has_level_service_event_and_pairs),
        LOG_TEST(an_event_needs_no_fields),
        LOG_TEST(what_is_below_the_level_is_not_written),
        LOG_TEST(values_cannot_break_a_line_or_reach_a_terminal),
        LOG_TEST(what_cannot_be_seen_is_escaped),
        LOG_TEST(null_empty_and_spaces_can_be_told_apart),
        LOG_TEST(utf8_is_kept_and_other_bytes_are_replaced),
        LOG_TEST(a_long_value_is_cut),
        LOG_TEST(a_json_line_is_one_object_whatever_the_bytes),
        LOG_TEST(a_full_line_drops_fields_whole_and_says_so),
        LOG_TEST(a_full_text_line_ends_with_a_newline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
