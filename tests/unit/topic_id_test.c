/* SPDX-License-Identifier: Apache-2.0 */
/* librdkafka's mock cluster does not describe topics: the answer is made here. Linked with --wrap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "topic_id.h"

/* The answer: of the request, how many topics, and of the first one. */
static struct {
    rd_kafka_resp_err_t code, topic_code;
    size_t n;
    int64_t high, low;
} answer;
static rd_kafka_Uuid_t *id;
static rd_kafka_t *client;
static struct rp_error err;
static char text[TOPIC_ID_SIZE];

#define FAKE(type, name, args)                                                                     \
    type __wrap_##name args;                                                                       \
    type __wrap_##name args

FAKE(void, rd_kafka_DescribeTopics,
     (rd_kafka_t * rk, const rd_kafka_TopicCollection_t *topics,
      const rd_kafka_AdminOptions_t *options, rd_kafka_queue_t *queue))
{
    (void)topics;
    (void)options;
    (void)queue;
    assert_ptr_equal(rk, client);
}

FAKE(rd_kafka_event_t *, rd_kafka_queue_poll, (rd_kafka_queue_t * queue, int timeout_ms))
{
    (void)queue;
    assert_int_equal(timeout_ms, -1);
    return (rd_kafka_event_t *)&answer;
}

FAKE(rd_kafka_resp_err_t, rd_kafka_event_error, (rd_kafka_event_t * event))
{
    (void)event;
    return answer.code;
}

FAKE(void, rd_kafka_event_destroy, (rd_kafka_event_t * event))
{
    assert_ptr_equal(event, &answer);
}

FAKE(const rd_kafka_TopicDescription_t **, rd_kafka_DescribeTopics_result_topics,
     (const rd_kafka_DescribeTopics_result_t *result, size_t *n))
{
    static const rd_kafka_TopicDescription_t *topics[1];
    (void)result;
    *n = answer.n;
    return topics;
}

FAKE(const rd_kafka_error_t *, rd_kafka_TopicDescription_error,
     (const rd_kafka_TopicDescription_t *topic))
{
    (void)topic;
    return NULL;
}

FAKE(rd_kafka_resp_err_t, rd_kafka_error_code, (const rd_kafka_error_t *error))
{
    (void)error;
    return answer.topic_code;
}

FAKE(const rd_kafka_Uuid_t *, rd_kafka_TopicDescription_topic_id,
     (const rd_kafka_TopicDescription_t *topic))
{
    (void)topic;
    if (id != NULL)
        rd_kafka_Uuid_destroy(id);
    id = rd_kafka_Uuid_new(answer.high, answer.low);
    return id;
}

static int query(rd_kafka_resp_err_t code, rd_kafka_resp_err_t topic_code, size_t n, int64_t high,
                 int64_t low)
{
    answer.code = code;
    answer.topic_code = topic_code;
    answer.n = n;
    answer.high = high;
    answer.low = low;
    return topic_id_query(client, "dead-letter", text, &err);
}

static void an_id_is_given_in_base64(void **state)
{
    (void)state;
    assert_int_equal(query(0, 0, 1, INT64_C(0x0001020304050607), INT64_C(0x08090a0b0c0d0e0f)), 0);
    assert_string_equal(text, "AAECAwQFBgcICQoLDA0ODw");
    assert_int_equal(query(0, 0, 1, 0, 1), 0);
    assert_string_equal(text, "AAAAAAAAAAAAAAAAAAAAAQ");
}

static void a_broker_that_knows_no_ids_gives_none(void **state)
{
    (void)state;
    assert_int_equal(query(0, 0, 1, 0, 0), 0);
    assert_string_equal(text, "");
}

static void an_error_of_the_request_or_the_topic_is_told(void **state)
{
    (void)state;
    assert_int_equal(query(RD_KAFKA_RESP_ERR__TIMED_OUT, 0, 1, 1, 1), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_int_equal(query(0, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1, 1, 1), -1);
    assert_int_equal(err.code, RP_E_KAFKA);
    assert_int_equal(query(0, 0, 0, 1, 1), -1);
    assert_int_equal(err.code, RP_E_KAFKA);
}

int main(void)
{
    client = rd_kafka_new(RD_KAFKA_PRODUCER, NULL, NULL, 0);
    if (client == NULL)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_given_in_base64),
        cmocka_unit_test(a_broker_that_knows_no_ids_gives_none),
        cmocka_unit_test(an_error_of_the_request_or_the_topic_is_told),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (id != NULL)
        rd_kafka_Uuid_destroy(id);
    rd_kafka_destroy(client);
    return failed;
}
