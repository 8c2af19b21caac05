/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "clock_fixture.h"
#include "log.h"
#include "trim.h"

/* Brokers that answer as they are told to. */
static rd_kafka_resp_err_t failed, part_failed;
static rd_kafka_topic_partition_list_t *parts;
static int requests, reported;
static bool answered;

void __wrap_rp_log_fields(enum rp_log_level level, const char *event,
                          const struct rp_field *fields);
void __wrap_rd_kafka_DeleteRecords(rd_kafka_t *rk, rd_kafka_DeleteRecords_t **requested, size_t n,
                                   const rd_kafka_AdminOptions_t *options, rd_kafka_queue_t *queue);
rd_kafka_event_t *__wrap_rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms);
rd_kafka_resp_err_t __wrap_rd_kafka_event_error(rd_kafka_event_t *event);
const char *__wrap_rd_kafka_event_error_string(rd_kafka_event_t *event);
const rd_kafka_DeleteRecords_result_t *
__wrap_rd_kafka_event_DeleteRecords_result(rd_kafka_event_t *event);
const rd_kafka_topic_partition_list_t *
__wrap_rd_kafka_DeleteRecords_result_offsets(const rd_kafka_DeleteRecords_result_t *result);
void __wrap_rd_kafka_event_destroy(rd_kafka_event_t *event);

void __wrap_rp_log_fields(enum rp_log_level level, const char *event, const struct rp_field *fields)
{
    (void)level;
    assert_string_equal(event, "trim-failed");
    assert_string_equal(fields[0].key, "topic");
    reported++;
}

void __wrap_rd_kafka_DeleteRecords(rd_kafka_t *rk, rd_kafka_DeleteRecords_t **requested, size_t n,
                                   const rd_kafka_AdminOptions_t *options, rd_kafka_queue_t *queue)
{
    (void)rk;
    (void)requested;
    (void)options;
    (void)queue;
    assert_int_equal(n, 1);
    requests++;
}

rd_kafka_event_t *__wrap_rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms)
{
    static char event;
    (void)queue;
    assert_int_equal(timeout_ms, 0);
    return answered ? (rd_kafka_event_t *)(void *)&event : NULL;
}

rd_kafka_resp_err_t __wrap_rd_kafka_event_error(rd_kafka_event_t *event)
{
    (void)event;
    return failed;
}

const char *__wrap_rd_kafka_event_error_string(rd_kafka_event_t *event)
{
    (void)event;
    return "no broker";
}

const rd_kafka_DeleteRecords_result_t *
__wrap_rd_kafka_event_DeleteRecords_result(rd_kafka_event_t *event)
{
    (void)event;
    return NULL;
}

const rd_kafka_topic_partition_list_t *
__wrap_rd_kafka_DeleteRecords_result_offsets(const rd_kafka_DeleteRecords_result_t *result)
{
    (void)result;
    parts->elems[1].err = part_failed;
    return parts;
}

void __wrap_rd_kafka_event_destroy(rd_kafka_event_t *event)
{
    (void)event;
}

static rd_kafka_t *client;
static struct trimmer *trimmer;

static int set_up(void **state)
{
    struct rp_error err;
    char why[200];
    (void)state;
    client = rd_kafka_new(RD_KAFKA_PRODUCER, NULL, why, sizeof why);
    parts = rd_kafka_topic_partition_list_new(2);
    for (int32_t i = 0; i < 2; i++)
        rd_kafka_topic_partition_list_add(parts, "tier", i)->offset = 7;
    failed = part_failed = RD_KAFKA_RESP_ERR_NO_ERROR;
    requests = reported = 0;
    now_mono_ms = 100000;
    answered = false;
    return client == NULL ? -1 : trimmer_new(client, &trimmer, &err);
}

static int tear_down(void **state)
{
    (void)state;
    trimmer_free(trimmer);
    trimmer_free(NULL);
    rd_kafka_topic_partition_list_destroy(parts);
    rd_kafka_destroy(client);
    return 0;
}

/* Starts, has the answer, and says after how many ms the next one is due. */
static int64_t wait_after_answer(void)
{
    assert_true(trimmer_is_due(trimmer));
    trimmer_start(trimmer, parts);
    now_mono_ms += 1000000;
    assert_false(trimmer_is_due(trimmer)); /* one is under way */
    int64_t from_mono_ms = now_mono_ms;
    answered = true;
    while (!trimmer_is_due(trimmer))
        now_mono_ms += 1000;
    answered = false;
    assert_int_equal(requests, 1);
    return now_mono_ms - from_mono_ms;
}

static void what_is_settled_is_trimmed_every_5_s(void **state)
{
    (void)state;
    assert_int_equal(wait_after_answer(), 5000);
    assert_int_equal(reported, 0);
    assert_false(trimmer_failed(trimmer));
}

static void brokers_that_refuse_are_told_of_and_left_alone_for_a_minute(void **state)
{
    (void)state;
    failed = RD_KAFKA_RESP_ERR__TIMED_OUT;
    assert_int_equal(wait_after_answer(), 60000);
    assert_int_equal(reported, 1);
    assert_true(trimmer_failed(trimmer));
}

static void so_is_one_partition_that_cannot_be_trimmed(void **state)
{
    (void)state;
    part_failed = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    assert_int_equal(wait_after_answer(), 60000);
    assert_int_equal(reported, 1);
    assert_true(trimmer_failed(trimmer));
}

static void nothing_to_trim_asks_nobody(void **state)
{
    (void)state;
    rd_kafka_topic_partition_list_t *none = rd_kafka_topic_partition_list_new(0);
    trimmer_start(trimmer, none);
    assert_false(trimmer_is_due(trimmer));
    now_mono_ms += 5000;
    assert_true(trimmer_is_due(trimmer));
    assert_int_equal(requests, 0);
    rd_kafka_topic_partition_list_destroy(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(what_is_settled_is_trimmed_every_5_s),
        TEST(brokers_that_refuse_are_told_of_and_left_alone_for_a_minute),
        TEST(so_is_one_partition_that_cannot_be_trimmed),
        TEST(nothing_to_trim_asks_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
