/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "json_span.h"

static void a_member_is_what_stands_there(void **state)
{
    (void)state;
    static const struct {
        const char *object, *name, *found; /* NULL: nothing is */
    } cases[] = {
        {"{}", "a", NULL},
        {" \t\r\n{ }", "a", NULL},
        {"{\"a\":1}", "a", "1"},
        {"{\"a\":1}", "b", NULL},
        {"{\r\n\t\"a\" :\t-1.5e3\n,\"b\": true }", "a", "-1.5e3"},
        {"{\"a\" : null\t}", "a", "null"},
        {"{\"a\":false\r}", "a", "false"},
        {"{\"b\": {\"a\": 1}, \"a\": [ {\"x\": \"}]\"}, [2] ] , \"c\": 3}", "a",
         "[ {\"x\": \"}]\"}, [2] ]"},
        {"{\"b\": \"\\\"a\\\\\", \"a\": \"\\\\\"}", "a", "\"\\\\\""},
        {"{\"b\": {\"a\": [1, {}]}, \"a\": {}}", "a", "{}"},
        {"{\"a\": 1, \"a\": 2}", "a", "2"},
        {"{\"\": 1}", "", "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_bytes found = rp_json_member(rp_str(cases[i].object), cases[i].name);
        bool same = cases[i].found == NULL ? found.data == NULL
                                           : rp_bytes_equal(found, rp_str(cases[i].found));
        if (!same)
            fail_msg("%s: %.*s", cases[i].object, (int)found.len, (const char *)found.data);
    }
}

static void the_items_of_an_array_have_no_names(void **state)
{
    (void)state;
    static const char *const items[] = {"1", "\"]\"", "[2 ]", "{\"a\":3}"};
    struct rp_json_cursor c;
    struct rp_bytes name, value;
    rp_json_open(rp_str(" [ 1 , \"]\",[2 ] ,{\"a\":3}\n]"), &c);
    for (size_t i = 0; i < 4; i++) {
        assert_true(rp_json_next(&c, &name, &value));
        assert_null(name.data);
        assert_true(rp_bytes_equal(value, rp_str(items[i])));
    }
    assert_false(rp_json_next(&c, &name, &value));
    rp_json_open(rp_str("7"), &c);
    assert_false(rp_json_next(&c, &name, &value));
}

static void what_is_cut_off_ends_where_it_is_cut(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [1, \"\\\"x\"], \"b\" : \"y\\\\\"}";
    for (size_t n = 0; n < sizeof text; n++) {
        struct rp_json_cursor c;
        struct rp_bytes name, value;
        size_t members = 0;
        rp_json_open((struct rp_bytes){text, n}, &c);
        while (rp_json_next(&c, &name, &value)) {
            assert_true((const char *)value.data + value.len <= text + n);
            members++;
        }
        assert_true(members <= 2);
    }
}

struct mending {
    const char *text, *mended; /* NULL: as it was */
};

static void check(bool (*mend)(char *text, size_t len), const struct mending *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[64];
        (void)strcpy(text, cases[i].text);
        bool mended = mend(text, strlen(text));
        assert_string_equal(text, cases[i].mended == NULL ? cases[i].text : cases[i].mended);
        assert_int_equal(mended, cases[i].mended != NULL);
    }
}

static void half_a_surrogate_pair_is_mended(void **state)
{
    (void)state;
    static const struct mending cases[] = {
        {"", NULL},
        {"a", NULL},
        {"\\u00e4", NULL},
        {"\\ud83d\\ude00", NULL},
        {"\\uD83D\\uDE00", NULL},
        {"\\ud83d", "\\ufffd"},
        {"\\ud83dx", "\\ufffdx"},
        {"\\ud83d\\u0041", "\\ufffd\\u0041"},
        {"\\ud83d\\ue000", "\\ufffd\\ue000"},
        {"\\uDBFF\\uDBFF\\uDFFF", "\\ufffd\\uDBFF\\uDFFF"},
        {"\\ude00\\ude00", "\\ufffd\\ufffd"},
        {"\\\\ud83d", NULL},
        {"\\ud83", NULL},
        {"\\ud8g0:x", NULL},
        {"\\ud8G0/x", NULL},
    };
    check(rp_json_mend_surrogates, cases, sizeof cases / sizeof *cases);
    check(rp_json_mend, cases, sizeof cases / sizeof *cases);
}

static void a_nul_in_a_name_is_mended(void **state)
{
    (void)state;
    static const struct mending cases[] = {
        {"{\"a\":\"\\u0000\"}", NULL},
        {"[\"\\u0000\"]", NULL},
        {"{\"a\\u0000b\" :1}", "{\"a\\ufffdb\" :1}"},
        {"{\"\\u0000\\u0000\":{\"\\u0000\":\"\\u0000\"}}",
         "{\"\\ufffd\\ufffd\":{\"\\ufffd\":\"\\u0000\"}}"},
        {"{\"\\\\u0000\":1}", NULL}, /* a backslash, and no escape */
        {"{\"a\\u0000", NULL},
    };
    check(rp_json_mend, cases, sizeof cases / sizeof *cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_is_what_stands_there),
        cmocka_unit_test(the_items_of_an_array_have_no_names),
        cmocka_unit_test(what_is_cut_off_ends_where_it_is_cut),
        cmocka_unit_test(half_a_surrogate_pair_is_mended),
        cmocka_unit_test(a_nul_in_a_name_is_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
