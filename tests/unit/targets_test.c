/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "clock.h"
#include "targets.h"

/* The brokers' part is played here: "there" takes `limit` bytes, and no other topic exists. */
static int64_t mono_ms, limit;
static int questions, waits; /* `waits`: those that somebody stood still for */
static bool silent;

int64_t __wrap_rp_mono_tick_ms(void);
int64_t __wrap_rp_mono_tick_ms(void)
{
    return mono_ms;
}

void __wrap_rp_topic_question_ask(struct rp_topic_question *q, rd_kafka_t *client,
                                  const char *topic);
void __wrap_rp_topic_question_ask(struct rp_topic_question *q, rd_kafka_t *client,
                                  const char *topic)
{
    bool there = strcmp(topic, "there") == 0;
    questions++;
    *q = (struct rp_topic_question){
        .queue = rd_kafka_queue_new(client),
        .state = silent  ? RP_TARGET_UNKNOWN
                 : there ? RP_TARGET_USABLE
                         : RP_TARGET_MISSING,
        .max_bytes = limit,
    };
}

bool __wrap_rp_topic_question_wait(struct rp_topic_question *q, int timeout_ms);
bool __wrap_rp_topic_question_wait(struct rp_topic_question *q, int timeout_ms)
{
    waits += timeout_ms > 0;
    return q->state != RP_TARGET_UNKNOWN;
}

struct fixture {
    rd_kafka_t *client;
    struct rp_targets *targets;
};

static int set_up_with(struct fixture *f, bool compressed)
{
    struct rp_error err;
    char text[200];
    f->client = rd_kafka_new(RD_KAFKA_PRODUCER, NULL, text, sizeof text);
    assert_non_null(f->client);
    mono_ms = 1000000;
    limit = 100;
    questions = waits = 0;
    silent = false;
    return rp_targets_new(f->client, compressed, &f->targets, &err);
}

static int set_up(void **state)
{
    static struct fixture f;
    *state = &f;
    return set_up_with(&f, false);
}

static int set_up_compressed(void **state)
{
    static struct fixture f;
    *state = &f;
    return set_up_with(&f, true);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_targets_free(f->targets);
    rd_kafka_destroy(f->client);
    return 0;
}

static enum rp_target_state look(struct fixture *f, const char *topic)
{
    return rp_targets_state(f->targets, rp_str(topic));
}

/* Of a record that takes as many bytes. */
static bool fits_in(struct fixture *f, const char *topic, size_t bytes)
{
    struct rp_outgoing record = {.topic = rp_str(topic), .value = {"", bytes - 68}};
    return rp_targets_fits(f->targets, &record);
}

static bool fits(struct fixture *f, size_t bytes)
{
    return fits_in(f, "there", bytes);
}

static void a_topic_is_asked_for_once(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(rp_targets_max_bytes(f->targets, rp_str("there")), 100);
    assert_int_equal(look(f, "missing"), RP_TARGET_MISSING);
    assert_int_equal(questions, 2);
}

static void topics_of_one_place_are_asked_for_once_each(void **state)
{
    struct fixture *f = *state;
    char names[4][32];
    uint64_t place = 0;
    for (int i = 0, n = 0; n < 4; i++) {
        (void)snprintf(names[n], sizeof names[n], "topic-%d", i);
        uint64_t hash = XXH3_64bits(names[n], strlen(names[n])) & 1023;
        place = n == 0 ? hash : place;
        n += hash == place;
    }
    for (int i = 0; i < 40; i++)
        assert_int_equal(look(f, names[i % 4]), RP_TARGET_MISSING);
    assert_int_equal(questions, 4);
}

static void what_was_usable_is_asked_for_again_behind_the_work(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    mono_ms += 31000;
    limit = 200;
    assert_int_equal(rp_targets_max_bytes(f->targets, rp_str("there")), 100);
    assert_int_equal(rp_targets_max_bytes(f->targets, rp_str("there")), 200);
    assert_int_equal(questions, 2);
    assert_int_equal(waits, 1);
}

static void what_is_known_for_too_long_is_no_longer_good(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    mono_ms += 61000;
    silent = true;
    assert_int_equal(look(f, "there"), RP_TARGET_UNKNOWN);
}

static void while_no_broker_answers_not_each_topic_waits(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    silent = true;
    assert_int_equal(look(f, "a"), RP_TARGET_UNKNOWN);
    assert_int_equal(look(f, "b"), RP_TARGET_UNKNOWN);
    assert_int_equal(look(f, "a"), RP_TARGET_UNKNOWN);
    assert_int_equal(questions, 2);
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE); /* what is known stays known */
    mono_ms += 1000;
    assert_int_equal(look(f, "b"), RP_TARGET_UNKNOWN);
    assert_int_equal(questions, 3);
}

static void what_is_larger_than_the_limit_does_not_fit(void **state)
{
    struct fixture *f = *state;
    assert_true(fits(f, 100));
    assert_false(fits(f, 101));
}

static void a_limit_that_cannot_be_read_is_none(void **state)
{
    struct fixture *f = *state;
    limit = RP_NO_LIMIT;
    assert_true(fits(f, (size_t)1 << 40));
    silent = true;
    assert_true(fits_in(f, "a", (size_t)1 << 40));
}

static void a_limit_that_was_raised_is_known_soon(void **state)
{
    struct fixture *f = *state;
    assert_false(fits(f, 101));
    limit = 200;
    assert_false(fits(f, 101));
    assert_int_equal(questions, 1);
    mono_ms += 1000;
    assert_true(fits(f, 101));
    assert_int_equal(questions, 2);
}

static void what_is_compressed_may_fit_after_all(void **state)
{
    assert_true(fits(*state, 101));
}

static void what_can_be_no_topic_is_missing_and_not_asked_for(void **state)
{
    static const char longest[250] = "a";
    const struct rp_bytes names[] = {{"", 0}, {"a\0b", 3}, {longest, sizeof longest}};
    struct fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rp_targets_state(f->targets, names[i]), RP_TARGET_MISSING);
        assert_int_equal(rp_targets_max_bytes(f->targets, names[i]), RP_NO_LIMIT);
    }
    assert_int_equal(questions, 0);
}

/* What was known stays good for a while, and is asked for again and again meanwhile. */
static void a_question_behind_the_work_that_nobody_answers_is_dropped(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    mono_ms += 31000;
    silent = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(questions, 2);
    mono_ms += RP_TOPIC_QUESTION_MS;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(questions, 3);
    assert_int_equal(waits, 1);
}

static void what_a_delivery_did_not_say_is_no_topic_s_fault(void **state)
{
    struct fixture *f = *state;
    assert_false(rp_targets_blame(f->targets, rp_str("there"), RD_KAFKA_RESP_ERR_NO_ERROR));
    assert_false(rp_targets_blame(f->targets, rp_str("there"), RD_KAFKA_RESP_ERR__TRANSPORT));
    assert_true(rp_targets_blame(f->targets, rp_str("there"), RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC));
    assert_int_equal(look(f, "there"), RP_TARGET_MISSING);
    rp_targets_forget(f->targets); /* of what is usable alone */
    assert_int_equal(look(f, "there"), RP_TARGET_MISSING);
    assert_int_equal(questions, 0);
}

static void a_delivery_knows_better(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_true(rp_targets_blame(f->targets, rp_str("there"),
                                 RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED));
    assert_int_equal(look(f, "there"), RP_TARGET_DENIED);
    assert_false(
        rp_targets_blame(f->targets, rp_str("there"), RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE));
    mono_ms += 31000;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_topic_is_asked_for_once),
        TEST(topics_of_one_place_are_asked_for_once_each),
        TEST(what_was_usable_is_asked_for_again_behind_the_work),
        TEST(what_is_known_for_too_long_is_no_longer_good),
        TEST(while_no_broker_answers_not_each_topic_waits),
        TEST(what_is_larger_than_the_limit_does_not_fit),
        TEST(a_limit_that_cannot_be_read_is_none),
        TEST(a_limit_that_was_raised_is_known_soon),
        cmocka_unit_test_setup_teardown(what_is_compressed_may_fit_after_all, set_up_compressed,
                                        tear_down),
        TEST(what_can_be_no_topic_is_missing_and_not_asked_for),
        TEST(a_question_behind_the_work_that_nobody_answers_is_dropped),
        TEST(what_a_delivery_did_not_say_is_no_topic_s_fault),
        TEST(a_delivery_knows_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
