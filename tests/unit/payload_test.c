/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "payload.h"

static char out[40000];

static const char *shown(struct rp_bytes bytes, enum payload_form form)
{
    memset(out, 0, sizeof out);
    FILE *f = fmemopen(out, sizeof out, "w");
    assert_non_null(f);
    payload_print(f, bytes, form, "> ");
    assert_int_equal(fclose(f), 0);
    return out;
}

static void a_payload_is_shown_in_the_form_that_says_most(void **state)
{
    (void)state;
    static const struct {
        const char *payload, *shown;
    } cases[] = {
        {"{}", "> {}\n"},
        {"[ ]", "> []\n"},
        {"{\"a\":[1,{\"b\":\"\\\"}\\\\\"}],\"c\":{}}",
         "> {\n>   \"a\": [\n>     1,\n>     {\n>       \"b\": \"\\\"}\\\\\"\n>     }\n>   ],\n"
         ">   \"c\": {}\n> }\n"},
        {"{\"a\"", "> {\"a\"\n"},
        {"1", "> 1\n"},
        {"a\nb", "> a\n> b\n"},
        {"\x01", "> 00000000  01                                               .\n"},
        {"", "\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(shown(rp_str(cases[i].payload), PAYLOAD_AUTO), cases[i].shown);
    assert_string_equal(shown(RP_NULL_BYTES, PAYLOAD_AUTO), "");
}

static void a_form_that_is_asked_for_is_taken(void **state)
{
    (void)state;
    assert_string_equal(shown(rp_str("{\"a\":1}"), PAYLOAD_TEXT), "> {\"a\":1}\n");
    assert_string_equal(shown(rp_str("1"), PAYLOAD_JSON), "> 1\n");
    assert_string_equal(shown(rp_str("{"), PAYLOAD_JSON),
                        "> (is no JSON; see --payload text or hex)\n");
    assert_memory_equal(shown(rp_str("a"), PAYLOAD_HEX), "> 00000000  61", 14);
}

static void what_nobody_asked_for_in_full_is_cut(void **state)
{
    (void)state;
    static const char cut[] = "(cut; --payload text, json or hex shows all)\n";
    static char bytes[5000];
    const struct rp_bytes payload = {bytes, sizeof bytes};
    memset(bytes, '[', sizeof bytes);
    assert_non_null(strstr(shown(payload, PAYLOAD_AUTO), cut));
    assert_int_equal(strspn(out + 2, "["), 4096);
    memset(bytes, 1, sizeof bytes);
    assert_non_null(strstr(shown(payload, PAYLOAD_AUTO), cut));
    assert_non_null(strstr(out, "> 00000ff0 "));
    assert_null(strstr(out, "> 00001000 "));
    memset(bytes, 'x', sizeof bytes);
    assert_null(strstr(shown(payload, PAYLOAD_TEXT), cut));
    assert_int_equal(strspn(out + 2, "x"), 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_payload_is_shown_in_the_form_that_says_most),
        cmocka_unit_test(a_form_that_is_asked_for_is_taken),
        cmocka_unit_test(what_nobody_asked_for_in_full_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
