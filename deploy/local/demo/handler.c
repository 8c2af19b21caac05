/* SPDX-License-Identifier: Apache-2.0 */
#include "handler.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <librdkafka/rdkafka.h>

/* The header in which whoever made the task names it; the first delivery knows no other name. */
#define ID_HEADER "task-id"
/* How long the end waits for reports under way: those that fail are read again by a successor. */
#define LAST_REPORTS_MS 3000

struct handler {
    const struct handler_def *def;
    rd_kafka_t *consumer, *producer;
    pthread_t thread;
    atomic_bool stop, ready;
    _Atomic(const char *) failed; /* points to `why` */
    char why[320];
    /* The thread's own. */
    uint64_t under_way;        /* reports that the broker has not confirmed */
    struct rp_header *headers; /* of the record in hand */
    size_t n_headers, max_headers;
    struct rp_buf value;
};

static int64_t wall_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void give_up(struct handler *h, const char *what, const char *why)
{
    if (atomic_load(&h->failed) != NULL)
        return;
    (void)snprintf(h->why, sizeof h->why, "handler of %s: %s: %s", h->def->topic, what, why);
    atomic_store(&h->failed, h->why);
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque)
{
    struct handler *h = opaque;
    (void)rk;
    h->under_way--;
    /* The failure is not reported, so what failed must be read again: no commit after this. */
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        give_up(h, "a failure is not reported", rd_kafka_err2str(m->err));
}

/* All of them, as they came: what is not handed back is lost to the next attempt. */
static int read_headers(struct handler *h, const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *list;
    h->n_headers = 0;
    if (rd_kafka_message_headers(m, &list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    size_t n = rd_kafka_header_cnt(list);
    if (n > h->max_headers) {
        struct rp_header *more = realloc(h->headers, n * sizeof *more);
        if (more == NULL)
            return -1;
        h->headers = more;
        h->max_headers = n;
    }
    for (size_t i = 0; i < n; i++) {
        const char *name;
        const void *value;
        size_t size;
        (void)rd_kafka_header_get_all(list, i, &name, &value, &size); /* i < n: cannot fail */
        h->headers[i] = (struct rp_header){rp_str(name), {value, size}};
    }
    h->n_headers = n;
    return 0;
}

static struct rp_bytes find_header(const struct handler *h, const char *name)
{
    for (size_t i = 0; i < h->n_headers; i++)
        if (rp_bytes_equal(h->headers[i].key, rp_str(name)))
            return h->headers[i].value;
    return RP_NULL_BYTES;
}

static void report(struct handler *h, const struct rp_failed_task *task)
{
    struct rp_error err;
    struct rp_bytes key = rp_failed_task_key(task);
    rd_kafka_resp_err_t rc;

    h->value.len = 0;
    if (rp_failed_task_encode(task, &h->value, &err) != 0) {
        give_up(h, "a failure cannot be encoded", err.text);
        return;
    }
    do {
        rc = rd_kafka_producev(h->producer, RD_KAFKA_V_TOPIC(h->def->failed_tasks),
                               RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                               RD_KAFKA_V_KEY(key.data, key.len),
                               RD_KAFKA_V_VALUE(h->value.data, h->value.len), RD_KAFKA_V_END);
        if (rc == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            (void)rd_kafka_poll(h->producer, 100);
    } while (rc == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    if (rc == RD_KAFKA_RESP_ERR_NO_ERROR)
        h->under_way++;
    else
        give_up(h, "a failure is not reported", rd_kafka_err2str(rc));
}

static void handle(struct handler *h, const rd_kafka_message_t *m)
{
    struct failure failure = {{0}, {0}};
    struct delivery d = {.received_us = wall_us(), .payload = {m->payload, m->len}};
    struct rp_failed_task task;

    if (read_headers(h, m) != 0) {
        give_up(h, "reading", "no memory");
        return;
    }
    /* Begins the event before the work, since it also knows which attempt this is. */
    rp_failed_task_begin(&task, find_header(h, ID_HEADER), h->headers, h->n_headers);
    (void)!rp_reinvocation_read(h->headers, h->n_headers, &d.in, NULL);
    d.task_id = task.task_id;
    d.attempt = task.attempt;
    if (h->def->work(h->def->opaque, &d, &failure))
        return;
    task.task_type = rp_str(h->def->task_type);
    task.target = rp_str(h->def->topic);
    task.key = (struct rp_bytes){m->key, m->key_len};
    task.payload = d.payload;
    task.error_class = rp_str(failure.error_class);
    task.error_message = rp_str(failure.message);
    task.source = rp_str(h->def->service);
    task.failed_at_ms = wall_us() / 1000;
    report(h, &task);
}

/* Marks all that was handled as done; librdkafka commits it in the background. */
static void store_offsets(struct handler *h)
{
    rd_kafka_topic_partition_list_t *partitions = NULL;
    if (h->under_way > 0 || atomic_load(&h->failed) != NULL)
        return;
    if (rd_kafka_assignment(h->consumer, &partitions) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    if (rd_kafka_position(h->consumer, partitions) == RD_KAFKA_RESP_ERR_NO_ERROR)
        (void)rd_kafka_offsets_store(h->consumer, partitions);
    if (partitions->cnt > 0)
        atomic_store(&h->ready, true);
    rd_kafka_topic_partition_list_destroy(partitions);
}

static void *run(void *opaque)
{
    struct handler *h = opaque;
    while (!atomic_load(&h->stop) && atomic_load(&h->failed) == NULL) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(h->consumer, 50);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            handle(h, m);
        else if (m != NULL && rd_kafka_fatal_error(h->consumer, NULL, 0) != 0)
            give_up(h, "reading", rd_kafka_message_errstr(m));
        if (m != NULL)
            rd_kafka_message_destroy(m);
        (void)rd_kafka_poll(h->producer, 0);
        store_offsets(h);
    }
    (void)rd_kafka_flush(h->producer, LAST_REPORTS_MS);
    store_offsets(h);
    (void)rd_kafka_consumer_close(h->consumer);
    return NULL;
}

static rd_kafka_t *client_new(rd_kafka_type_t type, const char *const (*settings)[2],
                              struct handler *h, struct rp_error *err)
{
    char why[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (; (*settings)[0] != NULL; settings++)
        if (rd_kafka_conf_set(conf, (*settings)[0], (*settings)[1], why, sizeof why) !=
            RD_KAFKA_CONF_OK) {
            (void)rp_fail(err, RP_E_CONFIG, RP_FATAL, "%s: %s", (*settings)[0], why);
            rd_kafka_conf_destroy(conf);
            return NULL;
        }
    rd_kafka_conf_set_opaque(conf, h);
    if (type == RD_KAFKA_PRODUCER)
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (rk == NULL) {
        (void)rp_fail(err, RP_E_KAFKA, RP_FATAL, "cannot make a Kafka client: %s", why);
        rd_kafka_conf_destroy(conf);
    }
    return rk;
}

static int connect_clients(struct handler *h, struct rp_error *err)
{
    const char *const consumer[][2] = {
        {"bootstrap.servers", h->def->bootstrap_servers},
        {"group.id", h->def->service},
        /* Each re-invocation is seen once, and never before it is due. */
        {"isolation.level", "read_committed"},
        {"auto.offset.reset", "earliest"},
        {"enable.auto.offset.store", "false"},
        {"auto.commit.interval.ms", "1000"},
        {NULL, NULL},
    };
    const char *const producer[][2] = {
        {"bootstrap.servers", h->def->bootstrap_servers},
        {"enable.idempotence", "true"},
        {"partitioner", "murmur2_random"},
        {"linger.ms", "1"},
        {NULL, NULL},
    };
    h->consumer = client_new(RD_KAFKA_CONSUMER, consumer, h, err);
    h->producer = h->consumer == NULL ? NULL : client_new(RD_KAFKA_PRODUCER, producer, h, err);
    return h->producer == NULL ? -1 : 0;
}

static int subscribe(struct handler *h, struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    (void)rd_kafka_topic_partition_list_add(topics, h->def->topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t rc = rd_kafka_subscribe(h->consumer, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    if (rc == RD_KAFKA_RESP_ERR_NO_ERROR)
        rc = rd_kafka_poll_set_consumer(h->consumer);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_fail(err, RP_E_KAFKA, RP_FATAL, "subscribe to %s: %s", h->def->topic,
                       rd_kafka_err2str(rc));
    return 0;
}

static void handler_free(struct handler *h)
{
    if (h->producer != NULL)
        rd_kafka_destroy(h->producer);
    if (h->consumer != NULL)
        rd_kafka_destroy(h->consumer);
    rp_buf_clear(&h->value);
    free(h->headers);
    free(h);
}

int handler_start(const struct handler_def *def, struct handler **out, struct rp_error *err)
{
    struct handler *h = calloc(1, sizeof *h);
    if (h == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a handler");
    h->def = def;
    if (connect_clients(h, err) != 0 || subscribe(h, err) != 0) {
        handler_free(h);
        return -1;
    }
    if (pthread_create(&h->thread, NULL, run, h) != 0) {
        handler_free(h);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no thread for a handler");
    }
    *out = h;
    return 0;
}

bool handler_ready(const struct handler *h)
{
    return atomic_load(&h->ready);
}

const char *handler_error(const struct handler *h)
{
    return atomic_load(&h->failed);
}

void handler_ask_to_stop(struct handler *h)
{
    if (h != NULL)
        atomic_store(&h->stop, true);
}

void handler_stop(struct handler *h)
{
    if (h == NULL)
        return;
    handler_ask_to_stop(h);
    (void)pthread_join(h->thread, NULL);
    handler_free(h);
}
