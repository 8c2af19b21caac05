/* SPDX-License-Identifier: Apache-2.0 */
/* Random writers' schemas and random records of them: our plan and avro-c's own decoder must read
 * the same. A writer has our fields in any order, in any type that Avro's rules let us read, leaves
 * out those with a default, and has fields of its own between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "dead_letter.h"
#include "plan.h"
#include "reprise/rng.h"

#define SCHEMAS            300
#define RECORDS_PER_SCHEMA 20

struct world {
    struct rp_rng rng;
    struct rp_buf json;  /* the writer's schema */
    struct rp_buf bytes; /* a record */
    struct rp_arena arena;
    int names; /* given to named types of the writer's own */
};

static bool chance(struct world *w, int percent)
{
    return rp_rng_between(&w->rng, 1, 100) <= percent;
}

static size_t pick(struct world *w, size_t n)
{
    return (size_t)rp_rng_between(&w->rng, 0, (int64_t)n - 1);
}

static void put(struct world *w, const char *fmt, ...) RP_PRINTF(2, 3);

static void put(struct world *w, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    assert_int_equal(rp_buf_append(&w->json, text, (size_t)n, NULL), 0);
}

/* A type of which we know nothing. */
static void put_foreign_type(struct world *w, int depth)
{
    static const char *const simple[] = {"null",  "boolean", "int",   "long",
                                         "float", "double",  "bytes", "string"};
    switch (depth == 0 ? 0 : rp_rng_between(&w->rng, 0, 7)) {
    case 1:
        put(w, "{\"type\":\"array\",\"items\":");
        put_foreign_type(w, depth - 1);
        put(w, "}");
        break;
    case 2:
        put(w, "{\"type\":\"map\",\"values\":");
        put_foreign_type(w, depth - 1);
        put(w, "}");
        break;
    case 3:
        put(w, "[\"null\",\"string\",{\"type\":\"array\",\"items\":");
        put_foreign_type(w, depth - 1);
        put(w, "}]");
        break;
    case 4:
        put(w, "{\"type\":\"fixed\",\"name\":\"F%d\",\"size\":%d}", w->names, 1 + (int)pick(w, 20));
        w->names++;
        break;
    case 5:
        put(w, "{\"type\":\"enum\",\"name\":\"E%d\",\"symbols\":[\"A\",\"B\",\"C\"]}", w->names++);
        break;
    case 6:
        put(w, "{\"type\":\"record\",\"name\":\"R%d\",\"fields\":[{\"name\":\"a\",\"type\":",
            w->names++);
        put_foreign_type(w, depth - 1);
        put(w, "},{\"name\":\"b\",\"type\":");
        put_foreign_type(w, depth - 1);
        put(w, "}]}");
        break;
    default:
        put(w, "\"%s\"", simple[pick(w, sizeof simple / sizeof simple[0])]);
    }
}

static void put_record(struct world *w, const struct rp_shape *shape);

static void put_reason(struct world *w)
{
    size_t turn = pick(w, RP_N_REASONS);
    put(w, "{\"type\":\"enum\",\"name\":\"Reason\",\"symbols\":[\"NEW_ONE\"");
    for (size_t i = 0; i < RP_N_REASONS; i++)
        put(w, ",\"%s\"", rp_reason_name((enum rp_reason)((i + turn) % RP_N_REASONS)));
    put(w, "]}");
}

static void put_core_type(struct world *w, const struct rp_shape_field *f)
{
    switch (f->type) {
    case RP_SHAPE_STRING:
    case RP_SHAPE_BYTES:
        put(w, chance(w, 50) ? "\"string\"" : "\"bytes\"");
        break;
    case RP_SHAPE_INT:
        put(w, "\"int\"");
        break;
    case RP_SHAPE_LONG:
    case RP_SHAPE_TIME:
        put(w, chance(w, 30) ? "\"int\"" : "{\"type\":\"long\"}");
        break;
    case RP_SHAPE_REASON:
        put_reason(w);
        break;
    case RP_SHAPE_RECORD:
        put_record(w, f->of);
        break;
    case RP_SHAPE_ARRAY:
        put(w, "{\"type\":\"array\",\"items\":");
        put_record(w, f->of);
        put(w, "}");
        break;
    }
}

static void put_type(struct world *w, const struct rp_shape_field *f)
{
    int64_t how = chance(w, f->nullable ? 75 : 25) ? rp_rng_between(&w->rng, 1, 3) : 0;
    put(w, "%s", how == 1 ? "[\"null\"," : how == 2 ? "[" : how == 3 ? "[\"boolean\"," : "");
    put_core_type(w, f);
    put(w, "%s",
        how == 1   ? "]"
        : how == 2 ? ",\"null\"]"
        : how == 3 ? ",\"null\",\"double\"]"
                   : "");
}

static void put_record(struct world *w, const struct rp_shape *shape)
{
    size_t order[16];
    for (size_t i = 0; i < shape->n_fields; i++)
        order[i] = i;
    for (size_t i = shape->n_fields - 1; i > 0 && chance(w, 95); i--) {
        size_t j = pick(w, i + 1), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
    put(w, "{\"type\":\"record\",\"name\":\"%s\",\"fields\":[", shape->name);
    const char *comma = "";
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct rp_shape_field *f = &shape->fields[order[i]];
        if (chance(w, 25)) {
            put(w, "%s{\"name\":\"x%zu\",\"type\":", comma, i);
            put_foreign_type(w, 3);
            put(w, "}");
            comma = ",";
        }
        if (rp_shape_has_default(f) && chance(w, 20))
            continue;
        put(w, "%s{\"name\":\"%s\",\"type\":", comma, f->name);
        put_type(w, f);
        put(w, "}");
        comma = ",";
    }
    put(w, "]}");
}

static void fill(struct world *w, avro_value_t *v, const struct rp_shape_field *f,
                 const struct rp_shape *shape);

static int64_t random_long(struct world *w)
{
    int64_t n = (int64_t)(rp_rng_next(&w->rng) >> rp_rng_between(&w->rng, 1, 63));
    return chance(w, 50) ? n : -n;
}

static void fill_text(struct world *w, avro_value_t *v, bool is_string)
{
    char text[200];
    size_t n = pick(w, chance(w, 10) ? sizeof text : 12);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)rp_rng_between(&w->rng, is_string ? 32 : -128, is_string ? 126 : 127);
    text[n] = '\0';
    if (is_string)
        assert_int_equal(avro_value_set_string_len(v, text, n + 1), 0);
    else
        assert_int_equal(avro_value_set_bytes(v, text, n), 0);
}

static bool branch_fits(avro_schema_t branch, const struct rp_shape_field *f)
{
    if (f == NULL)
        return true;
    if (is_avro_null(branch))
        return f->nullable;
    return !is_avro_boolean(branch) && !is_avro_double(branch);
}

static void fill_union(struct world *w, avro_value_t *v, const struct rp_shape_field *f,
                       const struct rp_shape *shape)
{
    avro_schema_t schema = avro_value_get_schema(v);
    avro_value_t branch = {0};
    size_t i;
    do
        i = pick(w, avro_schema_union_size(schema));
    while (!branch_fits(avro_schema_union_branch(schema, (int)i), f));
    assert_int_equal(avro_value_set_branch(v, (int)i, &branch), 0);
    fill(w, &branch, f, shape);
}

static void fill_items(struct world *w, avro_value_t *v, bool is_map,
                       const struct rp_shape_field *f)
{
    size_t n = pick(w, 5);
    for (size_t i = 0; i < n; i++) {
        avro_value_t item = {0};
        char key[32];
        (void)snprintf(key, sizeof key, "key%zu", i);
        if (is_map)
            assert_int_equal(avro_value_add(v, key, &item, NULL, NULL), 0);
        else
            assert_int_equal(avro_value_append(v, &item, NULL), 0);
        fill(w, &item, NULL, f == NULL ? NULL : f->of);
    }
}

static const struct rp_shape_field *field_of(const struct rp_shape *shape, const char *name)
{
    for (size_t i = 0; shape != NULL && i < shape->n_fields; i++)
        if (strcmp(shape->fields[i].name, name) == 0)
            return &shape->fields[i];
    return NULL;
}

static void fill_record(struct world *w, avro_value_t *v, const struct rp_shape *shape)
{
    size_t n = 0;
    assert_int_equal(avro_value_get_size(v, &n), 0);
    for (size_t i = 0; i < n; i++) {
        avro_value_t field = {0};
        const char *name;
        assert_int_equal(avro_value_get_by_index(v, i, &field, &name), 0);
        const struct rp_shape_field *f = field_of(shape, name);
        fill(w, &field, f, f == NULL || f->type == RP_SHAPE_ARRAY ? NULL : f->of);
    }
}

static void fill(struct world *w, avro_value_t *v, const struct rp_shape_field *f,
                 const struct rp_shape *shape)
{
    static const char fixed[32] = "0123456789abcdef";
    avro_schema_t schema = avro_value_get_schema(v);
    int rc = 0;
    switch (avro_value_get_type(v)) {
    case AVRO_NULL:
        rc = avro_value_set_null(v);
        break;
    case AVRO_BOOLEAN:
        rc = avro_value_set_boolean(v, chance(w, 50));
        break;
    case AVRO_INT32:
        rc = avro_value_set_int(v, (int32_t)(random_long(w) >> 33));
        break;
    case AVRO_INT64:
        rc = avro_value_set_long(v, random_long(w));
        break;
    case AVRO_FLOAT:
        rc = avro_value_set_float(v, 0.5f);
        break;
    case AVRO_DOUBLE:
        rc = avro_value_set_double(v, -1e300);
        break;
    case AVRO_STRING:
    case AVRO_BYTES:
        fill_text(w, v, avro_value_get_type(v) == AVRO_STRING);
        break;
    case AVRO_FIXED:
        rc = avro_value_set_fixed(v, (void *)fixed, (size_t)avro_schema_fixed_size(schema));
        break;
    case AVRO_ENUM:
        rc = avro_value_set_enum(v,
                                 (int)pick(w, (size_t)avro_schema_enum_number_of_symbols(schema)));
        break;
    case AVRO_UNION:
        fill_union(w, v, f, shape);
        break;
    case AVRO_ARRAY:
    case AVRO_MAP:
        fill_items(w, v, avro_value_get_type(v) == AVRO_MAP, f);
        break;
    default:
        fill_record(w, v, shape);
    }
    assert_int_equal(rc, 0);
}

static void assert_agrees(const struct rp_shape *shape, avro_value_t *v, const uint8_t *base);

static struct rp_bytes text_of(avro_value_t *v)
{
    const void *data = NULL;
    const char *text = NULL;
    size_t n = 0;
    if (avro_value_get_type(v) == AVRO_BYTES) {
        assert_int_equal(avro_value_get_bytes(v, &data, &n), 0);
        return (struct rp_bytes){data == NULL ? "" : data, n};
    }
    assert_int_equal(avro_value_get_string(v, &text, &n), 0);
    return (struct rp_bytes){text, n - 1};
}

static int64_t number_of(avro_value_t *v)
{
    int64_t n = 0;
    int32_t i = 0;
    if (avro_value_get_type(v) == AVRO_INT64) {
        assert_int_equal(avro_value_get_long(v, &n), 0);
        return n;
    }
    assert_int_equal(avro_value_get_int(v, &i), 0);
    return i;
}

static enum rp_reason reason_of(avro_value_t *v)
{
    int symbol = 0;
    assert_int_equal(avro_value_get_enum(v, &symbol), 0);
    const char *name = avro_schema_enum_get(avro_value_get_schema(v), symbol);
    enum rp_reason reason = 0;
    while (reason < RP_OTHER && strcmp(rp_reason_name(reason), name) != 0)
        reason++;
    return reason;
}

static void assert_array_agrees(const struct rp_shape_field *f, avro_value_t *v,
                                const uint8_t *base)
{
    const uint8_t *items = *(const uint8_t *const *)(const void *)(base + f->at);
    size_t n = 0;
    if (v != NULL)
        assert_int_equal(avro_value_get_size(v, &n), 0);
    assert_int_equal(*(const size_t *)(const void *)(base + f->count_at), n);
    for (size_t i = 0; i < n; i++) {
        avro_value_t item = {0}, inside = {0};
        assert_int_equal(avro_value_get_by_index(v, i, &item, NULL), 0);
        if (avro_value_get_type(&item) == AVRO_UNION) {
            assert_int_equal(avro_value_get_current_branch(&item, &inside), 0);
            item = inside;
        }
        assert_agrees(f->of, &item, items + i * f->of->size);
    }
}

/* `v` is NULL where the writer has no such field, or null in it. */
static void assert_field_agrees(const struct rp_shape_field *f, avro_value_t *v,
                                const uint8_t *base)
{
    const void *at = base + f->at;
    switch (f->type) {
    case RP_SHAPE_STRING:
    case RP_SHAPE_BYTES:
        assert_true(
            rp_bytes_equal(*(const struct rp_bytes *)at, v == NULL ? RP_NULL_BYTES : text_of(v)));
        break;
    case RP_SHAPE_INT:
        assert_int_equal(*(const int32_t *)at, number_of(v));
        break;
    case RP_SHAPE_LONG:
    case RP_SHAPE_TIME:
        assert_int_equal(*(const int64_t *)at, v == NULL ? RP_NO_TIME : number_of(v));
        break;
    case RP_SHAPE_REASON:
        assert_int_equal(*(const enum rp_reason *)at, reason_of(v));
        break;
    case RP_SHAPE_ARRAY:
        assert_array_agrees(f, v, base);
        break;
    case RP_SHAPE_RECORD:
        if (f->nullable)
            assert_int_equal(*(const bool *)(base + f->count_at), v != NULL);
        if (v != NULL)
            assert_agrees(f->of, v, at);
        break;
    }
}

static void assert_agrees(const struct rp_shape *shape, avro_value_t *v, const uint8_t *base)
{
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct rp_shape_field *f = &shape->fields[i];
        avro_value_t field = {0}, inside = {0}, *found = &field;
        if (avro_value_get_by_name(v, f->name, &field, NULL) != 0)
            found = NULL;
        if (found != NULL && avro_value_get_type(&field) == AVRO_UNION) {
            assert_int_equal(avro_value_get_current_branch(&field, &inside), 0);
            found = &inside;
        }
        if (found != NULL && avro_value_get_type(found) == AVRO_NULL)
            found = NULL;
        assert_field_agrees(f, found, base);
    }
}

static void check_record(struct world *w, const struct rp_plan *plan, avro_value_iface_t *class,
                         const struct rp_shape *shape)
{
    avro_value_t written = {0}, read = {0};
    size_t n = 0;
    union {
        struct rp_failed_task task;
        struct rp_dead_letter letter;
    } out;
    struct rp_error err;
    assert_int_equal(avro_generic_value_new(class, &written), 0);
    assert_int_equal(avro_generic_value_new(class, &read), 0);
    fill_record(w, &written, shape);
    assert_int_equal(avro_value_sizeof(&written, &n), 0);
    w->bytes.len = 0;
    assert_int_equal(rp_buf_reserve(&w->bytes, n, NULL), 0);
    avro_writer_t writer = avro_writer_memory((char *)w->bytes.data, (int64_t)n);
    assert_int_equal(avro_value_write(writer, &written), 0);
    avro_writer_free(writer);
    w->bytes.len = n;
    avro_reader_t reader = avro_reader_memory((char *)w->bytes.data, (int64_t)n);
    if (avro_value_read(reader, &read) != 0)
        fail_msg("avro-c: %s\n%.*s", avro_strerror(), (int)w->json.len, (const char *)w->json.data);
    avro_reader_free(reader);

    rp_arena_reset(&w->arena);
    if (rp_plan_run(plan, rp_buf_bytes(&w->bytes), 0, &w->arena, &out, &err) != 0)
        fail_msg("%s\n%.*s", err.text, (int)w->json.len, (const char *)w->json.data);
    assert_agrees(shape, &read, (const uint8_t *)&out);
    for (size_t cut = 1; cut < n; cut += 1 + n / 20)
        assert_int_equal(
            rp_plan_run(plan, (struct rp_bytes){w->bytes.data, n - cut}, 0, &w->arena, &out, &err),
            -1);
    avro_value_decref(&written);
    avro_value_decref(&read);
}

static void check_schema(struct world *w, const struct rp_shape *shape)
{
    struct rp_schema schema;
    struct rp_plan *plan;
    struct rp_error err;
    w->json.len = 0;
    put_record(w, shape);
    if (rp_schema_parse(rp_buf_bytes(&w->json), &schema, &err) != 0 ||
        rp_plan_compile(&schema, shape, &plan, &err) != 0)
        fail_msg("%s\n%.*s", err.text, (int)w->json.len, (const char *)w->json.data);
    avro_value_iface_t *class = avro_generic_class_from_schema(schema.root);
    assert_non_null(class);
    for (int i = 0; i < RECORDS_PER_SCHEMA; i++)
        check_record(w, plan, class, shape);
    avro_value_iface_decref(class);
    rp_plan_free(plan);
    rp_schema_clear(&schema);
}

static void check_many(const struct rp_shape *shape, uint64_t seed)
{
    struct world w = {0};
    rp_rng_init(&w.rng, seed);
    for (int i = 0; i < SCHEMAS; i++)
        check_schema(&w, shape);
    rp_buf_clear(&w.json);
    rp_buf_clear(&w.bytes);
    rp_arena_clear(&w.arena);
}

static void failed_tasks_of_any_writer_are_read_as_avro_c_reads_them(void **state)
{
    (void)state;
    check_many(&rp_failed_task_shape, 1);
}

static void dead_letters_of_any_writer_are_read_as_avro_c_reads_them(void **state)
{
    (void)state;
    check_many(&rp_dead_letter_shape, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_tasks_of_any_writer_are_read_as_avro_c_reads_them),
        cmocka_unit_test(dead_letters_of_any_writer_are_read_as_avro_c_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
