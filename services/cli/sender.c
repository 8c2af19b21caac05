/* SPDX-License-Identifier: Apache-2.0 */
#include "sender.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "kafka.h"

/* Somebody waits at the terminal: librdkafka's five minutes are too long to learn that the broker
 * is not there, and its thirty seconds that the topic is not. */
static const struct rp_property impatience[] = {
    {"message.timeout.ms", "30000"},
    {"topic.metadata.propagation.max.ms", "3000"},
};

struct sender {
    rd_kafka_t *rk;
    const char *topic;
    struct rp_buf value; /* of the event being sent; its memory is used again */
    struct sender_counts counts;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct sender *s = opaque;
    uint64_t line = (uint64_t)(uintptr_t)m->_private;
    (void)rk;
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        s->counts.confirmed++;
        s->counts.partition = m->partition;
        s->counts.offset = m->offset;
        return;
    }
    const char *why = rd_kafka_err2str(m->err);
    s->counts.failed++;
    if (line > 0)
        cli_error("line %" PRIu64 ": not sent to %s: %s", line, s->topic, why);
    else
        cli_error("not sent to %s: %s", s->topic, why);
}

static bool is_set(const struct rp_properties *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].name, name) == 0)
            return true;
    return false;
}

/* What the file says comes first. */
static int set_impatience(rd_kafka_conf_t *conf, const struct rp_config *config,
                          struct rp_error *err)
{
    for (size_t i = 0; i < sizeof impatience / sizeof impatience[0]; i++) {
        const char *name = impatience[i].name;
        if (!is_set(&config->kafka.common, name) && !is_set(&config->kafka.producer, name) &&
            rp_kafka_conf_set(conf, name, impatience[i].value, err) != 0)
            return -1;
    }
    return 0;
}

static rd_kafka_conf_t *conf_new(const struct rp_config *config, struct sender *s,
                                 struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_PRODUCER, err);
    if (conf == NULL)
        return NULL;
    if (set_impatience(conf, config, err) != 0) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, s);
    return conf;
}

int sender_new(const struct rp_config *config, struct sender **out, struct rp_error *err)
{
    struct sender *s = calloc(1, sizeof *s);
    if (s == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a producer");
    s->topic = config->topics.failed_tasks;
    rd_kafka_conf_t *conf = conf_new(config, s, err);
    if (conf == NULL || rp_kafka_new(RD_KAFKA_PRODUCER, conf, &s->rk, err) != 0) {
        free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void sender_free(struct sender *s)
{
    if (s == NULL)
        return;
    (void)rd_kafka_purge(s->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_destroy(s->rk);
    rp_buf_clear(&s->value);
    free(s);
}

int sender_send(struct sender *s, const struct rp_failed_task *task, uint64_t line,
                struct rp_error *err)
{
    struct rp_bytes key = rp_failed_task_key(task);
    rd_kafka_resp_err_t rc;

    s->value.len = 0;
    if (rp_failed_task_encode(task, &s->value, err) != 0)
        return -1;
    for (;;) {
        rc = rd_kafka_producev(
            s->rk, RD_KAFKA_V_TOPIC(s->topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(key.data, key.len), RD_KAFKA_V_VALUE(s->value.data, s->value.len),
            RD_KAFKA_V_OPAQUE((void *)(uintptr_t)line), RD_KAFKA_V_END);
        if (rc != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            break;
        (void)rd_kafka_poll(s->rk, 100);
    }
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, rc, "not sent");
    s->counts.sent++;
    (void)rd_kafka_poll(s->rk, 0);
    return 0;
}

uint64_t sender_wait(struct sender *s, int timeout_ms)
{
    /* What is left is counted from the delivery reports. */
    (void)rd_kafka_flush(s->rk, timeout_ms);
    return s->counts.sent - s->counts.confirmed - s->counts.failed;
}

struct sender_counts sender_counts(const struct sender *s)
{
    return s->counts;
}
