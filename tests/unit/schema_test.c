/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "embedded.h"
#include "error_fixture.h"
#include "schema.h"
#include "shape.h"

/* The vectors of share/test/data/schema-tests.txt, which accompanies the Avro specification. */
static const struct {
    const char *json, *canonical;
    uint64_t fingerprint; /* 0: the file gives none */
} vectors[] = {
    {"\"null\"", "\"null\"", UINT64_C(0x63dd24e7cc258f8a)},
    {"{\"type\":\"null\"}", "\"null\"", 0},
    {"\"boolean\"", "\"boolean\"", UINT64_C(0x9f42fc78a4d4f764)},
    {"{\"type\":\"boolean\"}", "\"boolean\"", 0},
    {"\"int\"", "\"int\"", UINT64_C(0x7275d51a3f395c8f)},
    {"{\"type\":\"int\"}", "\"int\"", 0},
    {"\"long\"", "\"long\"", UINT64_C(0xd054e14493f41db7)},
    {"{\"type\":\"long\"}", "\"long\"", 0},
    {"\"float\"", "\"float\"", UINT64_C(0x4d7c02cb3ea8d790)},
    {"{\"type\":\"float\"}", "\"float\"", 0},
    {"\"double\"", "\"double\"", UINT64_C(0x8e7535c032ab957e)},
    {"{\"type\":\"double\"}", "\"double\"", 0},
    {"\"bytes\"", "\"bytes\"", UINT64_C(0x4fc016dac3201965)},
    {"{\"type\":\"bytes\"}", "\"bytes\"", 0},
    {"\"string\"", "\"string\"", UINT64_C(0x8f014872634503c7)},
    {"{\"type\":\"string\"}", "\"string\"", 0},
    {"[ \"int\"  ]", "[\"int\"]", UINT64_C(0xb763638a48b2fb03)},
    {"[ \"int\" , {\"type\":\"boolean\"} ]", "[\"int\",\"boolean\"]", UINT64_C(0x4ad63578080c1602)},
    {"{\"fields\":[], \"type\":\"record\", \"name\":\"foo\"}",
     "{\"name\":\"foo\",\"type\":\"record\",\"fields\":[]}", UINT64_C(0xbd0c50c84319be7e)},
    {"{\"fields\":[], \"type\":\"record\", \"name\":\"foo\", \"namespace\":\"x.y\"}",
     "{\"name\":\"x.y.foo\",\"type\":\"record\",\"fields\":[]}", UINT64_C(0x521d1a6b830ec4ab)},
    {"{\"fields\":[], \"type\":\"record\", \"name\":\"a.b.foo\", \"namespace\":\"x.y\"}",
     "{\"name\":\"a.b.foo\",\"type\":\"record\",\"fields\":[]}", UINT64_C(0xbfefe5be5021e2b2)},
    {"{\"fields\":[], \"type\":\"record\", \"name\":\"foo\", \"doc\":\"Useful info\"}",
     "{\"name\":\"foo\",\"type\":\"record\",\"fields\":[]}", UINT64_C(0xbd0c50c84319be7e)},
    {"{\"fields\":[], \"type\":\"record\", \"name\":\"foo\", \"aliases\":[\"foo\",\"bar\"]}",
     "{\"name\":\"foo\",\"type\":\"record\",\"fields\":[]}", UINT64_C(0xbd0c50c84319be7e)},
    {"{\"fields\":[], \"type\":\"record\", \"name\":\"foo\", \"doc\":\"foo\", "
     "\"aliases\":[\"foo\",\"bar\"]}",
     "{\"name\":\"foo\",\"type\":\"record\",\"fields\":[]}", UINT64_C(0xbd0c50c84319be7e)},
    {"{\"fields\":[{\"type\":{\"type\":\"boolean\"}, \"name\":\"f1\"}], \"type\":\"record\", "
     "\"name\":\"foo\"}",
     "{\"name\":\"foo\",\"type\":\"record\",\"fields\":[{\"name\":\"f1\",\"type\":\"boolean\"}]}",
     UINT64_C(0x6cd8eaf1c968a33b)},
    {"{ \"fields\":[{\"type\":\"boolean\", \"aliases\":[], \"name\":\"f1\", \"default\":true}, "
     "{\"order\":\"descending\",\"name\":\"f2\",\"doc\":\"Hello\",\"type\":\"int\"}], "
     "\"type\":\"record\", \"name\":\"foo\" }",
     "{\"name\":\"foo\",\"type\":\"record\",\"fields\":[{\"name\":\"f1\",\"type\":\"boolean\"},"
     "{\"name\":\"f2\",\"type\":\"int\"}]}",
     UINT64_C(0xbc8d05bd57f4934a)},
    {"{\"type\":\"enum\", \"name\":\"foo\", \"symbols\":[\"A1\"]}",
     "{\"name\":\"foo\",\"type\":\"enum\",\"symbols\":[\"A1\"]}", UINT64_C(0xa7fc039e15aa3169)},
    {"{\"namespace\":\"x.y.z\", \"type\":\"enum\", \"name\":\"foo\", \"doc\":\"foo bar\", "
     "\"symbols\":[\"A1\", \"A2\"]}",
     "{\"name\":\"x.y.z.foo\",\"type\":\"enum\",\"symbols\":[\"A1\",\"A2\"]}",
     UINT64_C(0xc2433ae5f4999d8b)},
    {"{\"name\":\"foo\",\"type\":\"fixed\",\"size\":15}",
     "{\"name\":\"foo\",\"type\":\"fixed\",\"size\":15}", UINT64_C(0x18602ec3ed31a504)},
    {"{\"namespace\":\"x.y.z\", \"type\":\"fixed\", \"name\":\"foo\", \"doc\":\"foo bar\", "
     "\"size\":32}",
     "{\"name\":\"x.y.z.foo\",\"type\":\"fixed\",\"size\":32}", UINT64_C(0xd579d47693a6171e)},
    {"{ \"items\":{\"type\":\"null\"}, \"type\":\"array\"}",
     "{\"type\":\"array\",\"items\":\"null\"}", UINT64_C(0xf7d13f2f68170a6d)},
    {"{ \"values\":\"string\", \"type\":\"map\"}", "{\"type\":\"map\",\"values\":\"string\"}",
     UINT64_C(0x86ce965d92864572)},
    {"{\"name\":\"PigValue\",\"type\":\"record\", \"fields\":[{\"name\":\"value\", "
     "\"type\":[\"null\", \"int\", \"long\", \"PigValue\"]}]}",
     "{\"name\":\"PigValue\",\"type\":\"record\",\"fields\":[{\"name\":\"value\","
     "\"type\":[\"null\",\"int\",\"long\",\"PigValue\"]}]}",
     UINT64_C(0xe795dc6656b7e95b)},
};

const char *__lsan_default_suppressions(void);

/* avro-c does not free a type that defines a name anew. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libavro";
}

static bool memory_is_short;

int __real_avro_schema_from_json_length(const char *json, size_t n, avro_schema_t *out);
int __wrap_avro_schema_from_json_length(const char *json, size_t n, avro_schema_t *out);

/* Not always does avro-c say a word when it has no memory. */
int __wrap_avro_schema_from_json_length(const char *json, size_t n, avro_schema_t *out)
{
    return memory_is_short ? ENOMEM : __real_avro_schema_from_json_length(json, n, out);
}

static void parse(const char *json, struct rp_schema *out)
{
    struct rp_error err;
    if (rp_schema_parse(rp_str(json), out, &err) != 0)
        fail_msg("%s: %s", json, err.text);
}

static void canonical_forms_are_the_specifications(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct rp_schema schema;
        struct rp_error err;
        struct rp_buf form = {0};
        parse(vectors[i].json, &schema);
        assert_int_equal(rp_schema_canonical(schema.root, &form, &err), 0);
        assert_int_equal(form.len, strlen(vectors[i].canonical));
        assert_memory_equal(form.data, vectors[i].canonical, form.len);
        rp_buf_clear(&form);
        rp_schema_clear(&schema);
    }
}

static void fingerprints_are_the_specifications(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct rp_schema schema;
        struct rp_error err;
        uint64_t fingerprint;
        if (vectors[i].fingerprint == 0)
            continue;
        parse(vectors[i].json, &schema);
        assert_int_equal(rp_schema_fingerprint(schema.root, &fingerprint, &err), 0);
        assert_int_equal(fingerprint, vectors[i].fingerprint);
        rp_schema_clear(&schema);
    }
}

static void names_take_the_namespace_around_them(void **state)
{
    (void)state;
    struct rp_schema schema;
    struct rp_error err;
    struct rp_buf form = {0};
    const char *expected = "{\"name\":\"a.R\",\"type\":\"record\",\"fields\":["
                           "{\"name\":\"e\",\"type\":{\"name\":\"a.E\",\"type\":\"enum\","
                           "\"symbols\":[\"X\"]}},"
                           "{\"name\":\"again\",\"type\":[\"null\",\"a.E\"]}]}";
    parse("{\"type\":\"record\",\"name\":\"R\",\"namespace\":\"a\",\"fields\":["
          "{\"name\":\"e\",\"type\":{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"X\"]}},"
          "{\"name\":\"again\",\"type\":[\"null\",\"E\"]}]}",
          &schema);
    assert_int_equal(rp_schema_canonical(schema.root, &form, &err), 0);
    assert_int_equal(form.len, strlen(expected));
    assert_memory_equal(form.data, expected, form.len);
    rp_buf_clear(&form);
    rp_schema_clear(&schema);
}

static void assert_refused(struct rp_bytes json, const char *because)
{
    struct rp_schema schema;
    struct rp_error err;
    assert_int_equal(rp_schema_parse(json, &schema, &err), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_int_equal(err.code, RP_E_SCHEMA);
    assert_says(&err, because);
}

static void what_is_no_schema_is_refused(void **state)
{
    (void)state;
    assert_refused(rp_str(""), "empty");
    assert_refused(rp_str("{"), "no Avro schema");
    assert_refused(rp_str("\"nosuch\""), "no Avro schema");
    assert_refused(rp_str("{\"type\":\"record\",\"name\":\"A\"}"), "no Avro schema");
    assert_refused(rp_str("[\"int\",[\"int\"]]"), "a union holds a union");
    assert_refused(rp_str("{\"type\":\"fixed\",\"name\":\"F\",\"size\":-1}"), "size -1");
    assert_refused(rp_str("{\"type\":\"record\",\"name\":\"A\",\"fields\":["
                          "{\"name\":\"a\",\"type\":\"int\"},{\"name\":\"a\",\"type\":\"int\"}]}"),
                   "two fields a");
}

#define FIXED(name) "{\"type\":\"fixed\",\"name\":\"" name "\",\"size\":1}"

/* avro-c says of such a name what it says for want of memory, and whoever waits for memory that is
 * there waits for ever. */
static void a_name_that_is_none_or_comes_twice_is_refused(void **state)
{
    static const char *const schemas[] = {
        "{\"type\":\"record\",\"name\":\"$\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}",
        "{\"type\":\"enum\",\"name\":\"a-b\",\"symbols\":[\"A\"]}",
        "[" FIXED("") "]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        assert_refused(rp_str(schemas[i]), "no Avro schema: Invalid Avro identifier");
    assert_refused(rp_str("[" FIXED("F") "," FIXED("F") "]"), "no Avro schema: Cannot save");
}

#define AN_INT "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}"

static void *refuse_again_and_again(void *opaque)
{
    const char *because = opaque;
    const char *json = because[0] == 'C' ? "[" FIXED("F") "," FIXED("F") "]" : "\"nosuch\"";
    struct rp_schema record, schema;
    struct rp_error err;
    if (rp_schema_parse(rp_str(AN_INT), &record, &err) != 0)
        return opaque;
    for (int i = 0; i < 2000; i++) {
        if (rp_schema_field_index(record.root, "b") != -1)
            return opaque;
        if (rp_schema_parse(rp_str(json), &schema, &err) == 0 || err.cls != RP_POISON ||
            strstr(err.text, because) == NULL)
            return opaque;
    }
    rp_schema_clear(&record);
    return NULL;
}

static void each_thread_is_told_what_is_wrong_with_its_own(void **state)
{
    static char *const because[] = {"Cannot save", "nosuch"};
    pthread_t threads[2];
    void *fault;
    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, refuse_again_and_again, because[i]), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        assert_null(fault);
    }
}

static void want_of_memory_does_not_refuse_a_schema(void **state)
{
    struct rp_schema schema;
    struct rp_error err;
    (void)state;
    assert_refused(rp_str(FIXED("$")), "Invalid");
    memory_is_short = true;
    int rc = rp_schema_parse(rp_str("\"int\""), &schema, &err);
    memory_is_short = false;
    assert_int_equal(rc, -1);
    assert_int_equal(err.code, RP_E_NOMEM);
    assert_int_equal(err.cls, RP_RETRIABLE);
}

static void a_schema_too_deep_is_refused(void **state)
{
    (void)state;
    struct rp_buf json = {0};
    struct rp_error err;
    for (int i = 0; i < 20000; i++)
        assert_int_equal(rp_buf_append(&json, "{\"type\":\"array\",\"items\":", 24, &err), 0);
    json.len = RP_SCHEMA_MAX_BYTES;
    assert_refused(rp_buf_bytes(&json), "nests deeper than 128 at byte");
    rp_buf_clear(&json);
}

static void a_schema_too_large_is_refused(void **state)
{
    (void)state;
    char *json = calloc(1, RP_SCHEMA_MAX_BYTES + 1);
    assert_non_null(json);
    memset(json, ' ', RP_SCHEMA_MAX_BYTES + 1);
    memcpy(json, "\"int\"", 5);
    assert_refused((struct rp_bytes){json, RP_SCHEMA_MAX_BYTES + 1}, "over the limit");
    free(json);
}

static void a_schema_with_too_many_records_is_refused(void **state)
{
    (void)state;
    struct rp_buf json = {0};
    struct rp_error err;
    for (int i = 0; i <= RP_SCHEMA_MAX_RECORDS; i++) {
        char record[80];
        int n = snprintf(record, sizeof record,
                         "%c{\"type\":\"record\",\"name\":\"R%d\",\"fields\":[]}",
                         i == 0 ? '[' : ',', i);
        assert_int_equal(rp_buf_append(&json, record, (size_t)n, &err), 0);
    }
    assert_int_equal(rp_buf_append(&json, "]", 1, &err), 0);
    assert_refused(rp_buf_bytes(&json), "more than 256 records");
    rp_buf_clear(&json);
}

static void a_schema_without_end_is_refused(void **state)
{
    (void)state;
    assert_refused(rp_str("{\"type\":\"record\",\"name\":\"A\",\"fields\":["
                          "{\"name\":\"a\",\"type\":\"A\"}]}"),
                   "record A contains itself without end");
    assert_refused(
        rp_str("{\"type\":\"record\",\"name\":\"A\",\"fields\":["
               "{\"name\":\"b\",\"type\":{\"type\":\"record\",\"name\":\"B\",\"fields\":["
               "{\"name\":\"a\",\"type\":[\"A\"]}]}}]}"),
        "contains itself without end");
}

static void a_recursive_schema_with_an_end_is_fine(void **state)
{
    (void)state;
    struct rp_schema schema;
    parse("{\"type\":\"record\",\"name\":\"Node\",\"fields\":["
          "{\"name\":\"next\",\"type\":[\"null\",\"Node\"]},"
          "{\"name\":\"children\",\"type\":{\"type\":\"array\",\"items\":\"Node\"}}]}",
          &schema);
    rp_schema_clear(&schema);
}

static void types_without_bytes_are_known(void **state)
{
    (void)state;
    struct rp_schema schema;
    parse("{\"type\":\"record\",\"name\":\"A\",\"fields\":["
          "{\"name\":\"n\",\"type\":\"null\"},"
          "{\"name\":\"b\",\"type\":{\"type\":\"record\",\"name\":\"B\",\"fields\":["
          "{\"name\":\"f\",\"type\":{\"type\":\"fixed\",\"name\":\"F\",\"size\":0}}]}}]}",
          &schema);
    assert_true(rp_schema_takes_no_bytes(&schema, schema.root));
    rp_schema_clear(&schema);
    parse("{\"type\":\"record\",\"name\":\"A\",\"fields\":["
          "{\"name\":\"n\",\"type\":[\"null\"]}]}",
          &schema);
    assert_false(rp_schema_takes_no_bytes(&schema, schema.root));
    rp_schema_clear(&schema);
}

static bool is_type(avro_schema_t type, const struct rp_shape_field *f)
{
    switch (f->type) {
    case RP_SHAPE_STRING:
        return is_avro_string(type);
    case RP_SHAPE_BYTES:
        return is_avro_bytes(type);
    case RP_SHAPE_INT:
        return is_avro_int32(type);
    case RP_SHAPE_LONG:
    case RP_SHAPE_TIME:
        return is_avro_int64(type);
    case RP_SHAPE_REASON:
        return is_avro_enum(type);
    case RP_SHAPE_RECORD:
        return is_avro_record(type);
    case RP_SHAPE_ARRAY:
        return is_avro_array(type);
    }
    return false;
}

static void assert_shape(avro_schema_t record, const struct rp_shape *shape)
{
    assert_string_equal(avro_schema_name(record), shape->name);
    assert_string_equal(avro_schema_namespace(record), "reprise.v1");
    assert_int_equal(avro_schema_record_size(record), shape->n_fields);
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct rp_shape_field *f = &shape->fields[i];
        avro_schema_t type = avro_schema_record_field_get_by_index(record, (int)i);
        assert_string_equal(avro_schema_record_field_name(record, (int)i), f->name);
        assert_int_equal(is_avro_union(type), f->nullable);
        if (f->nullable) {
            assert_int_equal(avro_schema_union_size(type), 2);
            assert_true(is_avro_null(avro_schema_union_branch(type, 0)));
            type = avro_schema_union_branch(type, 1);
        }
        if (!is_type(type, f))
            fail_msg("%s.%s is %s", shape->name, f->name, avro_schema_type_name(type));
        if (f->of != NULL)
            assert_shape(is_avro_array(type) ? avro_schema_array_items(type) : type, f->of);
    }
}

static void our_structs_have_the_fields_of_the_schemas(void **state)
{
    (void)state;
    struct rp_schema schema;
    parse(rp_embedded_schemas[RP_EMBEDDED_FAILED_TASK].json, &schema);
    assert_shape(schema.root, &rp_failed_task_shape);
    rp_schema_clear(&schema);
    parse(rp_embedded_schemas[RP_EMBEDDED_DEAD_LETTER].json, &schema);
    assert_shape(schema.root, &rp_dead_letter_shape);
    rp_schema_clear(&schema);
}

/* The contract: what one version wrote must be recognized for ever. */
static void our_fingerprints_do_not_change(void **state)
{
    (void)state;
    assert_int_equal(rp_embedded_schemas[RP_EMBEDDED_FAILED_TASK].fingerprint,
                     UINT64_C(0x351907e193e0bda8));
    assert_int_equal(rp_embedded_schemas[RP_EMBEDDED_DEAD_LETTER].fingerprint,
                     UINT64_C(0xfe1ec9795063733f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_forms_are_the_specifications),
        cmocka_unit_test(fingerprints_are_the_specifications),
        cmocka_unit_test(names_take_the_namespace_around_them),
        cmocka_unit_test(what_is_no_schema_is_refused),
        cmocka_unit_test(a_name_that_is_none_or_comes_twice_is_refused),
        cmocka_unit_test(each_thread_is_told_what_is_wrong_with_its_own),
        cmocka_unit_test(want_of_memory_does_not_refuse_a_schema),
        cmocka_unit_test(a_schema_too_deep_is_refused),
        cmocka_unit_test(a_schema_too_large_is_refused),
        cmocka_unit_test(a_schema_with_too_many_records_is_refused),
        cmocka_unit_test(a_schema_without_end_is_refused),
        cmocka_unit_test(a_recursive_schema_with_an_end_is_fine),
        cmocka_unit_test(types_without_bytes_are_known),
        cmocka_unit_test(our_structs_have_the_fields_of_the_schemas),
        cmocka_unit_test(our_fingerprints_do_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
