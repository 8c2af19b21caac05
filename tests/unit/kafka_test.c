/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "kafka.h"

/* What librdkafka answers to one seek after the other. */
rd_kafka_error_t *__wrap_rd_kafka_seek_partitions(rd_kafka_t *rk,
                                                  rd_kafka_topic_partition_list_t *parts,
                                                  int timeout_ms);
static const rd_kafka_resp_err_t *answers;
static int asked;
static int64_t sought;

rd_kafka_error_t *__wrap_rd_kafka_seek_partitions(rd_kafka_t *rk,
                                                  rd_kafka_topic_partition_list_t *parts,
                                                  int timeout_ms)
{
    (void)rk;
    (void)timeout_ms;
    sought = parts->elems[0].offset;
    parts->elems[0].err = answers[asked++];
    return NULL;
}

static int seek(int64_t offset, const rd_kafka_resp_err_t *answered, struct rp_error *err)
{
    answers = answered;
    asked = 0;
    return rp_kafka_seek_one(NULL, "topic", 0, offset, err);
}

int __real_rd_kafka_version(void);
int __wrap_rd_kafka_version(void);
static int version;

int __wrap_rd_kafka_version(void)
{
    return version != 0 ? version : __real_rd_kafka_version();
}

/* The system's, say, where ours is not found: it duplicates or loses records. */
static void an_older_library_is_refused(void **state)
{
    struct rp_error err;
    rd_kafka_t *client;
    (void)state;
    version = 0x020dff00;
    assert_int_equal(rp_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), &client, &err), -1);
    assert_null(client);
    assert_int_equal(err.cls, RP_FATAL);
    version = 0;
    assert_int_equal(rp_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), &client, &err), 0);
    rd_kafka_destroy(client);
}

static void a_seek_that_came_too_late_is_told_once_more(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t late[] = {RD_KAFKA_RESP_ERR__OUTDATED, RD_KAFKA_RESP_ERR_NO_ERROR};
    assert_int_equal(seek(7, late, &err), 0);
    assert_int_equal(asked, 2);
    assert_int_equal(sought, 7);
}

static void a_seek_that_comes_too_late_twice_fails(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t late[] = {RD_KAFKA_RESP_ERR__OUTDATED, RD_KAFKA_RESP_ERR__OUTDATED};
    assert_int_equal(seek(7, late, &err), -1);
    assert_int_equal(asked, 2);
    assert_int_equal(err.cls, RP_RETRIABLE);
}

static void another_failure_is_not_tried_again(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t unknown[] = {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION};
    assert_int_equal(seek(7, unknown, &err), -1);
    assert_int_equal(asked, 1);
}

static void without_an_offset_it_goes_to_the_beginning(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t good[] = {RD_KAFKA_RESP_ERR_NO_ERROR};
    assert_int_equal(seek(RD_KAFKA_OFFSET_INVALID, good, &err), 0);
    assert_int_equal(sought, RD_KAFKA_OFFSET_BEGINNING);
}

static struct {
    rd_kafka_timestamp_type_t type;
    int64_t ms;
} borne;

int64_t __wrap_rd_kafka_message_timestamp(const rd_kafka_message_t *m,
                                          rd_kafka_timestamp_type_t *type);
int64_t __wrap_rd_kafka_message_timestamp(const rd_kafka_message_t *m,
                                          rd_kafka_timestamp_type_t *type)
{
    (void)m;
    *type = borne.type;
    return borne.ms;
}

/* A producer may write any, where the topic takes it. */
static void a_time_before_1970_is_none(void **state)
{
    static const struct {
        rd_kafka_timestamp_type_t type;
        int64_t ms, expected;
    } cases[] = {
        {RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME, 1763700000123, 1763700000123},
        {RD_KAFKA_TIMESTAMP_CREATE_TIME, 0, 0},
        {RD_KAFKA_TIMESTAMP_CREATE_TIME, INT64_MAX, INT64_MAX},
        {RD_KAFKA_TIMESTAMP_CREATE_TIME, -2, -1},
        {RD_KAFKA_TIMESTAMP_CREATE_TIME, INT64_MIN, -1},
        {RD_KAFKA_TIMESTAMP_NOT_AVAILABLE, 7, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        borne.type = cases[i].type;
        borne.ms = cases[i].ms;
        assert_int_equal(rp_kafka_append_ms(NULL), cases[i].expected);
    }
}

/* What a consumer of this configuration takes for a response, at most. */
static int64_t response_bytes(const char *text)
{
    char value[40];
    size_t size = sizeof value;
    struct rp_error err;
    struct rp_config *config = load_good(text);
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_CONSUMER, &err);
    rd_kafka_t *consumer = NULL;
    rp_config_free(config);
    if (conf == NULL || rp_kafka_new(RD_KAFKA_CONSUMER, conf, &consumer, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(
        rd_kafka_conf_get(rd_kafka_conf(consumer), "receive.message.max.bytes", value, &size), 0);
    rd_kafka_destroy(consumer);
    return atoll(value);
}

static void a_consumer_takes_the_largest_record_that_may_be_configured(void **state)
{
    static const char most[] = "topics: {max_message_bytes: 95MiB}\ndelayer: {memory: 1GiB}\n";
    const int64_t largest = 95 << 20;
    (void)state;
    assert_true(response_bytes(most) >= largest + 65536);
    assert_true(response_bytes("kafka: {consumer: {fetch.max.bytes: 1000000}}\n") > largest);
}

static void what_the_file_says_of_responses_counts(void **state)
{
    (void)state;
    assert_int_equal(response_bytes("kafka: {receive.message.max.bytes: 90000000}\n"), 90000000);
    assert_int_equal(response_bytes("kafka: {consumer: {receive.message.max.bytes: 90000000}}\n"),
                     90000000);
    /* librdkafka raises it with these, unless it is stated. */
    assert_true(response_bytes("kafka: {consumer: {fetch.max.bytes: 200000000}}\n") > 200000000);
    assert_true(response_bytes("kafka: {message.max.bytes: 200000000}\n") > 200000000);
}

/* By default a client hears in five minutes that the broker which it asks has died. */
static void every_client_hears_of_a_dead_broker_soon(void **state)
{
    struct rp_error err;
    struct rp_config *config = load_good("");
    rd_kafka_t *client = NULL;
    char value[40];
    size_t size = sizeof value;
    (void)state;
    assert_int_equal(rp_kafka_new_admin(config, &client, &err), 0);
    rp_config_free(config);
    assert_int_equal(rd_kafka_conf_get(rd_kafka_conf(client), "topic.metadata.refresh.interval.ms",
                                       value, &size),
                     0);
    rd_kafka_destroy(client);
    assert_true(atoll(value) <= 12000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_library_is_refused),
        cmocka_unit_test(every_client_hears_of_a_dead_broker_soon),
        cmocka_unit_test(a_seek_that_came_too_late_is_told_once_more),
        cmocka_unit_test(a_seek_that_comes_too_late_twice_fails),
        cmocka_unit_test(another_failure_is_not_tried_again),
        cmocka_unit_test(without_an_offset_it_goes_to_the_beginning),
        cmocka_unit_test(a_time_before_1970_is_none),
        cmocka_unit_test(a_consumer_takes_the_largest_record_that_may_be_configured),
        cmocka_unit_test(what_the_file_says_of_responses_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
