/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "arena.h"
#include "clock.h"
#include "kafka.h"
#include "lateness.h"
#include "targets.h"

#define WARM_UP_S 5
/* How long nothing may come before the rest counts as lost. */
#define PATIENCE_MS 30000
#define PAYLOAD     200

struct load {
    const struct rp_config *config;
    char topic[250];
    const volatile sig_atomic_t *stop;
    int rate, total, first_measured;
    rd_kafka_t *producer, *consumer;
    pthread_t sender;
    atomic_int sent;
    atomic_bool sent_all;
    struct rp_error send_error; /* the sender's, until it is joined */
    struct rp_arena arena;
    bool *seen; /* by task */
    int received, doubled;
    struct lateness lateness;
};

/* Sending */

static int send_event(struct load *l, int n, struct rp_buf *value)
{
    static const char payload[PAYLOAD];
    struct rp_failed_task task;
    char id[32];
    rd_kafka_resp_err_t rc;

    (void)snprintf(id, sizeof id, "%d", n);
    rp_failed_task_begin(&task, rp_str(id), NULL, 0);
    task.task_type = rp_str(LOAD_TYPE);
    task.target = rp_str(l->topic);
    task.payload = (struct rp_bytes){payload, sizeof payload};
    task.error_class = rp_str("TimeoutError");
    task.error_message = rp_str("timed out");
    task.source = rp_str("reprise-demo");
    task.failed_at_ms = rp_wall_ms();
    value->len = 0;
    if (rp_failed_task_encode(&task, value, &l->send_error) != 0)
        return -1;
    do {
        rc = rd_kafka_producev(l->producer, RD_KAFKA_V_TOPIC(l->config->topics.failed_tasks),
                               RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                               RD_KAFKA_V_KEY(id, strlen(id)),
                               RD_KAFKA_V_VALUE(value->data, value->len), RD_KAFKA_V_END);
        if (rc == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            (void)rd_kafka_poll(l->producer, 10);
    } while (rc == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    return rc == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(&l->send_error, rc, "sending");
}

static void *send_all(void *opaque)
{
    struct load *l = opaque;
    struct rp_buf value = {0};
    int64_t start_mono_us = rp_mono_us();
    for (int n = 0; n < l->total && !*l->stop; n++) {
        int64_t at_mono_us = start_mono_us + (int64_t)n * 1000000 / l->rate, left_us;
        while ((left_us = at_mono_us - rp_mono_us()) > 1000 && !*l->stop)
            (void)rd_kafka_poll(l->producer, (int)(left_us / 1000));
        if (send_event(l, n, &value) != 0)
            break;
        atomic_fetch_add(&l->sent, 1);
    }
    (void)rd_kafka_flush(l->producer, PATIENCE_MS);
    rp_buf_clear(&value);
    atomic_store(&l->sent_all, true);
    return NULL;
}

/* Receiving */

static void receive(struct load *l, const rd_kafka_message_t *m)
{
    int64_t now_us = rp_wall_us();
    const struct rp_header *headers;
    struct rp_reinvocation in;
    size_t n;
    char id[32];

    rp_arena_reset(&l->arena);
    if (rp_kafka_headers(m, &l->arena, &headers, &n, NULL) != 0 ||
        rp_reinvocation_read(headers, n, &in, NULL) != 0 || in.due_ms == RP_NO_TIME)
        return;
    (void)snprintf(id, sizeof id, "%.*s", (int)in.task_id.len, (const char *)in.task_id.data);
    long task = strtol(id, NULL, 10);
    if (task < 0 || task >= l->total)
        return;
    if (l->seen[task])
        l->doubled++;
    else
        l->received++;
    l->seen[task] = true;
    if (task >= l->first_measured)
        lateness_add(&l->lateness, now_us - 1000 * in.due_ms);
}

static void receive_all(struct load *l)
{
    int64_t last_mono_ms = rp_mono_ms(), said_mono_ms = last_mono_ms;
    while (!*l->stop) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(l->consumer, 20);
        int64_t now_mono_ms = rp_mono_ms();
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            receive(l, m);
            last_mono_ms = now_mono_ms;
        }
        if (m != NULL)
            rd_kafka_message_destroy(m);
        if (now_mono_ms - said_mono_ms >= 5000) {
            printf("  %d sent, %d came back\n", atomic_load(&l->sent), l->received);
            (void)fflush(stdout);
            said_mono_ms = now_mono_ms;
        }
        bool done = atomic_load(&l->sent_all) && l->received == atomic_load(&l->sent);
        if (done && now_mono_ms - last_mono_ms > 1000)
            break;
        if (now_mono_ms - last_mono_ms > PATIENCE_MS)
            break;
    }
}

static int open_producer(struct load *l, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(l->config, RP_KAFKA_PRODUCER, err);
    return conf == NULL ? -1 : rp_kafka_new(RD_KAFKA_PRODUCER, conf, &l->producer, err);
}

static int open_consumer(struct load *l, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(l->config, RP_KAFKA_CONSUMER, err);
    if (conf == NULL)
        return -1;
    if (rp_kafka_conf_set(conf, "group.id", "reprise-demo-load", err) != 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    if (rp_kafka_new(RD_KAFKA_CONSUMER, conf, &l->consumer, err) != 0)
        return -1;
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(8);
    rd_kafka_topic_partition_list_add_range(all, l->topic, 0, l->config->topics.partitions - 1);
    for (int i = 0; i < all->cnt; i++)
        all->elems[i].offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_resp_err_t rc = rd_kafka_assign(l->consumer, all);
    rd_kafka_topic_partition_list_destroy(all);
    return rc == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, rc, l->topic);
}

static void print_result(const struct load *l)
{
    int sent = atomic_load(&l->sent);
    printf("%s, %d/s, %" PRIu64 " measured: lateness p50 %.1f ms, p99 %.1f ms, max %.1f ms\n"
           "sent: %d   doubled: %d   lost: %d   early: %" PRIu64 "\n",
           l->config->guarantee == RP_EXACTLY_ONCE ? "exactly-once" : "at-least-once", l->rate,
           l->lateness.count, lateness_quantile_ms(&l->lateness, 0.5),
           lateness_quantile_ms(&l->lateness, 0.99), (double)l->lateness.max_us / 1000, sent,
           l->doubled, sent - l->received, l->lateness.early);
}

static int measure(struct load *l, bool *whole, struct rp_error *err)
{
    if (targets_make_one(l->config, l->topic, NULL, err) != 0 || open_producer(l, err) != 0 ||
        open_consumer(l, err) != 0)
        return -1;
    if (pthread_create(&l->sender, NULL, send_all, l) != 0)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no thread for the sender");
    receive_all(l);
    (void)pthread_join(l->sender, NULL);
    if (l->send_error.code != RP_OK)
        return rp_fail_as(err, &l->send_error);
    print_result(l);
    *whole = atomic_load(&l->sent) == l->total && l->received == l->total && l->doubled == 0 &&
             l->lateness.early == 0;
    return 0;
}

int load_run(const struct rp_config *config, int rate, int seconds,
             const volatile sig_atomic_t *stop, bool *whole, struct rp_error *err)
{
    struct load *l = calloc(1, sizeof *l);
    int rc = -1;
    if (l != NULL) {
        l->config = config;
        (void)snprintf(l->topic, sizeof l->topic, "%s%s", config->topics.prefix, LOAD_TYPE);
        l->stop = stop;
        l->rate = rate;
        l->first_measured = rate * WARM_UP_S;
        l->total = rate * (WARM_UP_S + seconds);
        l->seen = calloc((size_t)l->total, 1);
    }
    if (l == NULL || l->seen == NULL)
        (void)rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the load");
    else
        rc = measure(l, whole, err);
    if (l != NULL) {
        if (l->producer != NULL)
            rd_kafka_destroy(l->producer);
        if (l->consumer != NULL)
            rd_kafka_destroy(l->consumer);
        rp_arena_clear(&l->arena);
        free(l->seen);
    }
    free(l);
    return rc;
}
