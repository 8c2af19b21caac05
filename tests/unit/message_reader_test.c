/* SPDX-License-Identifier: Apache-2.0 */
/* The registry is played: it says what the test has for the next question. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "file_fixture.h"
#include "memory_fixture.h"
#include "message_reader.h"
#include "registry.h"

#define INT_SCHEMA "\"int\""

static struct rp_error says; /* RP_OK: this schema */
static int times;            /* it says so, before the schema */
static int questions, naps;
static const char *schema_text = INT_SCHEMA;

int __wrap_rp_registry_schema(struct rp_registry *r, int32_t id, const char **json,
                              struct rp_error *err);
int __wrap_nanosleep(const struct timespec *want, struct timespec *left);

int __wrap_rp_registry_schema(struct rp_registry *r, int32_t id, const char **json,
                              struct rp_error *err)
{
    (void)r;
    assert_true(id >= 0);
    if (questions++ < times) {
        *err = says;
        return -1;
    }
    *json = schema_text;
    return 0;
}

int __wrap_nanosleep(const struct timespec *want, struct timespec *left)
{
    (void)want;
    (void)left;
    naps++;
    return 0;
}

static char any;
static struct rp_message_reader *reader;
static struct rp_error err;
static enum rp_payload_form form;
static const struct rp_schema *schema;
static size_t prefix;

/* A reader with a registry, and with a schema for all where there is one. */
static void open_reader(const char *file)
{
    rp_message_reader_free(reader);
    questions = naps = 0;
    schema_text = INT_SCHEMA;
    if (rp_message_reader_new(file, (struct rp_registry *)(void *)&any, &reader, &err) != 0)
        fail_msg("%s", err.text);
}

static int look(const void *payload, size_t len)
{
    return rp_payload_form_of(reader, (struct rp_bytes){payload, len}, &form, &schema, &prefix,
                              &err);
}

static int set_up(void **state)
{
    (void)state;
    times = 0;
    open_reader(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rp_message_reader_free(reader);
    reader = NULL;
    return 0;
}

static void what_only_looks_like_a_number_is_text(void **state)
{
    static const char *const texts[] = {"{\"a\":--1}", "[1.-5]",  "[1e--5]", "[1E+-5]",
                                        "[--1.5e3]",   "[-01.5]", "[01]",    "[1-5]"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(look(texts[i], strlen(texts[i])), 0);
        assert_int_equal(form, RP_PAYLOAD_TEXT);
    }
    assert_int_equal(look("[-1,-12.5e-3]", 13), 0);
    assert_int_equal(form, RP_PAYLOAD_JSON);
}

/* jansson passes over it behind a number. */
static void a_nul_byte_makes_no_json(void **state)
{
    (void)state;
    assert_int_equal(look("1\0", 2), 0);
    assert_int_equal(form, RP_PAYLOAD_TEXT);
    assert_int_equal(look("{\"a\": 5\0, \"b\": 1}", 17), 0);
    assert_int_equal(form, RP_PAYLOAD_TEXT);
    assert_int_equal(look("\"\\u0000\"", 8), 0);
    assert_int_equal(form, RP_PAYLOAD_JSON);
}

static void a_schema_is_asked_for_once_by_its_id(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(look("\0\0\0\0\1\2", 6), 0);
        assert_int_equal(form, RP_PAYLOAD_AVRO);
        assert_int_equal(prefix, 5);
        assert_int_equal(look("\0\0\0\0\2\2", 6), 0);
    }
    assert_int_equal(questions, 2);
}

static void what_is_no_id_is_not_asked_for(void **state)
{
    static const struct rp_bytes payloads[] = {
        {"\0\x80\0\0\1\2", 6}, {"\0\0\0\0\1", 5}, {"\1\0\0\0\1\2", 6}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(look(payloads[i].data, payloads[i].len), 0);
        assert_null(schema);
        assert_int_equal(prefix, 0);
    }
    assert_int_equal(questions, 0);
}

static void a_registry_that_does_not_answer_at_once_is_waited_for(void **state)
{
    (void)state;
    (void)rp_fail(&says, RP_E_TIMEOUT, RP_RETRIABLE, "no answer yet");
    times = 7;
    assert_int_equal(look("\0\0\0\0\1\2", 6), 0);
    assert_int_equal(form, RP_PAYLOAD_AVRO);
    assert_int_equal(naps, 7);
    times = 1000000;
    open_reader(NULL);
    assert_int_equal(look("\0\0\0\0\1\2", 6), -1);
    assert_int_equal(err.code, RP_E_TIMEOUT);
    assert_int_equal(naps, 200); /* ten seconds of them */
}

static void one_that_is_away_is_told_of_and_one_without_the_id_has_no_schema(void **state)
{
    (void)state;
    times = 1;
    (void)rp_fail(&says, RP_E_IO, RP_RETRIABLE, "away");
    assert_int_equal(look("\0\0\0\0\1\2", 6), -1);
    assert_string_equal(err.text, "away");
    open_reader(NULL);
    (void)rp_fail(&says, RP_E_NOT_FOUND, RP_POISON, "not known there");
    assert_int_equal(look("\0\0\0\0\1\2", 6), 0);
    assert_null(schema);
    open_reader(NULL);
    times = 0;
    schema_text = "{\"type\": \"nothing\"}";
    assert_int_equal(look("\0\0\0\0\1\2", 6), 0);
    assert_null(schema);
}

static int look_with_memory(struct rp_error *why)
{
    struct rp_message_reader *r;
    int rc = rp_message_reader_new(NULL, (struct rp_registry *)(void *)&any, &r, why);
    if (rc == 0) {
        rc = rp_payload_form_of(r, (struct rp_bytes){"\0\0\0\0\1\2", 6}, &form, &schema, &prefix,
                                why);
        assert_true(rc != 0 || form == RP_PAYLOAD_AVRO);
        rp_message_reader_free(r);
    }
    return rc;
}

static char file[] = "/tmp/reprise-schema-XXXXXX";

static int open_with_memory(struct rp_error *why)
{
    struct rp_message_reader *r;
    if (rp_message_reader_new(file, NULL, &r, why) != 0)
        return -1;
    rp_message_reader_free(r);
    return 0;
}

static void a_schema_of_a_file_is_of_all_payloads(void **state)
{
    struct rp_schema parsed;
    uint64_t fingerprint;
    uint8_t payload[11] = {0xC3, 0x01};
    (void)state;
    file_make(file, INT_SCHEMA, sizeof INT_SCHEMA - 1);
    open_reader(file);
    assert_int_equal(rp_schema_parse(rp_str(INT_SCHEMA), &parsed, &err), 0);
    assert_int_equal(rp_schema_fingerprint(parsed.root, &fingerprint, &err), 0);
    rp_schema_clear(&parsed);
    for (int i = 0; i < 8; i++)
        payload[2 + i] = (uint8_t)(fingerprint >> (8 * i));
    for (size_t wrong = 0; wrong <= sizeof payload; wrong++) { /* that byte; at last, none */
        if (wrong < sizeof payload)
            payload[wrong]++;
        assert_int_equal(look(payload, sizeof payload), 0);
        assert_int_equal(form, RP_PAYLOAD_AVRO);
        assert_int_equal(prefix, wrong < 10 ? 0 : 10);
        if (wrong < sizeof payload)
            payload[wrong]--;
    }
    assert_int_equal(look(payload, 9), 0);
    assert_int_equal(prefix, 0);
    assert_true(starve(open_with_memory) > 2);
    assert_true(starve(look_with_memory) >= 2);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(open_with_memory(&err), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_memory_equal(err.text, file, sizeof file - 1);
}

#define INTS_SCHEMA "{\"type\":\"array\",\"items\":\"int\"}"

static const struct {
    struct rp_bytes payload;
    size_t prefix;
} zeroes[] = {
    {{"\0\0\0\0\7\2\4\0", 8}, 5}, /* an id, and an array of one */
    {{"\0\0\0\0\7\0", 6}, 5},     /* an array of none */
    {{"\0\0\0\0\7\2\4", 7}, 0},   /* neither */
    {{"\0\0\0\0\7", 5}, 0},       /* there is nothing behind the id */
    {{"\0", 1}, 0},
    {{"\2\4\0", 3}, 0},
};

static char ints_file[] = "/tmp/reprise-schema-XXXXXX";

static int look_at_zeroes(struct rp_error *why)
{
    struct rp_message_reader *r;
    int rc = rp_message_reader_new(ints_file, NULL, &r, why);
    for (size_t i = 0; rc == 0 && i < sizeof zeroes / sizeof *zeroes; i++) {
        rc = rp_payload_form_of(r, zeroes[i].payload, &form, &schema, &prefix, why);
        if (rc == 0)
            assert_int_equal(prefix, zeroes[i].prefix);
    }
    rp_message_reader_free(r);
    return rc;
}

static void a_schema_of_a_file_reads_what_has_an_id_in_front(void **state)
{
    (void)state;
    file_make(ints_file, INTS_SCHEMA, sizeof INTS_SCHEMA - 1);
    assert_int_equal(look_at_zeroes(&err), 0);
    assert_true(starve(look_at_zeroes) > 4);
    (void)rp_fail(&says, RP_E_NOT_FOUND, RP_POISON, "not known there");
    times = 1;
    open_reader(ints_file);
    assert_int_equal(look("\0\0\0\0\7\2\4\0", 8), 0);
    assert_int_equal(questions, 1);
    assert_int_equal(form, RP_PAYLOAD_AVRO);
    assert_int_equal(prefix, 5);
    assert_int_equal(unlink(ints_file), 0);
}

static void what_begins_with_00_and_is_a_whole_value_is_bare(void **state)
{
    static const char bare_schema[] = "{\"type\":\"record\",\"name\":\"r\",\"fields\":["
                                      "{\"name\":\"a\",\"type\":\"string\"},"
                                      "{\"name\":\"b\",\"type\":\"bytes\"}]}";
    char path[] = "/tmp/reprise-schema-XXXXXX";
    (void)state;
    file_make(path, bare_schema, sizeof bare_schema - 1);
    (void)rp_fail(&says, RP_E_NOT_FOUND, RP_POISON, "not known there");
    times = 1;
    open_reader(path);
    assert_int_equal(look("\0\x0a\0\0\0\0\0", 7), 0);
    assert_int_equal(prefix, 0);
    assert_int_equal(unlink(path), 0);
}

static void a_file_without_a_schema_is_named(void **state)
{
    char bad[] = "/tmp/reprise-schema-XXXXXX";
    struct rp_message_reader *r;
    (void)state;
    file_make(bad, "{", 1);
    assert_int_equal(rp_message_reader_new(bad, NULL, &r, &err), -1);
    assert_memory_equal(err.text, bad, sizeof bad - 1);
    assert_int_equal(unlink(bad), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(what_only_looks_like_a_number_is_text),
        T(a_nul_byte_makes_no_json),
        T(a_schema_is_asked_for_once_by_its_id),
        T(what_is_no_id_is_not_asked_for),
        T(a_registry_that_does_not_answer_at_once_is_waited_for),
        T(one_that_is_away_is_told_of_and_one_without_the_id_has_no_schema),
        T(a_schema_of_a_file_is_of_all_payloads),
        T(a_schema_of_a_file_reads_what_has_an_id_in_front),
        T(what_begins_with_00_and_is_a_whole_value_is_bare),
        T(a_file_without_a_schema_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
