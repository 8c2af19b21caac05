/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "clock.h"
#include "kafka.h"

struct feed {
    const struct rp_config *config;
    struct ledger *ledger;
    rd_kafka_t *producer;
    int64_t start_ms;
    struct rp_buf value;
    pthread_t thread;
    atomic_bool stop;
    _Atomic(const char *) failed; /* points to `why`; both are the thread's to set */
    struct rp_error why;
};

static void give_up(struct feed *f)
{
    (void)rp_fail_in(&f->why, "sending tasks");
    atomic_store(&f->failed, f->why.text);
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct feed *f = opaque;
    (void)rk;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR && atomic_load(&f->failed) == NULL) {
        (void)rp_kafka_fail(&f->why, m->err, rd_kafka_topic_name(m->rkt));
        give_up(f);
    }
}

static int produce(struct feed *f, const char *topic, const char *key, struct rp_bytes value,
                   const char *id)
{
    rd_kafka_resp_err_t rc;
    do {
        rc = rd_kafka_producev(
            f->producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(key, strlen(key)),
            RD_KAFKA_V_VALUE((void *)(uintptr_t)value.data, value.len),
            RD_KAFKA_V_HEADER("task-id", id, -1),
            RD_KAFKA_V_HEADER("content-type", "application/json", -1), RD_KAFKA_V_END);
        if (rc == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            (void)rd_kafka_poll(f->producer, 100);
    } while (rc == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    return rc == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(&f->why, rc, topic);
}

/* A producer whose own call failed: the task was never in a handler's topic. */
static int report(struct feed *f, const struct kind *k, const char *id, const char *key,
                  const char *payload)
{
    struct rp_failed_task task;
    rp_failed_task_begin(&task, rp_str(id), NULL, 0);
    task.task_type = rp_str(k->type);
    task.target = rp_str(k->topic);
    task.key = rp_str(key);
    task.payload = rp_str(payload);
    task.error_class = rp_str(k->error_class);
    task.error_message = rp_str(k->message);
    task.source = rp_str("reprise-demo");
    task.failed_at_ms = rp_wall_ms();
    f->value.len = 0;
    if (rp_failed_task_encode(&task, &f->value, &f->why) != 0)
        return -1;
    return produce(f, f->config->topics.failed_tasks, key, rp_buf_bytes(&f->value), id);
}

/* Each is refused by another of the decoder's checks, and names its task for the ledger. */
static int send_garbage(struct feed *f, int nth, const char *id)
{
    char text[80];
    int n;
    if (nth % 3 == 0)
        n = snprintf(text, sizeof text, "%s: no event", id);
    else if (nth % 3 == 1)
        n = snprintf(text, sizeof text, "{\"task_id\": \"%s\", ", id);
    else /* a fingerprint that nobody knows */
        n = snprintf(text, sizeof text, "\xc3\x01unknown!%s", id);
    return produce(f, f->config->topics.failed_tasks, id,
                   (struct rp_bytes){text, n > 0 ? (size_t)n : 0}, id);
}

/* Readable, but no execution can have failed before there was one. */
static int send_invalid(struct feed *f, const struct kind *k, const char *id)
{
    char text[400];
    (void)snprintf(text, sizeof text,
                   "{\"task_id\": \"%s\", \"task_type\": \"%s\", \"attempt\": 0, \"error\": "
                   "{\"class\": \"%s\", \"message\": \"%s\"}, \"source\": \"reprise-demo\", "
                   "\"failed_at\": %lld}",
                   id, k->type, k->error_class, k->message, (long long)rp_wall_ms());
    return produce(f, f->config->topics.failed_tasks, id, rp_str(text), id);
}

static int send_task(struct feed *f, int task)
{
    const struct kind *k = ledger_kind(f->ledger, task);
    char id[LEDGER_ID_SIZE], key[32];
    int nth = ledger_nth(f->ledger, task), rc;

    ledger_id(f->ledger, task, id);
    (void)snprintf(key, sizeof key, "customer-%d", task % 997);
    if (k->origin == FROM_GARBAGE)
        return send_garbage(f, nth, id);
    if (k->origin == FROM_INVALID)
        return send_invalid(f, k, id);
    char *payload = workload_payload(k, nth, f->start_ms);
    if (payload == NULL)
        return rp_fail(&f->why, RP_E_NOMEM, RP_FATAL, "no memory for a payload");
    rc = k->origin == FROM_PRODUCER ? report(f, k, id, key, payload)
                                    : produce(f, k->topic, key, rp_str(payload), id);
    free(payload);
    return rc;
}

static void *run(void *opaque)
{
    struct feed *f = opaque;
    int n = ledger_size(f->ledger);
    int64_t start_mono_ms = rp_mono_ms();
    for (int task = 0; task < n && !atomic_load(&f->stop); task++) {
        int64_t at_mono_ms = start_mono_ms + (int64_t)task * FEED_SECONDS * 1000 / n;
        int64_t left_ms;
        while ((left_ms = at_mono_ms - rp_mono_ms()) > 0 && !atomic_load(&f->stop))
            (void)rd_kafka_poll(f->producer, left_ms < 100 ? (int)left_ms : 100);
        /* Told first: the handler may have it before the producer knows that it is there. */
        ledger_sent(f->ledger, task);
        if (send_task(f, task) != 0) {
            give_up(f);
            break;
        }
    }
    if (!atomic_load(&f->stop))
        (void)rd_kafka_flush(f->producer, 30000);
    return NULL;
}

static rd_kafka_conf_t *conf_new(struct feed *f, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(f->config, RP_KAFKA_PRODUCER, err);
    if (conf == NULL)
        return NULL;
    rd_kafka_conf_set_opaque(conf, f);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    return conf;
}

static void feed_free(struct feed *f)
{
    if (f->producer != NULL) {
        (void)rd_kafka_purge(f->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
        rd_kafka_destroy(f->producer);
    }
    rp_buf_clear(&f->value);
    free(f);
}

int feed_start(const struct rp_config *config, struct ledger *ledger, struct feed **out,
               struct rp_error *err)
{
    struct feed *f = calloc(1, sizeof *f);
    if (f == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the tasks' producer");
    f->config = config;
    f->ledger = ledger;
    f->start_ms = rp_wall_ms();
    rd_kafka_conf_t *conf = conf_new(f, err);
    if (conf == NULL || rp_kafka_new(RD_KAFKA_PRODUCER, conf, &f->producer, err) != 0) {
        feed_free(f);
        return -1;
    }
    if (pthread_create(&f->thread, NULL, run, f) != 0) {
        feed_free(f);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no thread for the tasks' producer");
    }
    *out = f;
    return 0;
}

const char *feed_error(const struct feed *f)
{
    return atomic_load(&f->failed);
}

void feed_stop(struct feed *f)
{
    if (f == NULL)
        return;
    atomic_store(&f->stop, true);
    (void)pthread_join(f->thread, NULL);
    feed_free(f);
}
