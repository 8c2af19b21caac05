/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "json_text.h"
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
    /* No parser's numbers and strings hold these. */
    assert_string_equal(shown(rp_str("[18446744073709551616,\"\\ud800\"]"), PAYLOAD_JSON),
                        "> [\n>   18446744073709551616,\n>   \"\\ud800\"\n> ]\n");
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
    for (size_t begin = 0; begin < 3; begin++) { /* wherever it is cut, it is text */
        memset(bytes, 'x', begin);
        for (size_t i = begin; i < sizeof bytes; i++)
            bytes[i] = "\xe2\x82\xac"[(i - begin) % 3];
        assert_non_null(strstr(shown(payload, PAYLOAD_AUTO), "\xe2\x82\xac\n"));
    }
    memset(bytes, 'x', sizeof bytes);
    assert_null(strstr(shown(payload, PAYLOAD_TEXT), cut));
    assert_int_equal(strspn(out + 2, "x"), 5000);
}

static void what_is_deep_is_not_laid_out_at_length(void **state)
{
    (void)state;
    enum { DEPTH = 2000, WIDTH = 10000 };
    static char json[2 * DEPTH + 2 * WIDTH + 1];
    struct rp_buf pretty = {0};
    struct rp_error err;
    memset(json, '[', DEPTH);
    for (size_t i = 0; i < WIDTH; i++)
        memcpy(json + DEPTH + 2 * i, "0,", 2);
    json[DEPTH + 2 * WIDTH - 1] = ' ';
    memset(json + DEPTH + 2 * WIDTH, ']', DEPTH);
    assert_int_equal(rp_json_pretty(&pretty, rp_str(json), "", &err), 0);
    assert_in_range(pretty.len, sizeof json, 150 * (2 * DEPTH + WIDTH));
    rp_buf_clear(&pretty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_payload_is_shown_in_the_form_that_says_most),
        cmocka_unit_test(a_form_that_is_asked_for_is_taken),
        cmocka_unit_test(what_nobody_asked_for_in_full_is_cut),
        cmocka_unit_test(what_is_deep_is_not_laid_out_at_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
