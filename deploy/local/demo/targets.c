/* SPDX-License-Identifier: Apache-2.0 */
#include "targets.h"

#include "kafka.h"
#include "workload.h"

#define TIMEOUT_MS 30000

static int read_result(rd_kafka_event_t *event, struct rp_error *err)
{
    size_t n;
    if (event == NULL)
        return rp_fail(err, RP_E_TIMEOUT, RP_FATAL, "creating topics: no answer");
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, rd_kafka_event_error(event), "creating topics");
    const rd_kafka_topic_result_t **topics =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
    for (size_t i = 0; i < n; i++) {
        rd_kafka_resp_err_t code = rd_kafka_topic_result_error(topics[i]);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
            return rp_kafka_fail(err, code, rd_kafka_topic_result_name(topics[i]));
    }
    return 0;
}

static int create(rd_kafka_t *rk, rd_kafka_NewTopic_t **topics, size_t n, struct rp_error *err)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_CreateTopics(rk, topics, n, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
    int rc = read_result(event, err);
    if (event != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    return rc;
}

static rd_kafka_NewTopic_t *new_topic(const struct rp_config *config, const char *name,
                                      const char *max_message_bytes, struct rp_error *err)
{
    char why[200];
    rd_kafka_NewTopic_t *topic =
        rd_kafka_NewTopic_new(name, config->topics.partitions, -1, why, sizeof why);
    if (topic == NULL) {
        (void)rp_fail(err, RP_E_INVALID, RP_FATAL, "topic %s: %s", name, why);
        return NULL;
    }
    if (max_message_bytes != NULL)
        (void)rd_kafka_NewTopic_set_config(topic, "max.message.bytes", max_message_bytes);
    return topic;
}

static int connect_admin(const struct rp_config *config, rd_kafka_t **out, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_ADMIN, err);
    return conf == NULL ? -1 : rp_kafka_new(RD_KAFKA_PRODUCER, conf, out, err);
}

int targets_make_one(const struct rp_config *config, const char *name,
                     const char *max_message_bytes, struct rp_error *err)
{
    rd_kafka_t *rk;
    int rc = -1;
    if (connect_admin(config, &rk, err) != 0)
        return -1;
    rd_kafka_NewTopic_t *topic = new_topic(config, name, max_message_bytes, err);
    if (topic != NULL) {
        rc = create(rk, &topic, 1, err);
        rd_kafka_NewTopic_destroy(topic);
    }
    rd_kafka_destroy(rk);
    return rc;
}

int targets_make(const struct rp_config *config, struct rp_error *err)
{
    for (size_t i = 0; i < workload_n_samples; i++)
        if (targets_make_one(config, workload_samples[i].topic, NULL, err) != 0)
            return -1;
    return targets_make_one(config, WORKLOAD_SMALL_TOPIC, WORKLOAD_SMALL_BYTES, err);
}
