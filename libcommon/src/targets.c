/* SPDX-License-Identifier: Apache-2.0 */
#include "targets.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "clock.h"
#include "log.h"

#define N_PLACES  1024u /* a power of two; a newer topic takes the place of an older one */
#define TOPIC_NAME_MAX 249u  /* Kafka's own limit */
#define USABLE_MS 30000
/* Short, so that a topic made after its first task is found soon. */
#define REFUSED_MS 1000
/* What a delivery found out: asking again would only say that the topic is there. */
#define BLAMED_MS 30000
#define ASK_MS    5000
/* Who waits for one topic after another, while no broker answers, does nothing else. */
#define SILENT_MS 1000

struct place {
    char name[TOPIC_NAME_MAX + 1];
    enum rp_target_state state;
    int64_t until_mono_ms;
};

struct rp_targets {
    rd_kafka_t *client;
    int64_t silent_until_mono_ms; /* nobody answered: not asked again before */
    struct place places[N_PLACES];
};

int rp_targets_new(rd_kafka_t *client, struct rp_targets **out, struct rp_error *err)
{
    struct rp_targets *t = calloc(1, sizeof *t);
    if (t == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the targets");
    t->client = client;
    *out = t;
    return 0;
}

void rp_targets_free(struct rp_targets *t)
{
    free(t);
}

static enum rp_target_state state_of(rd_kafka_resp_err_t code)
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

static enum rp_target_state result_state(rd_kafka_event_t *event)
{
    if (event == NULL)
        return RP_TARGET_UNKNOWN;
    const rd_kafka_DescribeTopics_result_t *result = rd_kafka_event_DescribeTopics_result(event);
    if (result == NULL || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return RP_TARGET_UNKNOWN;
    size_t n;
    const rd_kafka_TopicDescription_t **topics = rd_kafka_DescribeTopics_result_topics(result, &n);
    if (n != 1)
        return RP_TARGET_UNKNOWN;
    enum rp_target_state state =
        state_of(rd_kafka_error_code(rd_kafka_TopicDescription_error(topics[0])));
    return state == RP_TARGET_USABLE && !may_write(topics[0]) ? RP_TARGET_DENIED : state;
}

static enum rp_target_state ask(struct rp_targets *t, const char *name)
{
    /* A queue of its own: an answer that comes too late must not meet the next question. */
    rd_kafka_queue_t *queue = rd_kafka_queue_new(t->client);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(t->client, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
    char text[128];
    (void)rd_kafka_AdminOptions_set_request_timeout(options, ASK_MS, text, sizeof text);
    rd_kafka_error_t *refused = rd_kafka_AdminOptions_set_include_authorized_operations(options, 1);
    if (refused != NULL)
        rd_kafka_error_destroy(refused); /* then the delivery finds out */
    rd_kafka_TopicCollection_t *topics = rd_kafka_TopicCollection_of_topic_names(&name, 1);
    rd_kafka_DescribeTopics(t->client, topics, options, queue);
    rd_kafka_TopicCollection_destroy(topics);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, ASK_MS + 1000);
    enum rp_target_state state = result_state(event);
    if (event != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    return state;
}

static struct place *place_of(struct rp_targets *t, struct rp_bytes topic)
{
    return &t->places[XXH3_64bits(topic.data, topic.len) & (N_PLACES - 1)];
}

static void remember(struct place *p, struct rp_bytes topic, enum rp_target_state state,
                     int64_t for_ms)
{
    memcpy(p->name, topic.data, topic.len);
    p->name[topic.len] = '\0';
    p->state = state;
    p->until_mono_ms = rp_mono_ms() + for_ms;
}

static bool holds(const struct place *p, struct rp_bytes topic)
{
    return p->until_mono_ms > rp_mono_ms() && rp_bytes_equal(rp_str(p->name), topic);
}

enum rp_target_state rp_targets_state(struct rp_targets *t, struct rp_bytes topic)
{
    if (topic.len == 0 || topic.len > TOPIC_NAME_MAX || memchr(topic.data, '\0', topic.len) != NULL)
        return RP_TARGET_MISSING;
    struct place *p = place_of(t, topic);
    if (holds(p, topic))
        return p->state;
    if (rp_mono_ms() < t->silent_until_mono_ms)
        return RP_TARGET_UNKNOWN;
    char name[TOPIC_NAME_MAX + 1];
    memcpy(name, topic.data, topic.len);
    name[topic.len] = '\0';
    enum rp_target_state state = ask(t, name);
    if (state == RP_TARGET_UNKNOWN)
        t->silent_until_mono_ms = rp_mono_ms() + SILENT_MS;
    else
        remember(p, topic, state, state == RP_TARGET_USABLE ? USABLE_MS : REFUSED_MS);
    return state;
}

void rp_targets_forget(struct rp_targets *t)
{
    for (size_t i = 0; i < N_PLACES; i++)
        if (t->places[i].state == RP_TARGET_USABLE)
            t->places[i].until_mono_ms = 0;
}

bool rp_targets_blame(struct rp_targets *t, struct rp_bytes topic, rd_kafka_resp_err_t code)
{
    enum rp_target_state state = state_of(code);
    if (state != RP_TARGET_MISSING && state != RP_TARGET_DENIED)
        return false;
    remember(place_of(t, topic), topic, state, state == RP_TARGET_DENIED ? BLAMED_MS : REFUSED_MS);
    return true;
}
