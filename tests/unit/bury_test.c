/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bury.h"
#include "codec.h"
#include "codec_fixture.h"
#include "config_fixture.h"
#include "lessons.h"

static size_t takes; /* which record the dead-letter topic is the first to take, 1 the first */
static size_t asked;

bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record);

bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record)
{
    (void)t;
    assert_bytes_equal(record->topic, rp_str("dead-letter"));
    return ++asked >= takes;
}

static char text[5000];

/* A letter whose texts are all long; what is read from its record goes through `check`. */
static void bury(unsigned refused, struct rp_bytes key,
                 void (*check)(const struct rp_dead_letter *was, const struct rp_dead_letter *is,
                               const struct rp_outgoing *record))
{
    struct rp_config *config = load_good("targets: {allow: [a]}\n");
    struct rp_dead_letter letter = sample_letter(), was, is;
    struct rp_buf buf = {0};
    struct rp_arena arena = {0};
    struct rp_codec *codec;
    struct rp_outgoing record;
    struct rp_error err;
    memset(text, 'm', sizeof text);
    letter.task.error_message = (struct rp_bytes){text, sizeof text};
    letter.task.error_category = letter.category = letter.task.error_message;
    letter.policy = letter.detail = letter.task.error_message;
    letter.task.key = key;
    was = letter;
    asked = 0;
    assert_int_equal(rp_bury(config, NULL, &letter, (struct rp_bytes){text, sizeof text}, refused,
                             &buf, &record, &err),
                     0);
    assert_bytes_equal(record.topic, rp_str("dead-letter"));
    assert_int_equal(rp_codec_new(NULL, &codec, &err), 0);
    assert_int_equal(rp_codec_decode_dead_letter(codec, record.value, &arena, &is, &err), 0);
    check(&was, &is, &record);
    rp_codec_free(codec);
    rp_arena_clear(&arena);
    rp_buf_clear(&buf);
    rp_config_free(config);
}

static void is_whole(const struct rp_dead_letter *was, const struct rp_dead_letter *is,
                     const struct rp_outgoing *record)
{
    assert_letter_equal(was, is);
    assert_bytes_equal(record->key, was->task.key);
}

/* Nothing is gone that a replay needs. */
static void is_shortened(const struct rp_dead_letter *was, const struct rp_dead_letter *is,
                         const struct rp_outgoing *record)
{
    struct rp_failed_task task = was->task;
    assert_true(is->task.error_message.len < 2000 && is->task.error_category.len < 2000);
    assert_true(is->category.len < 2000 && is->policy.len < 2000 && is->detail.len < 2000);
    task.error_message = is->task.error_message;
    task.error_category = is->task.error_category;
    task.n_causes = 0;
    assert_task_equal(&task, &is->task);
    assert_int_equal(is->reason, was->reason);
    assert_true(record->key.len < 2000);
}

static void is_shrunk(const struct rp_dead_letter *was, const struct rp_dead_letter *is,
                      const struct rp_outgoing *record)
{
    assert_null(is->task.payload.data);
    assert_int_equal(is->task.n_headers, 0);
    assert_int_equal(is->task.n_causes, 0);
    assert_true(is->task.error_message.len < 2000);
    assert_memory_equal(is->task.error_message.data, text, is->task.error_message.len);
    assert_true(is->task.error_category.len < 2000);
    assert_true(is->category.len < 2000 && is->policy.len < 2000 && is->detail.len < 2000);
    assert_int_equal(is->reason, RP_OVERSIZED);
    assert_int_equal(
        strncmp(is->detail.data, "NO_TARGET, and too large for a dead letter: mmm", 47), 0);
    assert_bytes_equal(is->task.task_id, was->task.task_id);
    assert_bytes_equal(is->topic, was->topic); /* where the original is */
    assert_int_equal(is->offset, was->offset);
    assert_true(record->key.len < 2000);
}

static void what_fits_is_kept_whole(void **state)
{
    (void)state;
    takes = 1;
    bury(0, rp_str("k"), is_whole);
    assert_int_equal(asked, 1);
}

static void what_only_describes_is_cut_first(void **state)
{
    (void)state;
    takes = 2;
    bury(0, rp_str("k"), is_shortened);
    bury(0, RP_NULL_BYTES, is_shortened);
    assert_int_equal(asked, 2);
}

static void what_does_not_fit_leaves_its_bulk_behind(void **state)
{
    (void)state;
    takes = 3;
    bury(0, rp_str("k"), is_shrunk);
    assert_int_equal(asked, 2);
}

static void what_the_brokers_refused_is_not_tried_whole(void **state)
{
    (void)state;
    takes = 1;
    bury(1, RP_NULL_BYTES, is_shortened);
    bury(1, rp_str("k"), is_shortened);
    assert_int_equal(asked, 1);
}

static void what_they_refused_twice_leaves_its_bulk_behind(void **state)
{
    (void)state;
    takes = 1;
    bury(RP_BURY_MOST, RP_NULL_BYTES, is_shrunk);
    bury(RP_BURY_MOST, (struct rp_bytes){text, sizeof text}, is_shrunk);
    assert_int_equal(asked, 0);
}

/* Of a record of so many bytes. */
static struct rp_outgoing bury_raw(size_t size, struct rp_buf *buf)
{
    static uint8_t raw[20 << 20];
    struct rp_config *config = load_good("targets: {allow: [a]}\n");
    struct rp_dead_letter letter = sample_letter();
    struct rp_outgoing record;
    struct rp_error err;
    asked = 0;
    letter.raw = (struct rp_bytes){raw, size};
    assert_in_range(size, 1, sizeof raw);
    assert_int_equal(rp_bury(config, NULL, &letter, RP_NULL_BYTES, 0, buf, &record, &err), 0);
    rp_config_free(config);
    record.topic = RP_NULL_BYTES; /* the configuration's */
    return record;
}

static void a_huge_letter_does_not_pin_its_size(void **state)
{
    struct rp_buf buf = {0};
    (void)state;
    takes = 1;
    assert_true(bury_raw(20 << 20, &buf).value.len > 20 << 20);
    (void)bury_raw(5, &buf);
    assert_true(buf.cap < 10 << 20);
    rp_buf_clear(&buf);
}

static void what_is_far_too_large_is_not_encoded_to_find_out(void **state)
{
    struct rp_buf buf = {0};
    (void)state;
    takes = 3;
    assert_true(bury_raw(20 << 20, &buf).value.len < 10000);
    assert_int_equal(asked, 1);
    assert_true(buf.cap < 10 << 20);
    rp_buf_clear(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_huge_letter_does_not_pin_its_size),
        cmocka_unit_test(what_is_far_too_large_is_not_encoded_to_find_out),
        cmocka_unit_test(what_fits_is_kept_whole),
        cmocka_unit_test(what_only_describes_is_cut_first),
        cmocka_unit_test(what_does_not_fit_leaves_its_bulk_behind),
        cmocka_unit_test(what_the_brokers_refused_is_not_tried_whole),
        cmocka_unit_test(what_they_refused_twice_leaves_its_bulk_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
