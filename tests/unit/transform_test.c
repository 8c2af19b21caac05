/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "codec_fixture.h"
#include "transform.h"

static struct rp_arena arena;
static struct rp_error err;

static const struct rp_header trace[] = {
    {{"trace", 5}, {"a", 1}},
    {{"trace", 5}, {"b", 1}},
    {{"none", 4}, {NULL, 0}},
    {{"raw", 3}, {"\x00\xff", 2}},
};

static struct rp_message message(const char *payload)
{
    return (struct rp_message){
        .target = "orders",
        .key = rp_str("k-1"),
        .payload = rp_str(payload),
        .headers = trace,
        .n_headers = 4,
    };
}

static struct rp_transform *compile(const char *jq)
{
    struct rp_transform *t;
    if (rp_transform_new(&(struct rp_transform_options){.jq = jq, .cpu_ms = 1000}, &t, &err) != 0)
        fail_msg("%s", err.text);
    return t;
}

static int apply(const char *jq, const struct rp_message *in, struct rp_message *out)
{
    struct rp_transform *t = compile(jq);
    int rc = rp_transform_apply(t, in, "{\"id\": \"t-1\", \"attempts\": 3}", &arena, out, &err);
    rp_transform_free(t);
    return rc;
}

static void check_payload(const char *jq, const char *payload, const char *expected)
{
    struct rp_message in = message(payload), out;
    if (apply(jq, &in, &out) != 0)
        fail_msg("%s: %s", jq, err.text);
    assert_bytes_equal(out.payload, rp_str(expected));
    assert_string_equal(out.target, "orders");
    assert_bytes_equal(out.key, in.key);
    assert_int_equal(out.n_headers, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_bytes_equal(out.headers[i].key, trace[i].key);
        assert_bytes_equal(out.headers[i].value, trace[i].value);
    }
}

static void check_refused(const char *jq, const char *payload, const char *why)
{
    struct rp_message in = message(payload), out;
    if (apply(jq, &in, &out) == 0)
        fail_msg("%s: gave %.*s", jq, (int)out.payload.len, (const char *)out.payload.data);
    assert_int_equal(err.cls, RP_POISON);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", jq, err.text, why);
}

static void what_is_not_touched_stays_byte_for_byte(void **state)
{
    (void)state;
    static const char *const payloads[] = {
        " {\"a\" : 10.10,\n \"b\":[1.0, 1e2, -0]} ",
        "{\"id\":9007199254740993,\"huge\":123456789012345678901234567890,\"a\":1e400}",
        "{\"s\":\"\\u00e4\\/\\ud83d\\ude00\",\"twice\":1,\"twice\":2,\"half\":\"\\ud800\"}",
        "\"a string\"",
        "17",
        "null",
        "no JSON \xe2\x82\xac",
        "",
    };
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++)
        check_payload(".", payloads[i], payloads[i]);
}

static void only_what_the_program_changes_changes(void **state)
{
    (void)state;
    check_payload(".payload.b = 2", "{\"a\": 10.10, \"b\": 1, \"c\": [1.0, 1E5, {\"d\": -0.0 }]}",
                  "{\"a\":10.10,\"b\":2,\"c\":[1.0, 1E5, {\"d\": -0.0 }]}");
    check_payload(".payload.list[1] *= 2", "{\"list\":[1.50,2.50,3.50]}",
                  "{\"list\":[1.50,5,3.50]}");
    check_payload("del(.payload.b)", "{\"b\":1,\"a\":2.0}", "{\"a\":2.0}");
    check_payload(".payload.z = .payload.a", "{\"a\":\"\\u0000\\n\\u007f\\\"\"}",
                  "{\"a\":\"\\u0000\\n\\u007f\\\"\",\"z\":\"\\u0000\\n\\u007f\\\"\"}");
}

static void numbers_beyond_a_double_are_moved_whole(void **state)
{
    (void)state;
    check_payload(".payload.b = 2", "{\"id\":9007199254740993,\"b\":1}",
                  "{\"id\":9007199254740993,\"b\":2}");
    check_payload(".payload = {new: .payload.id, parent: .payload.up}",
                  "{\"id\":9007199254740993,\"up\":9007199254740992}",
                  "{\"new\":9007199254740993,\"parent\":9007199254740992}");
    check_payload(".payload |= [.[] | select(. > 5)] | .payload |= sort",
                  "[9007199254740995,3,9007199254740993,-9007199254740993,9007199254740994]",
                  "[9007199254740993,9007199254740994,9007199254740995]");
    check_payload(".payload.a = .payload.b", "{\"a\":1,\"b\":0.10000000000000000000000001}",
                  "{\"a\":0.10000000000000000000000001,\"b\":0.10000000000000000000000001}");
    check_payload(".payload |= [.[1], .[0]]", "[1e400,-1e-400]", "[-1e-400,1e400]");
    check_payload(".payload.same = (.payload.a == .payload.b)",
                  "{\"a\":9007199254740993,\"b\":9007199254740992}",
                  "{\"a\":9007199254740993,\"b\":9007199254740992,\"same\":false}");
}

static void a_program_that_computes_with_them_is_refused(void **state)
{
    (void)state;
    static const char payload[] = "{\"id\":9007199254740993,\"a\":9007199254740991}";
    static const char *const programs[] = {
        ".payload.id += 1",
        ".payload.id |= tostring",
        ".payload.text = \"id-\\(.payload.id)\"",
        ".headers += [{key: \"id\", value: (.payload.id | @base64)}]",
        "if .payload.id == 9007199254740993 then .payload.a = 1 else . end",
        "if .payload.id == 9007199254740992 then .payload.a = 1 else . end",
        "if .payload.id % 2 == 0 then .payload.a = 1 else . end",
        "if .payload.id == 9007199254740992 then error(\"x\") else . end",
        "if .payload.id == 9007199254740992 then empty else . end",
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        check_refused(programs[i], payload, "9007199254740993");
    check_refused(".payload.a *= 4", payload, "2^53");
    check_refused(".payload.a = 12345678901234567890", payload, "2^53");
    check_refused(".payload.a = nan", "{\"a\":1}", "JSON");
}

static void a_clock_does_not_make_two_runs_differ(void **state)
{
    (void)state;
    check_payload(".payload.late = (now > 1e9)", "{\"id\":9007199254740993}",
                  "{\"id\":9007199254740993,\"late\":true}");
}

static void headers_key_and_target_can_be_changed(void **state)
{
    (void)state;
    struct rp_message in = message("{}"), out;
    assert_int_equal(apply(".target = \"other\" | .key = {base64: \"AP8=\"} | .headers |="
                           " [.[3], {key: \"t\", value: null}, .[0]]",
                           &in, &out),
                     0);
    assert_string_equal(out.target, "other");
    assert_bytes_equal(out.key, (struct rp_bytes){"\x00\xff", 2});
    assert_int_equal(out.n_headers, 3);
    assert_bytes_equal(out.headers[0].value, (struct rp_bytes){"\x00\xff", 2});
    assert_null(out.headers[1].value.data);
    assert_bytes_equal(out.headers[2].value, rp_str("a"));
    assert_bytes_equal(out.payload, in.payload);
}

static void nulls_and_bytes_stay_what_they_are(void **state)
{
    (void)state;
    struct rp_message in = {.payload = {"\x00\xfe\xff", 3}}, out;
    assert_int_equal(apply(".", &in, &out), 0);
    assert_null(out.target);
    assert_null(out.key.data);
    assert_bytes_equal(out.payload, in.payload);
    assert_int_equal(apply(".payload.base64 = \"AAE=\"", &in, &out), 0);
    assert_bytes_equal(out.payload, (struct rp_bytes){"\x00\x01", 2});
    in.payload = RP_NULL_BYTES;
    assert_int_equal(apply(".key = \"k\"", &in, &out), 0);
    assert_null(out.payload.data);
}

static void text_stays_text(void **state)
{
    (void)state;
    check_payload(".payload |= ascii_upcase", "plain text", "PLAIN TEXT");
    check_refused(".payload = {a: 1}", "plain text", "payload must be a string");
}

static void a_result_that_is_no_message_is_refused(void **state)
{
    (void)state;
    check_refused(".payload", "{}", "has no");
    check_refused("1", "{}", "must be an object");
    check_refused("del(.headers)", "{}", "has no 'headers'");
    check_refused(".paylod = 1", "{}", "'paylod' that means nothing");
    check_refused(".task.attempts = 0", "{}", "task can only be read");
    check_refused(".headers[0].value = 1", "{}", "headers[0].value must be a string");
    check_refused(".headers[0].x = 1", "{}", "headers[0] has a member 'x'");
    check_refused(".headers[1].key = null", "{}", "headers[1].key must be text");
    check_refused(".key.base64 = \"!\" ", "{}", "failed");
    check_refused(".key = {base64: \"!\"}", "{}", "key is no base64");
    check_refused(".target = 5", "{}", "target must be");
    check_refused("., .", "{}", "more than one");
    check_refused("empty", "{}", "gave nothing");
    check_refused("error(\"no way\")", "{}", "no way");
    check_refused("halt", "{}", "halted");
    check_refused(".payload.a = 3", "{\"b\":1,\"b\":2}", "names a member twice");
    check_refused(".payload.a = 3", "{\"b\":\"\\ud800\"}", "half a surrogate");
}

static void what_gives_nothing_has_a_code_of_its_own(void **state)
{
    (void)state;
    struct rp_message in = message("{}"), out;
    assert_int_equal(apply("empty", &in, &out), -1);
    assert_int_equal(err.code, RP_E_NOT_FOUND);
}

static void a_program_that_is_no_jq_is_told_at_once(void **state)
{
    (void)state;
    static const char *const programs[] = {
        ".payload.",        "nosuch", ". | (", "import \"a\" as a; .",
        "include \"a\"; .", ". )",    "$ENV.", ""};
    struct rp_transform *t;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        struct rp_transform_options o = {.jq = programs[i]};
        assert_int_equal(rp_transform_new(&o, &t, &err), -1);
        assert_int_equal(err.cls, RP_POISON);
        assert_non_null(strstr(err.text, "the program is no jq: "));
        assert_null(t);
    }
}

static void a_comment_at_the_end_is_harmless(void **state)
{
    (void)state;
    check_payload("# first\n.payload.a = 1 # last", "{}", "{\"a\":1}");
    check_payload("def f: 2; .payload.a = f", "{}", "{\"a\":2}");
}

static void an_endless_program_costs_one_message(void **state)
{
    (void)state;
    struct rp_transform *t = compile("if .payload.end then . else def f: f; f end");
    struct rp_message in = message("{}"), good = message("{\"end\": 1}"), out;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rp_transform_apply(t, &good, NULL, &arena, &out, &err), 0);
        assert_int_equal(rp_transform_apply(t, &in, NULL, &arena, &out, &err), -1);
        assert_int_equal(err.cls, RP_POISON);
        assert_non_null(strstr(err.text, "processor time"));
    }
    assert_int_equal(rp_transform_apply(t, &good, NULL, &arena, &out, &err), 0);
    rp_transform_free(t);
}

static void so_does_one_that_grows_or_crashes(void **state)
{
    (void)state;
    check_refused("[limit(1e9; repeat(\"xxxxxxxxxxxxxxxxxxxxxxxxxxx\" * 1000000))]", "{}", "");
    check_refused("reduce range(1000000) as $i (null; [.])", "{}", "");
}

static void a_program_sees_no_environment_and_no_files(void **state)
{
    (void)state;
    (void)setenv("REPRISE_SECRET", "s3cret", 1);
    check_payload(".payload = [env, $ENV]", "1", "[{},{}]");
    check_refused(".payload = input", "1", "failed");
    check_refused(".payload = (\"/etc/passwd\" | modulemeta)", "1", "");
    (void)unsetenv("REPRISE_SECRET");
}

/* A process that kept a socket would keep a connection alive that we closed. */
static void it_holds_no_descriptor_of_ours(void **state)
{
    (void)state;
    int fds[2];
    char c;
    assert_int_equal(pipe(fds), 0);
    struct rp_transform *t = compile(".");
    assert_int_equal(close(fds[1]), 0);
    assert_int_equal(read(fds[0], &c, 1), 0);
    assert_int_equal(close(fds[0]), 0);
    rp_transform_free(t);
}

static void a_packed_message_is_the_same_message(void **state)
{
    (void)state;
    struct rp_message in = message("{\"a\": 10.10}"), out;
    struct rp_buf packed = {0};
    in.key = (struct rp_bytes){"\x00\xff", 2};
    assert_int_equal(rp_message_pack(&in, &packed, &err), 0);
    assert_int_equal(rp_message_unpack(rp_buf_bytes(&packed), &arena, &out, &err), 0);
    assert_string_equal(out.target, in.target);
    assert_bytes_equal(out.key, in.key);
    assert_bytes_equal(out.payload, in.payload);
    assert_int_equal(out.n_headers, 4);
    for (size_t i = 0; i < 4; i++)
        assert_bytes_equal(out.headers[i].value, trace[i].value);
    rp_buf_clear(&packed);
    assert_int_equal(rp_message_unpack(rp_str("{\"key\": null}"), &arena, &out, &err), -1);
    assert_int_equal(err.cls, RP_POISON);
}

static int reset(void **state)
{
    (void)state;
    rp_arena_clear(&arena);
    err = (struct rp_error){0};
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_not_touched_stays_byte_for_byte, reset),
        cmocka_unit_test_teardown(only_what_the_program_changes_changes, reset),
        cmocka_unit_test_teardown(numbers_beyond_a_double_are_moved_whole, reset),
        cmocka_unit_test_teardown(a_program_that_computes_with_them_is_refused, reset),
        cmocka_unit_test_teardown(a_clock_does_not_make_two_runs_differ, reset),
        cmocka_unit_test_teardown(headers_key_and_target_can_be_changed, reset),
        cmocka_unit_test_teardown(nulls_and_bytes_stay_what_they_are, reset),
        cmocka_unit_test_teardown(text_stays_text, reset),
        cmocka_unit_test_teardown(a_result_that_is_no_message_is_refused, reset),
        cmocka_unit_test_teardown(what_gives_nothing_has_a_code_of_its_own, reset),
        cmocka_unit_test_teardown(a_program_that_is_no_jq_is_told_at_once, reset),
        cmocka_unit_test_teardown(a_comment_at_the_end_is_harmless, reset),
        cmocka_unit_test_teardown(an_endless_program_costs_one_message, reset),
        cmocka_unit_test_teardown(so_does_one_that_grows_or_crashes, reset),
        cmocka_unit_test_teardown(a_program_sees_no_environment_and_no_files, reset),
        cmocka_unit_test_teardown(it_holds_no_descriptor_of_ours, reset),
        cmocka_unit_test_teardown(a_packed_message_is_the_same_message, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
