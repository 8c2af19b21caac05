/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pgtext.h"

#define BYTES(s) ((struct rp_bytes){s, sizeof s - 1})

static void escapes_to(struct rp_bytes text, size_t max, const char *expected)
{
    struct rp_buf out = {0};
    assert_int_equal(pgtext_escape(&out, text, max, NULL), 0);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.data, expected, out.len);
    rp_buf_clear(&out);
}

static void text_is_stored_as_it_is(void **state)
{
    (void)state;
    assert_true(pgtext_fits(BYTES(""), 10));
    assert_true(pgtext_fits(BYTES("a\\b\x01\n"), 10));
    assert_true(pgtext_fits(BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 10));
}

static void what_postgresql_refuses_does_not_fit(void **state)
{
    (void)state;
    assert_false(pgtext_fits(BYTES("a\0b"), 10));
    assert_false(pgtext_fits(BYTES("\xff"), 10));
    assert_false(pgtext_fits(BYTES("\xc0\x80"), 10));         /* overlong */
    assert_false(pgtext_fits(BYTES("\xed\xa0\x80"), 10));     /* a surrogate */
    assert_false(pgtext_fits(BYTES("\xf4\x90\x80\x80"), 10)); /* over U+10FFFF */
    assert_false(pgtext_fits(BYTES("a\xe2\x82"), 10));        /* cut short */
    assert_false(pgtext_fits(BYTES("abc"), 2));
}

/* Eight bytes are looked at together. */
static void what_is_refused_is_found_wherever_it_stands(void **state)
{
    (void)state;
    for (size_t at = 0; at < 20; at++)
        for (int byte = 0; byte < 256; byte++) {
            char text[20];
            memset(text, 'a', sizeof text);
            text[at] = (char)byte;
            assert_int_equal(pgtext_fits((struct rp_bytes){text, sizeof text}, sizeof text),
                             byte > 0 && byte < 0x80);
        }
    assert_true(pgtext_fits(BYTES("aaaaaaaaaaaaaaaaaa\xc3\xa9"), 20));
}

static void bytes_that_are_no_text_are_written_in_hex(void **state)
{
    (void)state;
    escapes_to(BYTES("a\0b\xff\xc3\xa9"), 100, "a\\x00b\\xFF\xc3\xa9");
}

static void a_backslash_is_doubled_where_something_is_escaped(void **state)
{
    (void)state;
    escapes_to(BYTES("\\x00\0"), 100, "\\\\x00\\x00");
}

static void long_text_is_cut_and_keeps_its_backslashes(void **state)
{
    (void)state;
    escapes_to(BYTES("a\\bcdef"), 4, "a\\bc");
}

static void a_cut_leaves_characters_and_escapes_whole(void **state)
{
    (void)state;
    escapes_to(BYTES("ab\xe2\x82\xac"), 4, "ab");
    escapes_to(BYTES("ab\xff"), 5, "ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_stored_as_it_is),
        cmocka_unit_test(what_postgresql_refuses_does_not_fit),
        cmocka_unit_test(what_is_refused_is_found_wherever_it_stands),
        cmocka_unit_test(bytes_that_are_no_text_are_written_in_hex),
        cmocka_unit_test(a_backslash_is_doubled_where_something_is_escaped),
        cmocka_unit_test(long_text_is_cut_and_keeps_its_backslashes),
        cmocka_unit_test(a_cut_leaves_characters_and_escapes_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
