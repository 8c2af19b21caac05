/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "diff.h"

static bool diff(const char *before, const char *after, char out[2000])
{
    memset(out, 0, 2000);
    FILE *f = fmemopen(out, 2000, "w");
    assert_non_null(f);
    bool differs = cli_diff_text(f, rp_str(before), rp_str(after));
    assert_int_equal(fclose(f), 0);
    return differs;
}

static void check(const char *before, const char *after, const char *expected)
{
    char out[2000];
    assert_true(diff(before, after, out));
    assert_string_equal(out, expected);
}

static void the_same_text_shows_nothing(void **state)
{
    (void)state;
    char out[2000];
    assert_false(diff("a\nb", "a\nb", out));
    assert_string_equal(out, "");
}

static void changed_lines_stand_together(void **state)
{
    (void)state;
    check("a\nb\nc", "a\nx\ny\nc", "  a\n- b\n+ x\n+ y\n  c\n");
    check("a\nb\nc\nd", "b\nc\nd\ne", "- a\n  b\n  c\n  d\n+ e\n");
    check("", "a", "+ a\n");
    check("a", "", "- a\n");
}

static void what_is_far_away_is_left_out(void **state)
{
    (void)state;
    check("1\n2\n3\n4\n5\n6\n7\nx\n1\n2\n3\n4\n5\ny", "1\n2\n3\n4\n5\n6\n7\nX\n1\n2\n3\n4\n5\nY",
          "  ...\n  5\n  6\n  7\n- x\n+ X\n  1\n  2\n  3\n  4\n  5\n- y\n+ Y\n");
}

static void nothing_reaches_the_terminal_raw(void **state)
{
    (void)state;
    check("a", "\033[2J\xc2\x9b\xe2\x80\xae", "- a\n+ \\x1b[2J\\u009b\\u202e\n");
}

static bool terminal;

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    (void)fd;
    return terminal;
}

static void a_terminal_has_colours(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("NO_COLOR"), 0);
    terminal = true;
    check("a\nb", "a\nc", "  a\n\033[31m- b\033[0m\n\033[32m+ c\033[0m\n");
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    check("a\nb", "a\nc", "  a\n- b\n+ c\n");
    terminal = false;
}

#define MANY 2100

/* Even where all of the middle is the same, but for its order. */
static void what_is_too_much_to_compare_is_exchanged_whole(void **state)
{
    (void)state;
    static char before[MANY * 6], after[MANY * 6], out[MANY * 16];
    size_t n = 0;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(before + 5 * i, 6, "%04d\n", i);
        (void)snprintf(after + 5 * i, 6, "%04d\n", (i + 1) % MANY);
    }
    FILE *f = fmemopen(out, sizeof out, "w");
    assert_non_null(f);
    assert_true(cli_diff_text(f, rp_str(before), rp_str(after)));
    assert_int_equal(fclose(f), 0);
    for (const char *p = out; (p = strchr(p, '\n')) != NULL; p++)
        n++;
    assert_int_equal(n, 2 * MANY);
    assert_memory_equal(out, "- 0000\n- 0001\n", 14);
}

static void messages_are_compared_as_people_read_them(void **state)
{
    (void)state;
    char out[2000] = "";
    struct rp_message_reader *reader;
    struct rp_error err;
    bool changed = false;
    const struct rp_header header = {rp_str("h"), RP_NULL_BYTES};
    const struct rp_message before = {.target = "orders", .payload = rp_str("{\"a\":1.0}")};
    const struct rp_message after = {
        .target = "orders", .payload = rp_str("{\"a\":2}"), .headers = &header, .n_headers = 1};
    FILE *f = fmemopen(out, sizeof out, "w");
    assert_int_equal(rp_message_reader_new(NULL, NULL, &reader, &err), 0);
    assert_int_equal(cli_diff_print(f, reader, &before, &after, &changed, &err), 0);
    assert_int_equal(fclose(f), 0);
    assert_true(changed);
    assert_string_equal(out, "  {\n    \"target\": \"orders\",\n    \"key\": null,\n"
                             "-   \"headers\": [],\n"
                             "+   \"headers\": [\n+     {\n+       \"key\": \"h\",\n"
                             "+       \"value\": null\n+     }\n+   ],\n"
                             "    \"payload\": {\n-     \"a\": 1.0\n+     \"a\": 2\n    }\n  }\n");
    rp_message_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_text_shows_nothing),
        cmocka_unit_test(changed_lines_stand_together),
        cmocka_unit_test(what_is_far_away_is_left_out),
        cmocka_unit_test(nothing_reaches_the_terminal_raw),
        cmocka_unit_test(a_terminal_has_colours),
        cmocka_unit_test(what_is_too_much_to_compare_is_exchanged_whole),
        cmocka_unit_test(messages_are_compared_as_people_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
