/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "codec.h"
#include "codec_fixture.h"
#include "error_fixture.h"
#include "reprise/rng.h"

struct fixture {
    struct rp_codec *codec;
    struct rp_arena arena;
    struct rp_buf buf;
    struct rp_error err;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL || rp_codec_new(NULL, &f->codec, &f->err) != 0)
        return -1;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_codec_free(f->codec);
    rp_arena_clear(&f->arena);
    rp_buf_clear(&f->buf);
    free(f);
    return 0;
}

static int decode(struct fixture *f, struct rp_bytes value, struct rp_failed_task *out)
{
    rp_arena_reset(&f->arena);
    return rp_codec_decode_task(f->codec, value, &f->arena, out, &f->err);
}

static void assert_undecodable(struct fixture *f, struct rp_bytes value, const char *because)
{
    struct rp_failed_task task;
    assert_int_equal(decode(f, value, &task), -1);
    assert_int_equal(f->err.cls, RP_POISON);
    assert_says(&f->err, because);
}

static void encode(struct fixture *f, const struct rp_failed_task *task)
{
    f->buf.len = 0;
    if (rp_failed_task_encode(task, &f->buf, &f->err) != 0)
        fail_msg("%s", f->err.text);
}

static void assert_round_trip(struct fixture *f, const struct rp_failed_task *task)
{
    struct rp_failed_task back;
    encode(f, task);
    if (decode(f, rp_buf_bytes(&f->buf), &back) != 0)
        fail_msg("%s", f->err.text);
    assert_task_equal(task, &back);
}

static void what_was_encoded_is_decoded(void **state)
{
    struct rp_failed_task sample = sample_task(), plain = plain_task();
    assert_round_trip(*state, &sample);
    assert_round_trip(*state, &plain);
}

static void a_dead_letter_goes_there_and_back(void **state)
{
    struct fixture *f = *state;
    struct rp_dead_letter with_task = sample_letter(), raw = sample_letter(), back;
    raw.has_task = false;
    raw.raw = (struct rp_bytes){"\xff\x00", 2};
    raw.detail = raw.category = raw.policy = RP_NULL_BYTES;
    for (enum rp_reason reason = 0; reason < RP_N_REASONS; reason++) {
        struct rp_dead_letter *letter = reason % 2 == 0 ? &with_task : &raw;
        letter->reason = reason;
        f->buf.len = 0;
        assert_int_equal(rp_dead_letter_encode(letter, &f->buf, &f->err), 0);
        assert_int_equal(
            rp_codec_decode_dead_letter(f->codec, rp_buf_bytes(&f->buf), &f->arena, &back, &f->err),
            0);
        assert_letter_equal(letter, &back);
    }
}

static void a_reason_that_is_none_is_other(void **state)
{
    struct fixture *f = *state;
    struct rp_dead_letter letter = sample_letter(), back;
    letter.reason = RP_N_REASONS;
    assert_int_equal(rp_dead_letter_encode(&letter, &f->buf, &f->err), 0);
    assert_int_equal(
        rp_codec_decode_dead_letter(f->codec, rp_buf_bytes(&f->buf), &f->arena, &back, &f->err), 0);
    assert_int_equal(back.reason, RP_OTHER);
}

static void bare_binary_is_decoded(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task(), back;
    encode(f, &task);
    struct rp_bytes bare = {f->buf.data + 10, f->buf.len - 10};
    assert_int_equal(decode(f, bare, &back), 0);
    assert_task_equal(&task, &back);
}

static void decoding_copies_no_bytes(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task(), back;
    encode(f, &task);
    assert_int_equal(decode(f, rp_buf_bytes(&f->buf), &back), 0);
    const uint8_t *payload = back.payload.data;
    assert_true(payload > f->buf.data && payload < f->buf.data + f->buf.len);
}

static void a_null_or_empty_value_is_undecodable(void **state)
{
    assert_undecodable(*state, RP_NULL_BYTES, "is null");
    assert_undecodable(*state, rp_str(""), "is empty");
}

static void an_unknown_fingerprint_is_undecodable(void **state)
{
    struct rp_bytes value = {"\xC3\x01\x01\x02\x03\x04\x05\x06\x07\x08rest", 14};
    assert_undecodable(*state, value, "byte 2: the fingerprint 0807060504030201");
    value.len = 9;
    assert_undecodable(*state, value, "cut off");
}

static void the_confluent_format_needs_a_registry(void **state)
{
    assert_undecodable(*state, (struct rp_bytes){"\x00\x00\x00\x00\x07rest", 9},
                       "schema id 7, but no schema registry is configured");
    assert_undecodable(*state, (struct rp_bytes){"\x00\x00", 2}, "cut off");
}

static void bytes_behind_the_record_are_refused(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task();
    encode(f, &task);
    assert_int_equal(rp_buf_append(&f->buf, "xy", 2, &f->err), 0);
    assert_undecodable(f, rp_buf_bytes(&f->buf), "2 bytes follow the FailedTask");
    assert_undecodable(f, (struct rp_bytes){f->buf.data + 10, f->buf.len - 10}, "2 bytes follow");
}

/* Each prefix lies in memory of its own, so that a sanitizer sees a read behind its end. */
static void every_truncation_is_refused(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task();
    encode(f, &task);
    for (size_t n = 0; n < f->buf.len; n++) {
        uint8_t *part = malloc(n + 1);
        struct rp_failed_task out;
        assert_non_null(part);
        memcpy(part, f->buf.data, n);
        part = realloc(part, n == 0 ? 1 : n);
        assert_int_equal(decode(f, (struct rp_bytes){part, n}, &out), -1);
        assert_int_equal(f->err.cls, RP_POISON);
        free(part);
    }
}

static void flipped_bytes_never_crash(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task(), out;
    struct rp_rng rng;
    rp_rng_init(&rng, 20261121);
    encode(f, &task);
    const size_t n = f->buf.len;
    uint8_t *copy = malloc(n);
    assert_non_null(copy);
    size_t refused = 0;
    for (int round = 0; round < 50000; round++) {
        memcpy(copy, f->buf.data, n);
        for (int64_t flips = rp_rng_between(&rng, 1, 4); flips > 0; flips--)
            copy[rp_rng_between(&rng, 10, (int64_t)n - 1)] = (uint8_t)rp_rng_next(&rng);
        size_t from = round % 2 == 0 ? 0 : 10;
        if (decode(f, (struct rp_bytes){copy + from, n - from}, &out) != 0)
            refused++;
    }
    free(copy);
    assert_true(refused > 1000);
}

static void strings_that_are_not_utf8_are_repaired_when_encoded(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = plain_task(), back;
    task.error_message = (struct rp_bytes){"a\xff\xe2\x82z\xed\xa0\x80", 8};
    encode(f, &task);
    assert_int_equal(decode(f, rp_buf_bytes(&f->buf), &back), 0);
    assert_bytes_equal(back.error_message, rp_str("a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz"
                                                  "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"));
}

static void strings_that_are_not_utf8_are_decoded_as_they_are(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = plain_task(), back;
    task.error_message = rp_str("MARK");
    encode(f, &task);
    uint8_t *mark = memmem(f->buf.data, f->buf.len, "MARK", 4);
    assert_non_null(mark);
    memcpy(mark, "\xff\xfe\x00\x80", 4);
    assert_int_equal(decode(f, rp_buf_bytes(&f->buf), &back), 0);
    assert_bytes_equal(back.error_message, (struct rp_bytes){"\xff\xfe\x00\x80", 4});
}

static void ten_thousand_headers_and_ten_megabytes_work(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task = sample_task();
    struct rp_header *headers = calloc(10000, sizeof *headers);
    char *payload = malloc(10 << 20);
    assert_non_null(headers);
    assert_non_null(payload);
    memset(payload, 0xA5, 10 << 20);
    for (size_t i = 0; i < 10000; i++)
        headers[i] = (struct rp_header){rp_str("key"), {payload, i % 50}};
    task.headers = headers;
    task.n_headers = 10000;
    task.payload = (struct rp_bytes){payload, 10 << 20};
    assert_round_trip(f, &task);
    free(headers);
    free(payload);
}

/* A plain record by hand, with these bytes for its headers. */
static struct rp_bytes with_headers(struct fixture *f, const char *headers, size_t n)
{
    static const char before[] = "\x02t\x04st\0\0\0", after[] = "\x02\x02"
                                                                "E\0\0\0\0\0\0";
    f->buf.len = 0;
    assert_int_equal(rp_buf_append(&f->buf, before, sizeof before - 1, &f->err), 0);
    assert_int_equal(rp_buf_append(&f->buf, headers, n, &f->err), 0);
    assert_int_equal(rp_buf_append(&f->buf, after, sizeof after - 1, &f->err), 0);
    return rp_buf_bytes(&f->buf);
}

static void blocks_may_say_their_size(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task task;
    /* Two items in a block of 6 bytes, then one in a block without a size. */
    if (decode(f, with_headers(f, "\x03\x0c\x02x\0\x02y\0\x02\x02z\0\0", 13), &task) != 0)
        fail_msg("%s", f->err.text);
    assert_int_equal(task.n_headers, 3);
    assert_bytes_equal(task.headers[0].key, rp_str("x"));
    assert_bytes_equal(task.headers[2].key, rp_str("z"));
}

static void lying_blocks_are_refused(void **state)
{
    struct fixture *f = *state;
    assert_undecodable(f, with_headers(f, "\x03\x0a\x02x\0\x02y\0\0", 9), "not as long as it says");
    assert_undecodable(f, with_headers(f, "\x01\x7f", 2), "a block of -64 bytes");
    assert_undecodable(f, with_headers(f, "\xfe\xff\x0f", 3), "items, with");
    assert_undecodable(f, with_headers(f, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 11),
                       "items, with");
}

static void errors_say_where_and_what(void **state)
{
    struct fixture *f = *state;
    assert_undecodable(f, (struct rp_bytes){"\x02t\x01", 3},
                       "byte 2: task_type: a length of -1, with 0 bytes left");
    assert_undecodable(f, with_headers(f, "\x02\x7f", 2), "headers.key: a length of -64");
    assert_undecodable(f, (struct rp_bytes){"\x02t\x02t\x06", 5}, "byte 4: target: union branch 3");
}

/* The one number that stands for null in a struct is a time like any other on the wire. */
static void the_earliest_time_is_not_null(void **state)
{
    static const char bytes[] = "\x02t\x04st\0\0\0\0\x02\x02"
                                "E\0\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0";
    struct fixture *f = *state;
    struct rp_failed_task task;
    if (decode(f, (struct rp_bytes){bytes, sizeof bytes - 1}, &task) != 0)
        fail_msg("%s", f->err.text);
    assert_int_equal(rp_failed_task_check(&task, &f->err), -1);
    assert_non_null(strstr(f->err.text, "first_failed_at"));
}

static void what_breaks_the_contract_is_not_encoded(void **state)
{
    struct fixture *f = *state;
    struct rp_failed_task tasks[5] = {plain_task(), plain_task(), plain_task(), plain_task(),
                                      plain_task()};
    tasks[0].task_id = rp_str("");
    tasks[1].task_type = RP_NULL_BYTES;
    tasks[2].attempt = 0;
    tasks[3].failed_at_ms = -1;
    tasks[4].first_failed_at_ms = -1;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(rp_failed_task_encode(&tasks[i], &f->buf, &f->err), -1);
        assert_int_equal(f->err.code, RP_E_INVALID);
        assert_int_equal(f->buf.len, 0);
    }
}

#define CODEC_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CODEC_TEST(what_was_encoded_is_decoded),
        CODEC_TEST(a_dead_letter_goes_there_and_back),
        CODEC_TEST(a_reason_that_is_none_is_other),
        CODEC_TEST(bare_binary_is_decoded),
        CODEC_TEST(decoding_copies_no_bytes),
        CODEC_TEST(a_null_or_empty_value_is_undecodable),
        CODEC_TEST(an_unknown_fingerprint_is_undecodable),
        CODEC_TEST(the_confluent_format_needs_a_registry),
        CODEC_TEST(bytes_behind_the_record_are_refused),
        CODEC_TEST(every_truncation_is_refused),
        CODEC_TEST(flipped_bytes_never_crash),
        CODEC_TEST(strings_that_are_not_utf8_are_repaired_when_encoded),
        CODEC_TEST(strings_that_are_not_utf8_are_decoded_as_they_are),
        CODEC_TEST(ten_thousand_headers_and_ten_megabytes_work),
        CODEC_TEST(blocks_may_say_their_size),
        CODEC_TEST(lying_blocks_are_refused),
        CODEC_TEST(errors_say_where_and_what),
        CODEC_TEST(the_earliest_time_is_not_null),
        CODEC_TEST(what_breaks_the_contract_is_not_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
