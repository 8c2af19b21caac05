/* SPDX-License-Identifier: Apache-2.0 */
#include "topic_id.h"

#include <stdio.h>

#include "kafka.h"

#define TIMEOUT_MS 5000

static int read_answer(rd_kafka_event_t *event, char out[TOPIC_ID_SIZE], struct rp_error *err)
{
    static const char doing[] = "ask for the topic's id";
    size_t n = 0;
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, code, doing);
    const rd_kafka_TopicDescription_t **topics =
        rd_kafka_DescribeTopics_result_topics(rd_kafka_event_DescribeTopics_result(event), &n);
    if (n != 1)
        return rp_kafka_fail(err, RD_KAFKA_RESP_ERR__BAD_MSG, doing);
    code = rd_kafka_error_code(rd_kafka_TopicDescription_error(topics[0]));
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, code, doing);
    const rd_kafka_Uuid_t *id = rd_kafka_TopicDescription_topic_id(topics[0]);
    bool none = rd_kafka_Uuid_most_significant_bits(id) == 0 &&
                rd_kafka_Uuid_least_significant_bits(id) == 0;
    (void)snprintf(out, TOPIC_ID_SIZE, "%s", none ? "" : rd_kafka_Uuid_base64str(id));
    return 0;
}

int topic_id_query(rd_kafka_t *rk, const char *topic, char out[TOPIC_ID_SIZE], struct rp_error *err)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_AdminOptions_t *options =
        rp_kafka_admin_options(rk, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, TIMEOUT_MS);
    rd_kafka_TopicCollection_t *topics = rd_kafka_TopicCollection_of_topic_names(&topic, 1);
    rd_kafka_DescribeTopics(rk, topics, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, -1); /* the request's own time ends it */
    int failed = read_answer(event, out, err);
    rd_kafka_event_destroy(event);
    rd_kafka_TopicCollection_destroy(topics);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    return failed;
}
