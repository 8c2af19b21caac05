/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "codec.h"
#include "codec_fixture.h"
#include "embedded.h"
#include "error_fixture.h"
#include "memory_fixture.h"
#include "registry_fixture.h"

#define NOT_FOUND "{\"error_code\":40403,\"message\":\"Schema 9 not found\"}"

static void a_schema_is_fetched_once(void **state)
{
    struct fixture *f = *state;
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    assert_schema(f, 17, "\"int\"");
    assert_string_equal(f->path, "/schemas/ids/17");
    assert_string_equal(f->user, "");
    say(f, 500, "");
    test_mono_ms += 1000000;
    assert_schema(f, 17, "\"int\"");
    assert_int_equal(f->requests, 1);
}

static void schemas_are_kept_apart_by_id(void **state)
{
    struct fixture *f = *state;
    for (int32_t round = 0; round < 2; round++) {
        for (int32_t id = 1; id <= 40; id++) {
            char body[40], expected[20];
            int32_t mixed = id * 17 % 41;
            (void)snprintf(body, sizeof body, "{\"schema\": \"%d\"}", (int)mixed);
            (void)snprintf(expected, sizeof expected, "%d", (int)mixed);
            say(f, 200, body);
            assert_schema(f, mixed, expected);
        }
    }
    assert_int_equal(f->requests, 40);
}

static void what_is_kept_of_large_schemas_has_a_bound(void **state)
{
    enum { LARGE = 1000000, FIT = (64 << 20) / (LARGE + 1) };
    struct fixture *f = *state;
    char *body = NULL, *expected = NULL;
    assert_true(asprintf(&expected, "%0*d", LARGE, 0) == LARGE);
    assert_true(asprintf(&body, "{\"schema\": \"%s\"}", expected) > 0);
    say(f, 200, body);
    for (int round = 0; round < 2; round++)
        for (int32_t id = 1; id <= FIT; id++)
            assert_schema_soon(f, id, expected);
    assert_int_equal(f->requests, FIT);
    assert_schema_soon(f, FIT + 1, expected); /* nothing else is left */
    assert_schema_soon(f, FIT + 1, expected);
    assert_schema_soon(f, 1, expected);
    assert_int_equal(f->requests, FIT + 2);
    free(expected);
    free(body);
}

static void a_path_in_the_url_and_its_last_slash_are_fine(void **state)
{
    struct fixture *f = *state;
    struct rp_registry_options options = options_of(f);
    char url[120];
    (void)snprintf(url, sizeof url, "%s/apis/ccompat/v7/", f->url);
    options.url = url;
    use(f, options);
    say(f, 200, "{\"schema\": \"\\\"int\\\"\", \"schemaType\": \"AVRO\", \"references\": []}");
    assert_schema(f, 3, "\"int\"");
    assert_string_equal(f->path, "/apis/ccompat/v7/schemas/ids/3");
}

static void username_and_password_go_with_the_request(void **state)
{
    struct fixture *f = *state;
    struct rp_registry_options options = options_of(f);
    options.username = "reprise";
    options.password = "s3cr:et";
    use(f, options);
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    assert_schema(f, 1, "\"int\"");
    assert_string_equal(f->user, "reprise");
    assert_string_equal(f->password, "s3cr:et");
}

static void an_unknown_id_is_poison_and_remembered_for_a_second(void **state)
{
    struct fixture *f = *state;
    say(f, 404, NOT_FOUND);
    assert_fails(f, 9, RP_POISON, "schema id 9 is not known there");
    assert_fails(f, 9, RP_POISON, "schema id 9 is not known there");
    assert_int_equal(f->requests, 1);
    test_mono_ms += 1000;
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    assert_schema(f, 9, "\"int\"");
    assert_int_equal(f->requests, 2);
}

static void an_unknown_id_does_not_hinder_others(void **state)
{
    struct fixture *f = *state;
    say(f, 404, NOT_FOUND);
    assert_fails(f, 9, RP_POISON, "not known");
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    assert_schema(f, 10, "\"int\"");
}

static void a_server_error_is_retriable_and_remembered_for_two_seconds(void **state)
{
    struct fixture *f = *state;
    say(f, 500, "{\"error_code\":50001}");
    assert_fails(f, 1, RP_RETRIABLE, "schema id 1 is not told: it answers with status 500");
    test_mono_ms += 1999;
    assert_fails(f, 1, RP_RETRIABLE, "status 500");
    assert_int_equal(f->requests, 1);
    test_mono_ms += 1;
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    assert_schema_soon(f, 1, "\"int\"");
}

static void a_404_that_is_not_the_registrys_is_retriable(void **state)
{
    const char *const bodies[] = {"<html>default backend</html>", "", "[]", "40403",
                                  "{\"error_code\":404,\"message\":\"HTTP 404 Not Found\"}"};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        use(f, options_of(f));
        say(f, 404, bodies[i]);
        assert_fails(f, 1, RP_RETRIABLE, "status 404: check the registry's url");
    }
    assert_int_equal(fail_for_s(f, 1, 20), 20000);
}

static void a_refusal_is_retriable_and_says_what_to_check(void **state)
{
    struct fixture *f = *state;
    say(f, 401, "");
    assert_fails(f, 1, RP_RETRIABLE, "status 401: check username and password");
    use(f, options_of(f));
    say(f, 403, "");
    assert_fails(f, 1, RP_RETRIABLE, "status 403: check username and password");
}

static void an_id_that_is_refused_does_not_hinder_others(void **state)
{
    struct fixture *f = *state;
    say(f, 403, "");
    assert_fails(f, 7, RP_RETRIABLE, "schema id 7 is not told");
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    assert_schema_soon(f, 8, "\"int\"");
    assert_fails(f, 7, RP_RETRIABLE, "schema id 7 is not told");
    assert_int_equal(f->requests, 2);
}

static void an_id_fails_for_as_long_as_it_is_refused(void **state)
{
    struct fixture *f = *state;
    say(f, 500, "");
    assert_int_equal(fail_for_s(f, 7, 20), 20000);
    say(f, 404, NOT_FOUND);
    const char *json;
    while (rp_registry_schema(f->registry, 9, &json, &f->err) != 0 && f->err.code == RP_E_TIMEOUT)
        (void)usleep(1000);
    assert_int_equal(f->err.cls, RP_POISON);
    say(f, 500, "");
    assert_int_equal(fail_for_s(f, 7, 20), 40000);
    test_mono_ms += 30001; /* nobody asked */
    assert_int_equal(failing_ms(f, 7), 0);
}

static void ids_that_are_denied_fail_as_one(void **state)
{
    struct fixture *f = *state;
    for (int id = 10; id < 13; id++) {
        say(f, 403, "");
        assert_int_equal(fail_for_s(f, id, 20), 20000 * (id - 9));
        say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
        assert_schema_soon(f, 10 * id, "\"int\"");
    }
    test_mono_ms += 2000;
    assert_schema_soon(f, 12, "\"int\"");
    say(f, 403, "");
    assert_int_equal(fail_for_s(f, 13, 5), 5000);
}

/* It answers all the while. */
static void what_is_denied_leaves_other_ids_their_time(void **state)
{
    struct fixture *f = *state;
    say(f, 403, "");
    assert_int_equal(fail_for_s(f, 10, 20), 20000);
    say(f, 503, "");
    test_mono_ms += 2000;
    assert_int_equal(fail_for_s(f, 11, 5), 5000);
}

static void an_outage_ends_with_the_first_good_answer(void **state)
{
    struct fixture *f = *state;
    say(f, 503, "");
    assert_int_equal(fail_for_s(f, 1, 200), 200000);
    assert_int_equal(fail_for_s(f, 2, 100), 300000);
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    assert_schema_soon(f, 3, "\"int\"");
    say(f, 503, "");
    test_mono_ms += 1000;
    assert_int_equal(fail_for_s(f, 4, 5), 5000);
}

static void what_is_no_avro_schema_is_poison_for_ever(void **state)
{
    struct fixture *f = *state;
    say(f, 200, "{\"schema\": \"syntax = \\\"proto3\\\";\", \"schemaType\": \"PROTOBUF\"}");
    assert_fails(f, 4, RP_POISON, "schema id 4 is no Avro schema");
    test_mono_ms += 1000000;
    assert_fails(f, 4, RP_POISON, "schema id 4 is no Avro schema");
    assert_int_equal(f->requests, 1);
    say(f, 200, "{\"schema\": \"\\\"a.B\\\"\", \"references\": [{\"name\": \"a.B\"}]}");
    assert_fails(f, 5, RP_POISON, "refers to other subjects");
}

static void an_answer_without_a_schema_is_retriable(void **state)
{
    struct fixture *f = *state;
    say(f, 200, "<html>Please log in</html>");
    assert_fails(f, 1, RP_RETRIABLE, "the answer holds no schema");
}

static void an_answer_without_end_is_cut(void **state)
{
    struct fixture *f = *state;
    char *body = malloc(2 << 20);
    assert_non_null(body);
    memset(body, ' ', 2 << 20);
    body[(2 << 20) - 1] = '\0';
    say(f, 200, body);
    assert_fails(f, 1, RP_POISON, "schema id 1 is larger than 1 MiB");
    say(f, 502, body); /* that is no schema */
    assert_fails(f, 2, RP_RETRIABLE, "status 502");
    free(body);
}

static void a_registry_that_does_not_answer_in_time_is_retriable(void **state)
{
    struct fixture *f = *state;
    struct rp_registry_options options = options_of(f);
    options.timeout_ms = 50;
    use(f, options);
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    set_stuck(f, true);
    assert_fails(f, 1, RP_RETRIABLE, "schema registry: ");
    set_stuck(f, false);
}

static void a_registry_that_hangs_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    int64_t began_mono_ms = rp_mono_ms();
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    set_stuck(f, true);
    for (int32_t id = 1; id <= 1000; id++)
        assert_no_answer_yet(f, id);
    assert_true(rp_mono_ms() - began_mono_ms < 5000); /* half of what one request may take */
    set_stuck(f, false);
    assert_schema_soon(f, 1, "\"int\"");
    assert_schema_soon(f, 1000, "\"int\"");
    assert_int_equal(f->requests, 2);
}

static void nobody_waits_for_a_registry_that_was_away_until_it_answers(void **state)
{
    struct fixture *f = *state;
    int64_t began_mono_ms = rp_mono_ms();
    say(f, 503, "");
    assert_fails(f, 1, RP_RETRIABLE, "status 503");
    test_mono_ms += 2000;
    set_stuck(f, true);
    for (int32_t id = 1; id <= 1000; id++)
        assert_no_answer_yet(f, id);
    assert_true(rp_mono_ms() - began_mono_ms < 5000);
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    set_stuck(f, false);
    assert_schema_soon(f, 1, "\"int\"");
    assert_schema(f, 2, "\"int\"");
}

static void a_registry_that_is_away_is_retriable(void **state)
{
    struct fixture *f = *state;
    struct rp_registry_options options = options_of(f);
    options.url = "http://127.0.0.1:1";
    use(f, options);
    assert_fails(f, 1, RP_RETRIABLE, "schema registry: ");
    assert_fails(f, 2, RP_RETRIABLE, "schema registry: ");
    assert_int_equal(f->err.code, RP_E_IO); /* nobody asked for the second one */
}

static void without_memory_no_schema_is_poison(void **state)
{
    struct fixture *f = *state;
    bool failed = true;
    int n = 0;
    say(f, 200, "{\"schema\": \"\\\"int\\\"\"}");
    while (failed) {
        const char *json;
        int rc;
        use(f, options_of(f));
        memory_fail_at(++n);
        do
            rc = rp_registry_schema(f->registry, 1, &json, &f->err);
        while (rc != 0 && f->err.code == RP_E_TIMEOUT);
        failed = memory_failed();
        memory_fail_at(0);
        assert_int_equal(rc, failed ? -1 : 0);
        if (failed)
            assert_int_equal(f->err.cls, RP_RETRIABLE);
    }
    assert_true(n > 3);
}

static void what_is_no_url_is_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const urls[] = {"", "localhost", "file:///etc/passwd", "http://", "x y"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct rp_registry_options options = options_of(f);
        struct rp_registry *registry;
        options.url = urls[i];
        assert_int_equal(rp_registry_new(&options, &registry, &f->err), -1);
        assert_int_equal(f->err.code, RP_E_CONFIG);
    }
}

static struct rp_buf confluent_of(uint8_t id, const struct rp_failed_task *task)
{
    struct rp_buf single = {0}, out = {0};
    struct rp_error err;
    uint8_t head[5] = {0, 0, 0, 0, id};
    assert_int_equal(rp_failed_task_encode(task, &single, &err), 0);
    assert_int_equal(rp_buf_append(&out, head, sizeof head, &err), 0);
    assert_int_equal(rp_buf_append(&out, single.data + 10, single.len - 10, &err), 0);
    rp_buf_clear(&single);
    return out;
}

/* {"schema": the JSON, in a string} */
static char *body_of(const char *json)
{
    char *body = malloc(2 * strlen(json) + 20), *p = body;
    assert_non_null(body);
    p = stpcpy(p, "{\"schema\": \"");
    for (; *json != '\0'; json++) {
        if (*json == '"' || *json == '\\')
            *p++ = '\\';
        *p++ = *json == '\n' ? ' ' : *json;
    }
    (void)strcpy(p, "\"}");
    return body;
}

static void the_codec_reads_the_confluent_format(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task(), back;
    struct rp_arena arena = {0};
    struct rp_codec *codec;
    struct rp_buf value = confluent_of(7, &task);
    char *body = body_of(rp_embedded_schemas[RP_EMBEDDED_FAILED_TASK].json);
    assert_int_equal(rp_codec_new(f->registry, &codec, &f->err), 0);

    say(f, 503, "");
    assert_int_equal(rp_codec_decode_task(codec, rp_buf_bytes(&value), &arena, &back, &f->err), -1);
    assert_int_equal(f->err.cls, RP_RETRIABLE);
    test_mono_ms += 2000;
    say(f, 200, body);
    while (rp_codec_decode_task(codec, rp_buf_bytes(&value), &arena, &back, &f->err) != 0)
        assert_int_equal(f->err.cls, RP_RETRIABLE);
    for (int i = 0; i < 3; i++) {
        if (rp_codec_decode_task(codec, rp_buf_bytes(&value), &arena, &back, &f->err) != 0)
            fail_msg("%s", f->err.text);
        assert_task_equal(&task, &back);
    }
    assert_int_equal(f->requests, 2);
    rp_codec_free(codec);
    rp_buf_clear(&value);
    rp_arena_clear(&arena);
    free(body);
}

static void a_schema_that_is_not_ours_makes_its_records_poison(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task(), back;
    struct rp_arena arena = {0};
    struct rp_codec *codec;
    struct rp_buf value = confluent_of(8, &task);
    assert_int_equal(rp_codec_new(f->registry, &codec, &f->err), 0);
    say(f, 200, "{\"schema\": \"\\\"string\\\"\"}");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rp_codec_decode_task(codec, rp_buf_bytes(&value), &arena, &back, &f->err),
                         -1);
        assert_int_equal(f->err.cls, RP_POISON);
        assert_non_null(strstr(f->err.text, "schema id 8: the writer's schema is of type string"));
    }
    assert_int_equal(f->requests, 1);
    rp_codec_free(codec);
    rp_buf_clear(&value);
    rp_arena_clear(&arena);
}

#define REGISTRY_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REGISTRY_TEST(a_schema_is_fetched_once),
        REGISTRY_TEST(schemas_are_kept_apart_by_id),
        REGISTRY_TEST(what_is_kept_of_large_schemas_has_a_bound),
        REGISTRY_TEST(a_path_in_the_url_and_its_last_slash_are_fine),
        REGISTRY_TEST(username_and_password_go_with_the_request),
        REGISTRY_TEST(an_unknown_id_is_poison_and_remembered_for_a_second),
        REGISTRY_TEST(an_unknown_id_does_not_hinder_others),
        REGISTRY_TEST(a_server_error_is_retriable_and_remembered_for_two_seconds),
        REGISTRY_TEST(a_404_that_is_not_the_registrys_is_retriable),
        REGISTRY_TEST(a_refusal_is_retriable_and_says_what_to_check),
        REGISTRY_TEST(an_id_that_is_refused_does_not_hinder_others),
        REGISTRY_TEST(an_id_fails_for_as_long_as_it_is_refused),
        REGISTRY_TEST(ids_that_are_denied_fail_as_one),
        REGISTRY_TEST(what_is_denied_leaves_other_ids_their_time),
        REGISTRY_TEST(an_outage_ends_with_the_first_good_answer),
        REGISTRY_TEST(what_is_no_avro_schema_is_poison_for_ever),
        REGISTRY_TEST(an_answer_without_a_schema_is_retriable),
        REGISTRY_TEST(an_answer_without_end_is_cut),
        REGISTRY_TEST(a_registry_that_does_not_answer_in_time_is_retriable),
        REGISTRY_TEST(a_registry_that_hangs_is_not_waited_for),
        REGISTRY_TEST(nobody_waits_for_a_registry_that_was_away_until_it_answers),
        REGISTRY_TEST(a_registry_that_is_away_is_retriable),
        REGISTRY_TEST(what_is_no_url_is_refused),
        REGISTRY_TEST(without_memory_no_schema_is_poison),
        REGISTRY_TEST(the_codec_reads_the_confluent_format),
        REGISTRY_TEST(a_schema_that_is_not_ours_makes_its_records_poison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
