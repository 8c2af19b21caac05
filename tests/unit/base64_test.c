/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base64.h"

/* In memory of its exact size, so that a sanitizer sees a byte too many. */
static void assert_decodes(const char *text, const char *expected, size_t n)
{
    size_t bad;
    uint8_t *out = malloc(rp_base64_room(strlen(text)));
    assert_non_null(out);
    assert_int_equal(rp_base64_decode(rp_str(text), out, &bad), n);
    assert_memory_equal(out, expected, n);
    free(out);
}

static void assert_bad(const char *text, size_t where)
{
    size_t bad;
    uint8_t out[64];
    assert_int_equal(rp_base64_decode(rp_str(text), out, &bad), SIZE_MAX);
    assert_int_equal(bad, where);
}

static void the_vectors_of_rfc_4648_decode(void **state)
{
    (void)state;
    assert_decodes("", "", 0);
    assert_decodes("Zg==", "f", 1);
    assert_decodes("Zm8=", "fo", 2);
    assert_decodes("Zm9v", "foo", 3);
    assert_decodes("Zm9vYg==", "foob", 4);
    assert_decodes("Zm9vYmE=", "fooba", 5);
    assert_decodes("Zm9vYmFy", "foobar", 6);
}

static void padding_may_be_left_out(void **state)
{
    (void)state;
    assert_decodes("Zg", "f", 1);
    assert_decodes("Zm8", "fo", 2);
}

static void both_alphabets_decode(void **state)
{
    (void)state;
    assert_decodes("+/+/", "\xfb\xff\xbf", 3);
    assert_decodes("-_-_", "\xfb\xff\xbf", 3);
}

static void broken_lines_decode(void **state)
{
    (void)state;
    assert_decodes("Zm9v\nYmE=\n", "fooba", 5);
}

static void what_is_no_base64_is_refused(void **state)
{
    (void)state;
    assert_bad("Zm9v!", 4);
    assert_bad("Z", 1);
    assert_bad("Zg=", 2);
    assert_bad("Zm8==", 3);
    assert_bad("Zg==Zg==", 2);
    assert_bad("{\"a\": 1}", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_rfc_4648_decode), cmocka_unit_test(padding_may_be_left_out),
        cmocka_unit_test(both_alphabets_decode),          cmocka_unit_test(broken_lines_decode),
        cmocka_unit_test(what_is_no_base64_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
