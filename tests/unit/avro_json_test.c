/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "avro_json.h"
#include "codec_fixture.h"
#include "error_fixture.h"
#include "file_fixture.h"
#include "transform.h"

static struct rp_error err;

static const char order_schema[] =
    "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"shop\",\"fields\":["
    "{\"name\":\"id\",\"type\":\"long\"},{\"name\":\"amount\",\"type\":\"double\"},"
    "{\"name\":\"note\",\"type\":[\"null\",\"string\"]},"
    "{\"name\":\"tags\",\"type\":{\"type\":\"array\",\"items\":\"string\"}}]}";

/* id 9007199254740993, amount 1.5, note "ab", tags ["x"] */
static const char order[] = "\x82\x80\x80\x80\x80\x80\x80\x20"
                            "\0\0\0\0\0\0\xf8\x3f"
                            "\x02\x04"
                            "ab"
                            "\x02\x02x\x00";
#define ORDER ((struct rp_bytes){order, sizeof order - 1})

static struct rp_schema parse(const char *json)
{
    struct rp_schema schema;
    if (rp_schema_parse(rp_str(json), &schema, &err) != 0)
        fail_msg("%s", err.text);
    return schema;
}

/* Both ways. */
static void check(const char *schema_json, struct rp_bytes avro, const char *json)
{
    struct rp_schema schema = parse(schema_json);
    struct rp_buf text = {0}, back = {0};
    if (rp_avro_to_json(&schema, avro, 0, &text, &err) != 0)
        fail_msg("%s", err.text);
    assert_bytes_equal(rp_buf_bytes(&text), rp_str(json));
    if (rp_avro_from_json(&schema, rp_buf_bytes(&text), &back, &err) != 0)
        fail_msg("%s: %s", json, err.text);
    assert_bytes_equal(rp_buf_bytes(&back), avro);
    rp_buf_clear(&text);
    rp_buf_clear(&back);
    rp_schema_clear(&schema);
}

#define AVRO(bytes) ((struct rp_bytes){bytes, sizeof bytes - 1})

static void every_type_goes_both_ways(void **state)
{
    (void)state;
    check("\"boolean\"", AVRO("\x01"), "true");
    check("\"int\"", AVRO("\xff\xff\xff\xff\x0f"), "-2147483648");
    check("\"long\"", AVRO("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "9223372036854775807");
    check("\"long\"", AVRO("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "-9223372036854775808");
    check("\"float\"", AVRO("\xcd\xcc\xcc\x3d"), "0.1");
    check("\"float\"", AVRO("\x00\x00\x00\x80"), "-0.0");
    check("\"float\"", AVRO("\x00\x00\x80\x7f"), "\"Infinity\"");
    check("\"double\"", AVRO("\x9a\x99\x99\x99\x99\x99\xb9\x3f"), "0.1");
    check("\"double\"", AVRO("\0\0\0\0\0\0\0\x80"), "-0.0");
    check("\"double\"", AVRO("\0\0\0\0\0\0\xf0\xff"), "\"-Infinity\"");
    check("[\"null\",\"boolean\"]", AVRO("\x02\x01"), "true");
    check("[\"null\",{\"type\":\"array\",\"items\":\"int\"}]", AVRO("\x02\x00"), "[]");
    check("\"double\"", AVRO("\xff\xff\xff\xff\xff\xff\xef\x7f"), "1.7976931348623157e+308");
    check("\"string\"", AVRO("\x06\x01\"\x00"), "\"\\u0001\\\"\\u0000\"");
    check("\"bytes\"", AVRO("\x04\x00\xff"), "{\"base64\": \"AP8=\"}");
    check("{\"type\":\"fixed\",\"name\":\"F\",\"size\":2}", AVRO("\x00\xff"),
          "{\"base64\": \"AP8=\"}");
    check("{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\",\"B\"]}", AVRO("\x02"), "\"B\"");
    check("{\"type\":\"array\",\"items\":\"int\"}", AVRO("\x04\x02\x04\x00"), "[1,2]");
    check("{\"type\":\"array\",\"items\":\"int\"}", AVRO("\x00"), "[]");
    check("{\"type\":\"map\",\"values\":\"int\"}", AVRO("\x02\x02k\x02\x00"), "{\"k\":1}");
    check(order_schema, ORDER,
          "{\"id\":9007199254740993,\"amount\":1.5,\"note\":\"ab\",\"tags\":[\"x\"]}");
}

static void branches_have_names_where_json_cannot_tell(void **state)
{
    (void)state;
    check("[\"null\",\"long\"]", AVRO("\x02\x02"), "1");
    check("[\"null\",\"long\"]", AVRO("\x00"), "null");
    check("[\"null\",\"long\",\"int\"]", AVRO("\x04\x02"), "{\"int\":1}");
    check("[\"null\",\"long\",\"int\"]", AVRO("\x00"), "null");
    check("[\"string\",\"double\"]", AVRO("\x00\x06NaN"), "{\"string\":\"NaN\"}");
    check("[\"null\",\"double\"]", AVRO("\x02\x00\x00\x00\x00\x00\x00\xf0\x7f"), "\"Infinity\"");
    check("[{\"type\":\"record\",\"name\":\"a.R\",\"fields\":[]},{\"type\":\"map\",\"values\":"
          "\"int\"}]",
          AVRO("\x00"), "{\"a.R\":{}}");
}

static void a_value_of_no_bytes_is_read(void **state)
{
    struct rp_buf text = {0};
    struct rp_schema schema = parse("{\"type\":\"fixed\",\"name\":\"F\",\"size\":0}");
    (void)state;
    assert_int_equal(rp_avro_to_json(&schema, RP_NULL_BYTES, 0, &text, &err), 0);
    rp_schema_clear(&schema);
    rp_buf_clear(&text);
}

/* Avro has no such unions, but avro-c and some writers do. As JSON the value would become one of
 * the first type of the name. */
static void a_union_of_two_types_of_one_name_has_no_json(void **state)
{
    static const char *const schemas[] = {
        "[\"null\",\"int\",\"int\"]",
        "[{\"type\":\"array\",\"items\":\"int\"},{\"type\":\"array\",\"items\":\"long\"}]",
        "[\"null\",{\"type\":\"fixed\",\"name\":\"a.F\",\"size\":1},\"a.F\"]",
    };
    struct rp_buf text = {0};
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct rp_schema schema = parse(schemas[i]);
        assert_int_equal(rp_avro_to_json(&schema, AVRO("\0"), 0, &text, &err), -1);
        assert_int_equal(err.code, RP_E_DECODE);
        assert_says(&err, "two types of one name");
        rp_schema_clear(&schema);
    }
    check("[\"int\",{\"type\":\"fixed\",\"name\":\"a.F\",\"size\":1},"
          "{\"type\":\"fixed\",\"name\":\"b.F\",\"size\":1}]",
          AVRO("\x04x"), "{\"b.F\":{\"base64\": \"eA==\"}}");
}

static void bytes_that_are_of_no_such_type_are_refused(void **state)
{
    (void)state;
    static const char number[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
    static const char two_to_32[] = "\x80\x80\x80\x80\x20";
    static const struct {
        const char *schema;
        struct rp_bytes avro;
        const char *why;
    } cases[] = {
        {"\"boolean\"", {"\x02", 1}, "neither 0 nor 1"},
        {"\"boolean\"", {"", 0}, ""},
        {"\"float\"", {"\0\0\0", 3}, ""},
        {"\"int\"", {two_to_32, 5}, "more than 32 bits"},
        {"\"long\"", {number, 10}, "more than 64 bits"},
        {"\"string\"", {"\x01", 1}, ""},
        {"\"string\"", {"\x04\xff\xff", 3}, ""},
        {"{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\"]}", {"\x02", 1}, "no such symbol"},
        {"{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\"]}", {"\x01", 1}, "no such symbol"},
        {"{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\"]}", {"", 0}, ""},
        {"[\"null\",\"int\"]", {"\x04", 1}, "no such branch"},
        {"[\"null\",\"int\"]", {"\x01", 1}, "no such branch"},
        {"{\"type\":\"array\",\"items\":\"int\"}", {"\x01", 1}, ""},
        {"{\"type\":\"array\",\"items\":\"null\"}", {"\xd2\x0f", 2}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_schema schema = parse(cases[i].schema);
        struct rp_buf out = {0};
        assert_int_equal(rp_avro_to_json(&schema, cases[i].avro, 0, &out, &err), -1);
        assert_int_equal(err.code, RP_E_DECODE);
        assert_int_equal(err.cls, RP_POISON);
        assert_says(&err, cases[i].why);
        rp_buf_clear(&out);
        rp_schema_clear(&schema);
    }
}

static void json_that_is_of_no_such_type_is_refused(void **state)
{
    (void)state;
    static const char fixed[] = "{\"type\":\"fixed\",\"name\":\"F\",\"size\":2}";
    static const char choice[] = "{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\"]}";
    static const char list[] = "{\"type\":\"array\",\"items\":\"int\"}";
    static const char map[] = "{\"type\":\"map\",\"values\":\"int\"}";
    static const struct {
        const char *schema, *json, *why;
    } cases[] = {
        {"\"null\"", "0", "must be null"},
        {"\"boolean\"", "1", "must be true or false"},
        {"\"boolean\"", "null", "must be true or false"},
        {"\"int\"", "2147483648", "must be a number of 32 bits"},
        {"\"int\"", "-2147483649", "must be a number of 32 bits"},
        {"\"long\"", "1e17", "must be a whole number"},
        {"\"double\"", "\"Inf\"", "must be a number"},
        {"\"double\"", "null", "must be a number"},
        {"\"float\"", "1e39", "is too large for a float"},
        {"\"string\"", "1", "must be a string"},
        {"\"bytes\"", "\"AP8=\"", "must be {\"base64\""},
        {"\"bytes\"", "{\"base64\": 1}", "must be {\"base64\""},
        {"\"bytes\"", "{\"base64\": \"AP8=\", \"b\": 1}", "must be {\"base64\""},
        {"\"bytes\"", "{\"base64\": \"A*8=\"}", "is no base64"},
        {fixed, "{\"base64\": \"AP8A\"}", "has not the length"},
        {choice, "\"B\"", "one of the enum's symbols"},
        {choice, "1", "one of the enum's symbols"},
        {list, "{}", "must be an array"},
        {map, "[]", "must be an object"},
        {"[\"null\",\"int\",\"long\"]", "{\"int\": 1, \"long\": 1}", "must be {\"type\": value}"},
        {"[\"null\",\"int\",\"long\"]", "1", "must be {\"type\": value}"},
        {"[\"null\",\"int\"]", "true", "is of no type"},
        {"[\"null\",\"int\"]", "[]", "is of no type"},
        {"\"int\"", "{", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_schema schema = parse(cases[i].schema);
        struct rp_buf out = {0};
        if (rp_avro_from_json(&schema, rp_str(cases[i].json), &out, &err) == 0)
            fail_msg("%s was taken as %s", cases[i].json, cases[i].schema);
        assert_int_equal(err.code, RP_E_INVALID);
        assert_int_equal(err.cls, RP_POISON);
        assert_says(&err, cases[i].why);
        rp_buf_clear(&out);
        rp_schema_clear(&schema);
    }
}

static void what_nests_too_deep_is_refused(void **state)
{
    (void)state;
    static const char list[] = "{\"type\":\"record\",\"name\":\"L\",\"fields\":[{\"name\":\"n\","
                               "\"type\":[\"null\",\"L\"]}]}";
    char avro[301], json[2000] = "";
    struct rp_schema schema = parse(list);
    struct rp_buf out = {0};
    memset(avro, 2, 300);
    avro[300] = 0;
    for (int i = 0; i < 200; i++)
        (void)strcat(json, "{\"n\":");
    (void)strcat(json, "null");
    for (int i = 0; i < 200; i++)
        (void)strcat(json, "}");
    assert_int_equal(rp_avro_to_json(&schema, (struct rp_bytes){avro, 301}, 0, &out, &err), -1);
    assert_int_equal(err.code, RP_E_DECODE);
    assert_memory_equal(err.text, "n: n: ", 6);
    assert_int_equal(rp_avro_from_json(&schema, rp_str(json), &out, &err), -1);
    assert_int_equal(err.code, RP_E_INVALID);
    assert_memory_equal(err.text, "n: n: ", 6);
    assert_int_equal(rp_avro_to_json(&schema, rp_str("x"), 2, &out, &err), -1);
    assert_non_null(strstr(err.text, "cut off"));
    rp_buf_clear(&out);
    rp_schema_clear(&schema);
}

static void what_the_schema_cannot_take_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *json, *why;
    } cases[] = {
        {"{\"id\":\"1\",\"amount\":1,\"note\":null,\"tags\":[]}", "id: must be a whole number"},
        {"{\"id\":1.5,\"amount\":1,\"note\":null,\"tags\":[]}", "id: must be a whole number"},
        {"{\"id\":9223372036854775808,\"amount\":1,\"note\":null,\"tags\":[]}", "too big"},
        {"{\"id\":1,\"amount\":\"1\",\"note\":null,\"tags\":[]}", "amount: must be a number"},
        {"{\"id\":1,\"amount\":1,\"note\":2,\"tags\":[]}", "note: is of no type"},
        {"{\"id\":1,\"amount\":1,\"note\":null,\"tags\":[\"a\",1]}", "tags: [1]: must be a string"},
        {"{\"id\":1,\"amount\":1,\"tags\":[]}", "note is missing"},
        {"{\"id\":1,\"amount\":1,\"note\":null,\"tags\":[],\"more\":1}", "more is no field"},
        {"{\"id\":1,\"id\":1,\"amount\":1,\"note\":null,\"tags\":[]}", "duplicate"},
        {"[]", "must be an object"},
    };
    struct rp_schema schema = parse(order_schema);
    struct rp_buf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rp_avro_from_json(&schema, rp_str(cases[i].json), &out, &err), -1);
        assert_int_equal(err.cls, RP_POISON);
        assert_says(&err, cases[i].why);
    }
    rp_buf_clear(&out);
    rp_schema_clear(&schema);
}

static void bytes_that_are_cut_or_bent_are_refused(void **state)
{
    (void)state;
    struct rp_schema schema = parse(order_schema);
    struct rp_buf out = {0};
    for (size_t n = 0; n < ORDER.len; n++) {
        assert_int_equal(rp_avro_to_json(&schema, (struct rp_bytes){order, n}, 0, &out, &err), -1);
        assert_int_equal(err.cls, RP_POISON);
    }
    char more[sizeof order + 1] = {0};
    memcpy(more, order, sizeof order - 1);
    assert_int_equal(rp_avro_to_json(&schema, (struct rp_bytes){more, sizeof order}, 0, &out, &err),
                     -1);
    more[18] = (char)0xff;
    assert_int_equal(
        rp_avro_to_json(&schema, (struct rp_bytes){more, sizeof order - 1}, 0, &out, &err), -1);
    rp_buf_clear(&out);
    rp_schema_clear(&schema);
}

static void nothing_makes_endless_items_of_no_bytes(void **state)
{
    (void)state;
    struct rp_schema schema = parse("{\"type\":\"array\",\"items\":\"null\"}");
    struct rp_buf out = {0};
    assert_int_equal(rp_avro_to_json(&schema, AVRO("\xfe\xff\xff\xff\x0f\x00"), 0, &out, &err), -1);
    rp_buf_clear(&out);
    rp_schema_clear(&schema);
}

static struct rp_transform *with_schema(const char *jq)
{
    char path[] = "/tmp/reprise-schema-XXXXXX";
    struct rp_transform *t;
    file_make(path, order_schema, strlen(order_schema));
    const struct rp_transform_options o = {.jq = jq, .payload_schema_file = path};
    if (rp_transform_new(&o, &t, &err) != 0)
        fail_msg("%s", err.text);
    (void)unlink(path);
    return t;
}

static void a_transform_keeps_the_framing_and_the_ids(void **state)
{
    (void)state;
    struct rp_arena arena = {0};
    struct rp_schema schema = parse(order_schema);
    uint64_t fingerprint;
    uint8_t value[10 + sizeof order] = {0xC3, 0x01}, confluent[5 + sizeof order] = {0, 0, 0, 1, 7};
    struct rp_transform *t = with_schema(".payload.note = \"ab!\"");
    struct rp_message in = {.payload = ORDER}, out;
    static const char changed[] = "\x82\x80\x80\x80\x80\x80\x80\x20"
                                  "\0\0\0\0\0\0\xf8\x3f"
                                  "\x02\x06"
                                  "ab!"
                                  "\x02\x02x\x00";
    assert_int_equal(rp_schema_fingerprint(schema.root, &fingerprint, &err), 0);
    for (int i = 0; i < 8; i++)
        value[2 + i] = (uint8_t)(fingerprint >> (8 * i));
    memcpy(value + 10, order, ORDER.len);
    if (rp_transform_apply(t, &in, NULL, &arena, &out, &err) != 0)
        fail_msg("%s", err.text);
    assert_bytes_equal(out.payload, AVRO(changed));
    in.payload = (struct rp_bytes){value, 10 + ORDER.len};
    if (rp_transform_apply(t, &in, NULL, &arena, &out, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(out.payload.len, 10 + sizeof changed - 1);
    assert_memory_equal(out.payload.data, value, 10);
    assert_memory_equal((const char *)out.payload.data + 10, changed, sizeof changed - 1);
    memcpy(confluent + 5, order, ORDER.len);
    in.payload = (struct rp_bytes){confluent, 5 + ORDER.len};
    if (rp_transform_apply(t, &in, NULL, &arena, &out, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(out.payload.len, 5 + sizeof changed - 1);
    assert_memory_equal(out.payload.data, confluent, 5);
    assert_memory_equal((const char *)out.payload.data + 5, changed, sizeof changed - 1);
    in.payload = rp_str("{}");
    assert_int_equal(rp_transform_apply(t, &in, NULL, &arena, &out, &err), -1);
    assert_int_equal(err.cls, RP_POISON);
    rp_transform_free(t);
    t = with_schema(".payload.id |= tostring");
    in.payload = ORDER;
    assert_int_equal(rp_transform_apply(t, &in, NULL, &arena, &out, &err), -1);
    rp_transform_free(t);
    rp_schema_clear(&schema);
    rp_arena_clear(&arena);
}

static void a_map_that_repeats_a_key_is_kept_or_the_change_refused(void **state)
{
    (void)state;
    struct rp_arena arena = {0};
    struct rp_transform_options o = {.payload_schema = "{\"type\":\"map\",\"values\":\"int\"}"};
    struct rp_message in = {.payload = AVRO("\x04\x02k\x02\x02k\x04\x00")}, out;
    static const char *const programs[] = {".key = \"x\"", ".payload.c = 9"};
    for (int changed = 0; changed < 2; changed++) {
        struct rp_transform *t;
        o.jq = programs[changed];
        assert_int_equal(rp_transform_new(&o, &t, &err), 0);
        assert_int_equal(rp_transform_apply(t, &in, NULL, &arena, &out, &err), -changed);
        rp_transform_free(t);
        assert_bytes_equal(out.payload, in.payload);
    }
    assert_non_null(strstr(err.text, "names a member twice"));
    rp_arena_clear(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_goes_both_ways),
        cmocka_unit_test(branches_have_names_where_json_cannot_tell),
        cmocka_unit_test(a_value_of_no_bytes_is_read),
        cmocka_unit_test(a_union_of_two_types_of_one_name_has_no_json),
        cmocka_unit_test(bytes_that_are_of_no_such_type_are_refused),
        cmocka_unit_test(json_that_is_of_no_such_type_is_refused),
        cmocka_unit_test(what_nests_too_deep_is_refused),
        cmocka_unit_test(what_the_schema_cannot_take_is_named),
        cmocka_unit_test(bytes_that_are_cut_or_bent_are_refused),
        cmocka_unit_test(nothing_makes_endless_items_of_no_bytes),
        cmocka_unit_test(a_transform_keeps_the_framing_and_the_ids),
        cmocka_unit_test(a_map_that_repeats_a_key_is_kept_or_the_change_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
