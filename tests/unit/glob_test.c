/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "glob.h"

static bool match(const char *pattern, const char *text)
{
    return rp_glob_match(pattern, rp_str(text));
}

static void a_star_takes_any_run_and_a_question_mark_one_byte(void **state)
{
    (void)state;
    assert_true(match("orders-*", "orders-eu"));
    assert_true(match("orders-*", "orders-"));
    assert_false(match("orders-*", "orders"));
    assert_true(match("*.SocketTimeoutException", "java.net.SocketTimeoutException"));
    assert_true(match("a*b*c", "aXbXbXc"));
    assert_false(match("a*b*c", "aXbXbXcd"));
    assert_true(match("a?c", "abc"));
    assert_false(match("a?c", "ac"));
    assert_true(match("*", ""));
    assert_true(match("**", "x"));
    assert_true(match("", ""));
    assert_false(match("", "x"));
}

static void a_null_text_matches_nothing(void **state)
{
    (void)state;
    assert_false(rp_glob_match("*", RP_NULL_BYTES));
    assert_false(rp_glob_search("*", RP_NULL_BYTES));
}

static void a_star_in_the_text_is_a_byte_like_any_other(void **state)
{
    (void)state;
    assert_true(match("*net.OpError", "*net.OpError"));
    assert_true(match("a?", "a*"));
    assert_false(match("ab", "a*"));
}

static void a_search_finds_the_words_anywhere_in_either_case(void **state)
{
    (void)state;
    assert_true(rp_glob_search("quota exceeded", rp_str("429: Quota Exceeded for key")));
    assert_true(rp_glob_search("quota*exceeded", rp_str("quota of 5 was EXCEEDED")));
    assert_true(rp_glob_search("429", rp_str("429")));
    assert_true(rp_glob_search("aab", rp_str("aaab")));
    assert_false(rp_glob_search("quota exceeded", rp_str("exceeded quota")));
    assert_false(rp_glob_search("abc", rp_str("ab")));
    assert_true(rp_glob_search("", rp_str("")));
}

static void many_stars_on_a_long_text_end_soon(void **state)
{
    (void)state;
    size_t n = 100000;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    assert_false(rp_glob_match("*a*a*a*a*a*a*a*a*a*a*b", (struct rp_bytes){text, n}));
    assert_false(rp_glob_search("a*a*a*a*a*a*a*a*b", (struct rp_bytes){text, n}));
    free(text);
}

static void literal_bytes_tell_how_specific_a_glob_is(void **state)
{
    (void)state;
    assert_int_equal(rp_glob_literals("java.net.*"), 9);
    assert_int_equal(rp_glob_literals("*?"), 0);
    assert_true(rp_glob_is("a?"));
    assert_true(rp_glob_is("*"));
    assert_false(rp_glob_is("a.b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_takes_any_run_and_a_question_mark_one_byte),
        cmocka_unit_test(a_null_text_matches_nothing),
        cmocka_unit_test(a_star_in_the_text_is_a_byte_like_any_other),
        cmocka_unit_test(a_search_finds_the_words_anywhere_in_either_case),
        cmocka_unit_test(many_stars_on_a_long_text_end_soon),
        cmocka_unit_test(literal_bytes_tell_how_specific_a_glob_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
