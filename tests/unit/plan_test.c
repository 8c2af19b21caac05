/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "codec_fixture.h"
#include "error_fixture.h"
#include "plan_cache.h"

/* A writer that knows only what must be there, with `attempt`'s type and further fields. */
#define WRITER_OF(name, attempt, more)                                                             \
    "{\"type\":\"record\",\"name\":\"" name "\",\"fields\":["                                      \
    "{\"name\":\"task_id\",\"type\":\"string\"},{\"name\":\"task_type\",\"type\":\"string\"},"     \
    "{\"name\":\"attempt\",\"type\":" attempt "},"                                                 \
    "{\"name\":\"error\",\"type\":{\"type\":\"record\",\"name\":\"Error\",\"fields\":["            \
    "{\"name\":\"class\",\"type\":\"string\"},{\"name\":\"message\",\"type\":\"string\"}]}},"      \
    "{\"name\":\"source\",\"type\":\"string\"},{\"name\":\"failed_at\",\"type\":\"long\"}" more    \
    "]}"
#define WRITER(more) WRITER_OF("FailedTask", "\"int\"", more)

/* What it writes, up to the further fields. */
#define RECORD                                                                                     \
    "\x02t\x12"                                                                                    \
    "data-sync\x02\x02"                                                                            \
    "E\0\0\0"

struct fixture {
    struct rp_plan *plan;
    struct rp_arena arena;
    struct rp_failed_task task;
    struct rp_error err;
};

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_plan_free(f->plan);
    rp_arena_clear(&f->arena);
    free(f);
    return 0;
}

static int compile(struct fixture *f, const char *json, const struct rp_shape *shape)
{
    struct rp_schema schema;
    if (rp_schema_parse(rp_str(json), &schema, &f->err) != 0)
        fail_msg("%s: %s", json, f->err.text);
    rp_plan_free(f->plan);
    int rc = rp_plan_compile(&schema, shape, &f->plan, &f->err);
    rp_schema_clear(&schema);
    return rc;
}

static void assert_compiles(struct fixture *f, const char *json)
{
    if (compile(f, json, &rp_failed_task_shape) != 0)
        fail_msg("%s", f->err.text);
}

static int run(struct fixture *f, const char *bytes, size_t n)
{
    rp_arena_reset(&f->arena);
    return rp_plan_run(f->plan, (struct rp_bytes){bytes, n}, 0, &f->arena, &f->task, &f->err);
}

/* Reads a literal, without its NUL. */
#define RUN(f, bytes) run(f, bytes, sizeof(bytes) - 1)

static void assert_reads(struct fixture *f, int rc)
{
    if (rc != 0)
        fail_msg("%s", f->err.text);
}

static void assert_incompatible(struct fixture *f, const char *json, const char *because)
{
    assert_int_equal(compile(f, json, &rp_failed_task_shape), -1);
    assert_null(f->plan);
    assert_int_equal(f->err.code, RP_E_SCHEMA);
    assert_int_equal(f->err.cls, RP_POISON);
    assert_says(&f->err, because);
}

static void assert_poison(struct fixture *f, int rc, const char *because)
{
    assert_int_equal(rc, -1);
    assert_int_equal(f->err.cls, RP_POISON);
    assert_says(&f->err, because);
}

static void fields_that_an_older_writer_lacks_take_their_defaults(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task expected = plain_task();
    assert_compiles(f, WRITER(""));
    assert_reads(f, RUN(f, RECORD));
    assert_task_equal(&f->task, &expected);
}

static void fields_of_a_newer_writer_are_skipped(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task expected = plain_task();
    assert_compiles(
        f, WRITER(",{\"name\":\"labels\",\"type\":{\"type\":\"map\",\"values\":\"long\"}},"
                  "{\"name\":\"score\",\"type\":\"double\"},"
                  "{\"name\":\"source2\",\"type\":[\"null\",\"string\"],\"default\":null}"));
    assert_reads(f, RUN(f, RECORD "\x02\x02k\x08\0"
                                  "12345678"
                                  "\x02\x04zz"));
    assert_task_equal(&f->task, &expected);
}

static void a_map_in_blocks_of_stated_size_is_skipped(void **state)
{
    struct fixture *f = *state;
    assert_compiles(f, WRITER(",{\"name\":\"m\",\"type\":{\"type\":\"map\",\"values\":\"int\"}}"));
    assert_reads(f, RUN(f, RECORD "\x03\x0c\x02"
                                  "a\x02\x02"
                                  "b\x04\0"));
    assert_poison(f,
                  RUN(f, RECORD "\x03\x7e\x02"
                                "a\x02\x02"
                                "b\x04\0"),
                  "a block of 63 bytes");
}

static void an_int_is_promoted_to_a_time(void **state)
{
    struct fixture *f = *state;
    assert_compiles(f, WRITER(",{\"name\":\"first_failed_at\",\"type\":\"int\"}"));
    assert_reads(f, RUN(f, RECORD "\xfe\xff\xff\xff\x0f"));
    assert_int_equal(f->task.first_failed_at_ms, INT32_MAX);
}

static void a_long_is_no_attempt(void **state)
{
    assert_incompatible(*state, WRITER_OF("FailedTask", "\"long\"", ""),
                        "attempt: the writer's long cannot be read as ours");
}

static void an_int_of_more_than_32_bits_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_compiles(f, WRITER(""));
    assert_poison(f,
                  RUN(f, "\x02t\x02y\x80\x80\x80\x80\x10\x02"
                         "E\0\0\0"),
                  "byte 4: attempt: 2147483648 is no 32-bit number");
    assert_poison(f,
                  RUN(f, "\x02t\x02y\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02"
                         "E\0\0\0"),
                  "byte 4: attempt: a number of more than 64 bits");
}

static void a_union_is_refused_only_when_its_other_branch_comes(void **state)
{
    struct fixture *f = *state;
    assert_compiles(f, WRITER(",{\"name\":\"target\",\"type\":[\"boolean\",\"string\",\"null\"]}"));
    assert_reads(f, RUN(f, RECORD "\x02\x02q"));
    assert_bytes_equal(f->task.target, rp_str("q"));
    assert_reads(f, RUN(f, RECORD "\x04"));
    assert_bytes_equal(f->task.target, RP_NULL_BYTES);
    assert_poison(f, RUN(f, RECORD "\0\x01"), "target: a branch of the union that has no place");
}

static void null_where_a_value_must_be_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_compiles(f, WRITER_OF("FailedTask", "[\"null\",\"int\"]", ""));
    assert_reads(f, RUN(f, "\x02t\x02y\x02\x06\x02"
                           "E\0\0\0"));
    assert_int_equal(f->task.attempt, 3);
    assert_poison(f,
                  RUN(f, "\x02t\x02y\0\x02"
                         "E\0\0\0"),
                  "attempt: a branch");
    assert_incompatible(f, WRITER_OF("FailedTask", "\"null\"", ""), "attempt: is null");
}

static void a_field_without_default_must_be_there(void **state)
{
    assert_incompatible(*state, "{\"type\":\"record\",\"name\":\"FailedTask\",\"fields\":[]}",
                        "task_id: is not in the writer's schema, and has no default");
    assert_incompatible(*state,
                        WRITER(",{\"name\":\"headers\",\"type\":{\"type\":\"array\",\"items\":"
                               "{\"type\":\"record\",\"name\":\"Header\",\"fields\":[]}}}"),
                        "headers.key: is not in the writer's schema");
}

static void another_record_is_not_ours(void **state)
{
    assert_incompatible(*state, WRITER_OF("Invoice", "\"int\"", ""),
                        "record Invoice is no FailedTask");
    assert_incompatible(*state, "\"string\"",
                        "the writer's schema is of type string, no FailedTask");
}

static void a_union_may_hold_the_record(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task expected = plain_task();
    assert_compiles(f, "[\"null\"," WRITER("") ",\"string\"]");
    assert_reads(f, RUN(f, "\x02" RECORD));
    assert_task_equal(&f->task, &expected);
    assert_poison(f, RUN(f, "\x00"), "byte 1: FailedTask: a branch of the union that has no place");
    assert_incompatible(f, "[\"null\",\"int\"]", "of type int, no FailedTask");
}

static void the_namespace_does_not_matter(void **state)
{
    assert_compiles(*state, WRITER_OF("com.example.FailedTask", "\"int\"", ""));
}

static void an_unknown_reason_is_other(void **state)
{
    struct fixture *f = *state;
    struct rp_dead_letter letter;
    const char *json =
        "{\"type\":\"record\",\"name\":\"DeadLetter\",\"fields\":["
        "{\"name\":\"reason\",\"type\":{\"type\":\"enum\",\"name\":\"Reason\",\"symbols\":["
        "\"OVERSIZED\",\"MOON_PHASE\"]}},{\"name\":\"attempts\",\"type\":\"int\"},"
        "{\"name\":\"decided_at\",\"type\":\"long\"},{\"name\":\"topic\",\"type\":\"string\"},"
        "{\"name\":\"partition\",\"type\":\"int\"},{\"name\":\"offset\",\"type\":\"int\"}]}";
    static const char known[] = "\0\0\0\0\0\0", unknown[] = "\x02\0\0\0\0\0",
                      bad[] = "\x04\0\0\0\0\0";
    assert_int_equal(compile(f, json, &rp_dead_letter_shape), 0);
    assert_int_equal(
        rp_plan_run(f->plan, (struct rp_bytes){known, 6}, 0, &f->arena, &letter, &f->err), 0);
    assert_int_equal(letter.reason, RP_OVERSIZED);
    assert_int_equal(
        rp_plan_run(f->plan, (struct rp_bytes){unknown, 6}, 0, &f->arena, &letter, &f->err), 0);
    assert_int_equal(letter.reason, RP_OTHER);
    assert_poison(f,
                  rp_plan_run(f->plan, (struct rp_bytes){bad, 6}, 0, &f->arena, &letter, &f->err),
                  "byte 0: reason: symbol 2 of 2");
}

static void recursive_data_is_skipped_but_not_without_end(void **state)
{
    struct fixture *f = *state;
    assert_compiles(f, WRITER(",{\"name\":\"x\",\"type\":{\"type\":\"record\",\"name\":\"Node\","
                              "\"fields\":[{\"name\":\"next\",\"type\":[\"null\",\"Node\"]}]}}"));
    assert_reads(f, RUN(f, RECORD "\x02\x02\x02\0"));
    char deep[sizeof RECORD - 1 + 100000];
    memset(deep, 2, sizeof deep);
    memcpy(deep, RECORD, sizeof RECORD - 1);
    assert_poison(f, run(f, deep, sizeof deep), "nested deeper than 200");
}

/* An array of nulls may claim any number of items: it must neither take time nor end the record. */
static void items_without_bytes_take_no_time(void **state)
{
    struct fixture *f = *state;
    assert_compiles(f,
                    WRITER(",{\"name\":\"x\",\"type\":{\"type\":\"array\",\"items\":\"null\"}}"));
    assert_reads(f, RUN(f, RECORD "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"));
    assert_compiles(f, WRITER(",{\"name\":\"x\",\"type\":{\"type\":\"array\",\"items\":"
                              "{\"type\":\"fixed\",\"name\":\"F\",\"size\":0}}}"));
    assert_reads(f, RUN(f, RECORD "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"));
}

/* Each record holds two of the one before: 2^30 ints in a schema of 3 KB. */
static void a_schema_that_doubles_makes_a_small_plan(void **state)
{
    struct fixture *f = *state;
    char json[8192] = WRITER("");
    size_t n = strlen(json) - 2; /* without the closing brackets */
    for (int i = 0; i < 30; i++)
        n += (size_t)snprintf(json + n, sizeof json - n,
                              ",{\"name\":\"f%d\",\"type\":[\"null\",{\"type\":\"record\","
                              "\"name\":\"R%d\",\"fields\":[{\"name\":\"a\",\"type\":\"%s%.0d\"},"
                              "{\"name\":\"b\",\"type\":\"%s%.0d\"}]}]}",
                              i, i,
                              i == 0   ? "int"
                              : i == 1 ? "R0"
                                       : "R",
                              i < 2 ? 0 : i - 1,
                              i == 0   ? "int"
                              : i == 1 ? "R0"
                                       : "R",
                              i < 2 ? 0 : i - 1);
    (void)snprintf(json + n, sizeof json - n, "]}");
    assert_compiles(f, json);
    char bytes[64] = RECORD;
    n = sizeof RECORD - 1;
    memset(bytes + n, 0, 29); /* all null but the last */
    bytes[n + 29] = 2;
    assert_poison(f, run(f, bytes, n + 34), "the bytes end within a number");
}

/* `[first,"name","name",...]`: avro-c takes a record that a union names again. */
static char *put_union(char *at, const char *first, const char *name, int again)
{
    at += sprintf(at, "[%s", first);
    for (int i = 0; i < again; i++)
        at += sprintf(at, ",\"%s\"", name);
    *at++ = ']';
    *at = '\0';
    return at;
}

/* A task's, whose error is of one of 1,001 alike. */
static const char *wide_schema(void)
{
    static char error[65536], task[65536 + sizeof error];
    char record[1024];
    (void)snprintf(record, sizeof record,
                   "{\"type\":\"record\",\"name\":\"Error\",\"fields\":["
                   "{\"name\":\"class\",\"type\":\"string\"},"
                   "{\"name\":\"message\",\"type\":\"string\"}]}");
    (void)put_union(error, record, "Error", 1000);
    (void)snprintf(task, sizeof task,
                   "{\"type\":\"record\",\"name\":\"FailedTask\",\"fields\":["
                   "{\"name\":\"task_id\",\"type\":\"string\"},"
                   "{\"name\":\"task_type\",\"type\":\"string\"},"
                   "{\"name\":\"attempt\",\"type\":\"int\"},{\"name\":\"error\",\"type\":%s},"
                   "{\"name\":\"source\",\"type\":\"string\"},"
                   "{\"name\":\"failed_at\",\"type\":\"long\"}]}",
                   error);
    return task;
}

/* Without a bound this one would take some 200 MB, and with one more level gigabytes. */
static void a_schema_that_unfolds_without_end_is_refused(void **state)
{
    struct fixture *f = *state;
    static char json[1 << 18];
    assert_compiles(f, wide_schema());
    (void)put_union(json, wide_schema(), "FailedTask", 1000);
    assert_incompatible(f, json, "the writer's schema unfolds to more than 524288 steps");
}

static void plans_are_kept_up_to_so_many_bytes(void **state)
{
    struct fixture *f = *state;
    struct rp_plan_cache cache = {0};
    size_t before = 0;
    for (uint64_t key = 0; cache.n >= before; key++) {
        before = cache.n;
        assert_compiles(f, wide_schema());
        assert_true(rp_plan_bytes(f->plan) > 100000);
        assert_int_equal(rp_plan_cache_add(&cache, key, f->plan, NULL, &f->err), 0);
        f->plan = NULL;
        assert_true(cache.bytes <= RP_PLAN_CACHE_BYTES && key < RP_PLAN_CACHE_MAX);
    }
    assert_int_equal(cache.n, 1);
    rp_plan_cache_clear(&cache);
}

#define PLAN_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST(fields_that_an_older_writer_lacks_take_their_defaults),
        PLAN_TEST(fields_of_a_newer_writer_are_skipped),
        PLAN_TEST(a_map_in_blocks_of_stated_size_is_skipped),
        PLAN_TEST(an_int_is_promoted_to_a_time),
        PLAN_TEST(a_long_is_no_attempt),
        PLAN_TEST(an_int_of_more_than_32_bits_is_refused),
        PLAN_TEST(a_union_is_refused_only_when_its_other_branch_comes),
        PLAN_TEST(null_where_a_value_must_be_is_refused),
        PLAN_TEST(a_field_without_default_must_be_there),
        PLAN_TEST(another_record_is_not_ours),
        PLAN_TEST(a_union_may_hold_the_record),
        PLAN_TEST(the_namespace_does_not_matter),
        PLAN_TEST(an_unknown_reason_is_other),
        PLAN_TEST(recursive_data_is_skipped_but_not_without_end),
        PLAN_TEST(items_without_bytes_take_no_time),
        PLAN_TEST(a_schema_that_doubles_makes_a_small_plan),
        PLAN_TEST(a_schema_that_unfolds_without_end_is_refused),
        PLAN_TEST(plans_are_kept_up_to_so_many_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
