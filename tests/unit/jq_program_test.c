/* SPDX-License-Identifier: Apache-2.0 */
/* In this process: what transform_test.c tries in a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "codec_fixture.h"
#include "jq_program.h"
#include "memory_fixture.h"

static struct rp_error err;
static struct rp_buf out;

static int run(const char *program, struct rp_bytes json)
{
    struct rp_jq_program *p;
    if (rp_jq_program_new(program, &p, &err) != 0)
        return -1;
    out.len = 0;
    int rc = rp_jq_program_run(p, json, &out, &err);
    rp_jq_program_free(p);
    return rc;
}

static void gives(const char *program, const char *json, const char *expected)
{
    if (run(program, rp_str(json)) != 0)
        fail_msg("%s: %s", program, err.text);
    assert_bytes_equal(rp_buf_bytes(&out), rp_str(expected));
}

static void refused(const char *program, const char *json, enum rp_error_code code, const char *why)
{
    if (run(program, rp_str(json)) == 0)
        fail_msg("%s: gave %.*s", program, (int)out.len, (const char *)out.data);
    assert_int_equal(err.code, code);
    assert_int_equal(err.cls, RP_POISON);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", program, err.text, why);
}

static void what_is_not_touched_stays_as_it_stood(void **state)
{
    (void)state;
    gives(".", " [1.0, {\"a\" : 1e2}]", " [1.0, {\"a\" : 1e2}]");
    gives(".b = 2", "{\"a\":1.50,\"c\":[1.0,2.0]}", "{\"a\":1.50,\"c\":[1.0,2.0],\"b\":2}");
    gives(".[1] = [.[0]]", "[1.0, 2.0, {\"x\": 0.10}]", "[1.0,[1],{\"x\": 0.10}]");
    gives(".a |= {z: .z, y: 1}", "{\"a\": {\"z\": 1.0}}", "{\"a\":{\"z\":1.0,\"y\":1}}");
    gives(".a = {}", "{\"a\": 1.0}", "{\"a\":{}}");
    gives("[.a, true, false, null, {}, [], \"\\u0001\"]", "{\"a\": \"\\u00e4\"}",
          "[\"\xc3\xa4\",true,false,null,{},[],\"\\u0001\"]");
    gives("if .x == \"a\" then {x: [1]} else {x: {y: 1}} end", "{\"x\": \"a\"}", "{\"x\":[1]}");
}

static void a_name_is_known_however_it_is_spelled(void **state)
{
    (void)state;
    gives(".meta.x = 1", "{\"meta\":{\"Gr\\u00f6\\u00dfe\":10.0,\"x\":0}}",
          "{\"meta\":{\"Gr\\u00f6\\u00dfe\":10.0,\"x\":1}}");
    gives(".x = 1", "{\"\\u0041\":1.0,\"\\/\\u001F\":2.0,\"\x7f\":3.0,\"\\ud83d\\uDE00\":4.0}",
          "{\"\\u0041\":1.0,\"\\/\\u001F\":2.0,\"\x7f\":3.0,\"\\ud83d\\uDE00\":4.0,\"x\":1}");
    gives(".\"\xc3\xb6\" = 2 | .a = .b", "{\"\\u00f6\":1.0,\"b\":9007199254740993}",
          "{\"\\u00f6\":2,\"b\":9007199254740993,\"a\":9007199254740993}");
    gives(".a = 1", "{\"\\ud83d\":1.0}", "{\"\\ud83d\":1.0,\"a\":1}");
    gives("{\"\\\\n\": 1}", "{\"\\n\":1.0}", "{\"\\\\n\":1}");
}

static void long_numbers_are_copied_and_not_computed_with(void **state)
{
    (void)state;
    gives("[.[1], .[0]]", "[9007199254740993, {\"a\": 0.10000000000000000000001}]",
          "[{\"a\":0.10000000000000000000001},9007199254740993]");
    gives("{b: .a}", "{\"a\":9007199254740993}", "{\"b\":9007199254740993}");
    refused(".a += 1", "{\"a\":9007199254740993}", RP_E_INVALID,
            "depends on the value of a number");
    refused(".a % 7", "{\"a\":9007199254740993}", RP_E_INVALID, "depends on the value of a number");
    refused(". * 3", "9007199254740991", RP_E_INVALID, "jq rounds from 2^53 on");
    gives("try error(\"x\") catch .", "[9007199254740993]", "\"x\"");
}

static void what_doubles_of_their_size_lose_is_seen(void **state)
{
    (void)state;
    static const struct {
        const char *program, *json;
    } cases[] = {
        {".sum = .price + .fee", "{\"price\":123456789012345678,\"fee\":0.05}"},
        {".sum = .fee - .price", "{\"price\":-123456789012345678,\"fee\":0.05}"},
        {".a += 0.01", "{\"a\":12345678901234567.89}"},
        {".a -= 0.001", "{\"a\":-12345678901234567.89}"},
        {".a |= floor", "{\"a\":12345678901234567.89}"},
        {".a |= floor", "{\"a\":-12345678901234567.89}"},
        {".b = (.a - 0.25)", "{\"a\":4503599627370497.25}"},
        {".b = (.a == (.a|floor))", "{\"a\":4503599627370497.25}"},
        {".a |= (. + 0.4)", "{\"a\":9007199254740993}"},
        {".a |= (. + 0.4)", "{\"a\":9007199254740993,\"at\":1700000000000}"},
        {".a |= floor", "{\"a\":12345678901234567.89,\"at\":1700000000000000}"},
        {".d = .b - .a", "{\"a\":10000000000000001,\"b\":10000000000000002}"},
        {".d = .b - .a", "{\"a\":4503599627370497.25,\"b\":4503599627370497.5}"},
        {".d = .b - .a", "{\"a\":10.000000000000000000001,\"b\":10.000000000000000000002}"},
        {".d = .b - .a", "{\"a\":10.000000000000000000001,\"b\":12.000000000000000000002}"},
        {".[2] = .[1] - .[0]", "[-1e400,1e400,0]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].program, cases[i].json, RP_E_INVALID, "depends on the value of a number");
}

static void their_order_is_no_computation(void **state)
{
    (void)state;
    gives("sort", "[9007199254740993,8123456789012345,1e400,4503599627370497.25,-1,-1e30,7.0]",
          "[-1e30,-1,7,4503599627370497.25,8123456789012345,9007199254740993,1e400]");
    gives("[.[] | select(. > 1700000000000)]", "[9007199254740993,1600000000000,-1e30]",
          "[9007199254740993]");
    gives("[.[] | select(. < -1700000000000)]", "[9007199254740993,-8123456789012345,-1e30]",
          "[-8123456789012345,-1e30]");
    gives("max", "[1700000000000000,1700000000000000.00001,1600000000000000]",
          "1700000000000000.00001");
}

static void a_program_gives_one_result_or_says_why_not(void **state)
{
    (void)state;
    refused("empty", "1", RP_E_NOT_FOUND, "the program gave nothing");
    refused("1, 2", "1", RP_E_INVALID, "more than one result");
    refused("error(\"no\")", "1", RP_E_INVALID, "the program failed: no");
    refused("error({})", "1", RP_E_INVALID, "the program failed");
    refused("1, error(\"later\")", "1", RP_E_INVALID, "the program failed: later");
    refused("halt", "1", RP_E_INVALID, "the program halted");
    refused("input", "1", RP_E_INVALID, "there is no input but the message");
    refused("reduce range(300) as $i (1; [.])", "1", RP_E_INVALID, "nests deeper than 256");
}

static void what_is_no_program_and_no_json_is_refused(void **state)
{
    (void)state;
    refused(".a |", "1", RP_E_INVALID, "the program is no jq: ");
    refused("nothing_like_it", "1", RP_E_INVALID, "nothing_like_it/0 is not defined");
    refused(".", "{\"a\"", RP_E_INVALID, "jq cannot read it: ");
    refused(".", "", RP_E_INVALID, "jq cannot read it: ");
}

static void the_time_is_one_for_all_of_a_message(void **state)
{
    (void)state;
    gives("[now == now, (now | type), .]", "9007199254740993",
          "[true,\"number\",9007199254740993]");
}

static struct rp_jq_program *changing;

static int compile(struct rp_error *e)
{
    struct rp_jq_program *p;
    int rc = rp_jq_program_new(".", &p, e);
    if (rc == 0)
        rp_jq_program_free(p);
    return rc;
}

static int change(struct rp_error *e)
{
    out.len = 0;
    int rc = rp_jq_program_run(changing, rp_str("{\"a\": {\"d\": 1.0}}"), &out, e);
    if (rc == 0)
        assert_bytes_equal(rp_buf_bytes(&out), rp_str("{\"b\":{\"d\":1},\"c\":[{\"d\":1},\"x\"]}"));
    return rc;
}

static void a_message_is_changed_whole_or_there_is_no_memory(void **state)
{
    (void)state;
    assert_true(starve(compile) > 3);
    assert_int_equal(rp_jq_program_new("{b: .a, c: [.a, \"x\"]}", &changing, &err), 0);
    assert_true(starve(change) > 20);
    rp_jq_program_free(changing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_touched_stays_as_it_stood),
        cmocka_unit_test(a_name_is_known_however_it_is_spelled),
        cmocka_unit_test(long_numbers_are_copied_and_not_computed_with),
        cmocka_unit_test(what_doubles_of_their_size_lose_is_seen),
        cmocka_unit_test(their_order_is_no_computation),
        cmocka_unit_test(a_program_gives_one_result_or_says_why_not),
        cmocka_unit_test(what_is_no_program_and_no_json_is_refused),
        cmocka_unit_test(the_time_is_one_for_all_of_a_message),
        cmocka_unit_test(a_message_is_changed_whole_or_there_is_no_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rp_buf_clear(&out);
    return failed;
}
