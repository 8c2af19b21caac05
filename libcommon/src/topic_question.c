/* SPDX-License-Identifier: Apache-2.0 */
#include "topic_question.h"

#include <stdlib.h>
#include <string.h>

#include "kafka.h"

#define LIMIT "max.message.bytes"

enum rp_target_state rp_target_state_of(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
        return RP_TARGET_USABLE;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION: /* no legal name */
        return RP_TARGET_MISSING;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return RP_TARGET_DENIED;
    default:
        return RP_TARGET_UNKNOWN;
    }
}

/* One topic that denies us fails a whole transaction, and nothing says which it was, so that is
 * asked before. Brokers that tell no operations are taken to allow them. */
static bool may_write(const rd_kafka_TopicDescription_t *topic)
{
    size_t n;
    const rd_kafka_AclOperation_t *operations =
        rd_kafka_TopicDescription_authorized_operations(topic, &n);
    for (size_t i = 0; i < n; i++)
        if (operations[i] == RD_KAFKA_ACL_OPERATION_WRITE ||
            operations[i] == RD_KAFKA_ACL_OPERATION_ALL)
            return true;
    return operations == NULL || n == 0;
}

static enum rp_target_state read_state(rd_kafka_event_t *event)
{
    size_t n;
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return RP_TARGET_UNKNOWN;
    const rd_kafka_TopicDescription_t **topics =
        rd_kafka_DescribeTopics_result_topics(rd_kafka_event_DescribeTopics_result(event), &n);
    if (n != 1)
        return RP_TARGET_UNKNOWN;
    enum rp_target_state state =
        rp_target_state_of(rd_kafka_error_code(rd_kafka_TopicDescription_error(topics[0])));
    return state == RP_TARGET_USABLE && !may_write(topics[0]) ? RP_TARGET_DENIED : state;
}

/* Who may not read it does without: then a delivery finds out what is too large. */
static int64_t read_limit(rd_kafka_event_t *event)
{
    size_t n;
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return RP_NO_LIMIT;
    const rd_kafka_ConfigResource_t **topics =
        rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &n);
    if (n != 1 || rd_kafka_ConfigResource_error(topics[0]) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return RP_NO_LIMIT;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(topics[0], &n);
    for (size_t i = 0; i < n; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);
        if (value != NULL && strcmp(rd_kafka_ConfigEntry_name(entries[i]), LIMIT) == 0)
            return strtoll(value, NULL, 10);
    }
    return RP_NO_LIMIT;
}

static void ask_state(rd_kafka_t *client, const char *topic, rd_kafka_queue_t *queue)
{
    rd_kafka_AdminOptions_t *options =
        rp_kafka_admin_options(client, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, RP_TOPIC_QUESTION_MS);
    /* Refused only for an option that the request does not have; then the delivery finds out. */
    rd_kafka_error_destroy(rd_kafka_AdminOptions_set_include_authorized_operations(options, 1));
    rd_kafka_TopicCollection_t *topics = rd_kafka_TopicCollection_of_topic_names(&topic, 1);
    rd_kafka_DescribeTopics(client, topics, options, queue);
    rd_kafka_TopicCollection_destroy(topics);
    rd_kafka_AdminOptions_destroy(options);
}

static void ask_limit(rd_kafka_t *client, const char *topic, rd_kafka_queue_t *queue)
{
    rd_kafka_AdminOptions_t *options =
        rp_kafka_admin_options(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, RP_TOPIC_QUESTION_MS);
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    (void)rd_kafka_ConfigResource_set_config(resource, LIMIT, ""); /* asks for this one alone */
    rd_kafka_DescribeConfigs(client, &resource, 1, options, queue);
    rd_kafka_ConfigResource_destroy(resource);
    rd_kafka_AdminOptions_destroy(options);
}

void rp_topic_question_ask(struct rp_topic_question *q, rd_kafka_t *client, const char *topic)
{
    /* A queue of its own: an answer that comes too late must not meet the next question. */
    *q = (struct rp_topic_question){.queue = rd_kafka_queue_new(client),
                                    .awaited = 2,
                                    .state = RP_TARGET_UNKNOWN,
                                    .max_bytes = RP_NO_LIMIT};
    ask_state(client, topic, q->queue);
    ask_limit(client, topic, q->queue);
}

bool rp_topic_question_wait(struct rp_topic_question *q, int timeout_ms)
{
    while (q->awaited > 0) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(q->queue, timeout_ms);
        if (event == NULL)
            return false;
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT)
            q->state = read_state(event);
        else
            q->max_bytes = read_limit(event);
        rd_kafka_event_destroy(event);
        q->awaited--;
    }
    return true;
}

void rp_topic_question_end(struct rp_topic_question *q)
{
    if (q->queue != NULL)
        rd_kafka_queue_destroy(q->queue);
    *q = (struct rp_topic_question){0};
}
