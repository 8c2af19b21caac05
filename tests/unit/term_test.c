/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "term.h"

#define BYTES(s) ((struct rp_bytes){s, sizeof s - 1})

static void line_is(struct rp_bytes text, size_t max, const char *expected, size_t characters)
{
    struct rp_buf out = {0};
    assert_int_equal(term_line(&out, text, max), characters);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.data, expected, out.len);
    rp_buf_clear(&out);
}

typedef void printer(FILE *out, struct rp_bytes bytes);

static void prints(printer *print, struct rp_bytes bytes, const char *expected)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    print(out, bytes);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void as_text(FILE *out, struct rp_bytes bytes)
{
    term_text(out, bytes, "> ");
}

static void as_hex(FILE *out, struct rp_bytes bytes)
{
    term_hex(out, bytes, "");
}

static void text_is_shown_as_it_is(void **state)
{
    (void)state;
    line_is(BYTES("caf\xc3\xa9 \xe2\x82\xac"), 10, "caf\xc3\xa9 \xe2\x82\xac", 6);
}

static void what_drives_a_terminal_is_escaped(void **state)
{
    (void)state;
    line_is(BYTES("a\x1b[2Jb"), 20, "a\\x1b[2Jb", 9);
    line_is(BYTES("a\0\x7f\n\t"), 20, "a\\x00\\x7f\\n\\t", 13);
    line_is(BYTES("\xc2\x9b"), 20, "\\u009b", 6);                       /* CSI in one character */
    line_is(BYTES("\xe2\x80\xae"), 20, "\\u202e", 6);                   /* right to left */
    line_is(BYTES("\xf3\xa0\x81\x81"), 20, "\\U000e0041", 10);          /* an invisible tag */
    line_is(BYTES("\xff\xed\xa0\x80"), 20, "\\xff\\xed\\xa0\\x80", 16); /* no UTF-8 */
}

static void a_long_line_ends_in_an_ellipsis(void **state)
{
    (void)state;
    line_is(BYTES("abcdef"), 6, "abcdef", 6);
    line_is(BYTES("abcdefg"), 6, "abcde\xe2\x80\xa6", 6);
    line_is(BYTES("abcd\x1b\x1b"), 6, "abcd\xe2\x80\xa6", 5);
}

static void text_keeps_its_lines_behind_the_indent(void **state)
{
    (void)state;
    prints(as_text, BYTES("a\n\tb\x1b\r\n"), "> a\n> \tb\\x1b\\r\n");
    prints(as_text, BYTES("a"), "> a\n");
    prints(as_text, BYTES(""), "\n");
}

static void json_stays_json_and_is_escaped_as_json(void **state)
{
    (void)state;
    prints(term_json, BYTES("{\"a\":\"\xc2\x9b\xf3\xa0\x81\x81\x7f\xc3\xa9\"}"),
           "{\"a\":\"\\u009b\\udb40\\udc41\\u007f\xc3\xa9\"}");
}

static void a_hex_dump_shows_offsets_bytes_and_letters(void **state)
{
    (void)state;
    prints(as_hex, BYTES("0123456789abcdef\x1b~"),
           "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\n"
           "00000010  1b 7e                                            .~\n");
}

static void what_needs_an_escape_is_not_readable(void **state)
{
    (void)state;
    assert_true(term_readable(BYTES("a\r\n\tb\xc3\xa9")));
    assert_false(term_readable(BYTES("a\x1b")));
    assert_false(term_readable(BYTES("\xff")));
}

static void the_width_is_the_terminal_s(void **state)
{
    (void)state;
    struct winsize size = {.ws_row = 24, .ws_col = 100};
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    FILE *out = fopen(ptsname(master), "w");
    assert_non_null(out);
    assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
    assert_int_equal(term_width(out), 100);
    size.ws_col = 0; /* as of a serial line */
    assert_int_equal(ioctl(master, TIOCSWINSZ, &size), 0);
    assert_int_equal(term_width(out), 80);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(close(master), 0);
    out = tmpfile();
    assert_int_equal(term_width(out), 0);
    assert_int_equal(fclose(out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_shown_as_it_is),
        cmocka_unit_test(what_drives_a_terminal_is_escaped),
        cmocka_unit_test(a_long_line_ends_in_an_ellipsis),
        cmocka_unit_test(text_keeps_its_lines_behind_the_indent),
        cmocka_unit_test(json_stays_json_and_is_escaped_as_json),
        cmocka_unit_test(a_hex_dump_shows_offsets_bytes_and_letters),
        cmocka_unit_test(what_needs_an_escape_is_not_readable),
        cmocka_unit_test(the_width_is_the_terminal_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
