/* SPDX-License-Identifier: Apache-2.0 */
/* Reports failures at a steady rate, and measures how late their re-invocations come, as a
 * read_committed reader of the target sees it. A task's type, of LOAD_TYPES, stands for its delay,
 * so what it is late by is known here, whatever was made of it on its way; for the raw loop (raw=1)
 * its due time goes along. Measured are those that are due in the last `seconds=` of the sending:
 * by then as many come due as are reported, and as many wait as ever will. Once more those of them
 * that were due while the processor kept its speed (pulse.h).
 *   bootstrap= topic= target= rate= seconds= [raw=1] [min=MS] [max=MS] [size=BYTES]
 * With count= in place of a rate it sends nothing, and reads as many that somebody else has sent;
 * their headers say when each is due, and measured are those that are due from `later=` (ms) on. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "clock.h"
#include "pulse.h"
#include "reprise/rng.h"
#include "reprise/task.h"

#define PATIENCE_MS 30000
/* load-0 to load-96, from the shortest delay to the longest. A prime: else the delays could fit the
 * times between two tasks, and all would come due in the same few milliseconds. */
#define LOAD_TYPES 97

struct late {
    int64_t due_us;
    double ms;
};

struct load {
    const char *target;
    rd_kafka_topic_t *topic;
    bool raw;
    long rate, total, min_ms, max_ms;
    int64_t from_us, until_us; /* who is due meanwhile is measured */
    int64_t last_us;           /* when the last that is due before was received */
    rd_kafka_t *producer, *consumer;
    char *payload;
    size_t size;
    struct rp_rng rng;
    atomic_long sent;
    atomic_bool sent_all;
    bool *seen;
    atomic_llong *due_ms; /* of each task, when it is sent */
    struct late *late;
    long n_late, received, doubled, early;
};

static void send_one(struct load *l, long i, struct rp_buf *value)
{
    char id[48], type[16], due[24];
    struct rp_error err;
    int64_t step = rp_rng_between(&l->rng, 0, LOAD_TYPES - 1);
    (void)snprintf(id, sizeof id, "7b0e1c52-33a1-4a5e-9f00-%012ld", i);
    (void)snprintf(type, sizeof type, "load-%" PRId64, step);
    const struct rp_failed_task task =
        bench_task(rp_str(id), type, l->target, (struct rp_bytes){l->payload, l->size});
    value->len = 0;
    if (rp_failed_task_encode(&task, value, &err) != 0)
        bench_die("encode", err.text);
    rd_kafka_headers_t *headers = rd_kafka_headers_new(1);
    int64_t due_ms =
        task.failed_at_ms + l->min_ms + step * (l->max_ms - l->min_ms) / (LOAD_TYPES - 1);
    atomic_store(&l->due_ms[i], due_ms);
    (void)snprintf(due, sizeof due, "%" PRId64, due_ms);
    if (l->raw)
        (void)rd_kafka_header_add(headers, RP_HDR_DUE, -1, due, -1);
    bench_produce(l->producer, l->topic, rp_str(id), rp_buf_bytes(value), headers);
    (void)rd_kafka_poll(l->producer, 0);
}

static void *send_all(void *opaque)
{
    struct load *l = opaque;
    struct rp_buf value = {0};
    int64_t start_mono_us = rp_mono_us();
    for (long i = 0; i < l->total; i++) {
        int64_t at_mono_us = start_mono_us + i * 1000000 / l->rate, left_us;
        while ((left_us = at_mono_us - rp_mono_us()) > 1000)
            (void)rd_kafka_poll(l->producer, (int)(left_us / 1000));
        send_one(l, i, &value);
        atomic_fetch_add(&l->sent, 1);
    }
    bench_check_code(rd_kafka_flush(l->producer, PATIENCE_MS), "flush");
    rp_buf_clear(&value);
    atomic_store(&l->sent_all, true);
    return NULL;
}

static void receive(struct load *l, const rd_kafka_message_t *m)
{
    int64_t now_us = rp_wall_us();
    char text[64];
    (void)snprintf(text, sizeof text, "%.*s", (int)m->key_len, (const char *)m->key);
    long i = strtol(text + strlen("7b0e1c52-33a1-4a5e-9f00-"), NULL, 10);
    if (i < 0 || i >= l->total)
        bench_die("key", text);
    l->doubled += l->seen[i];
    l->received += !l->seen[i];
    l->seen[i] = true;
    int64_t due_us = 1000 * (l->rate > 0 ? atomic_load(&l->due_ms[i]) : bench_due_ms(m));
    int64_t late_us = now_us - due_us;
    l->early += late_us < 0;
    if (due_us < l->from_us)
        l->last_us = now_us;
    if (due_us >= l->from_us && due_us < l->until_us && l->n_late < l->total)
        l->late[l->n_late++] = (struct late){due_us, (double)late_us / 1000};
}

static void receive_all(struct load *l)
{
    int64_t last_mono_ms = rp_mono_ms();
    while (rp_mono_ms() - last_mono_ms < l->max_ms + PATIENCE_MS) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(l->consumer, 100);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            receive(l, m);
            last_mono_ms = rp_mono_ms();
        }
        if (m != NULL)
            rd_kafka_message_destroy(m);
        if (m == NULL && atomic_load(&l->sent_all) && l->received == l->total)
            break;
    }
}

static void read_target(struct load *l)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(l->consumer, l->target, NULL);
    bench_check_code(rd_kafka_metadata(l->consumer, 0, topic, &metadata, 10000), "metadata");
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(8);
    for (int p = 0; p < metadata->topics[0].partition_cnt; p++)
        rd_kafka_topic_partition_list_add(all, l->target, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
    bench_check_code(rd_kafka_assign(l->consumer, all), "assign");
    rd_kafka_topic_partition_list_destroy(all);
    rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(topic);
}

static const double quantiles[] = {0.01, 0.05, 0.1,   0.25,  0.5,   0.75,   0.9,    0.95,
                                   0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 1};
static const size_t n_quantiles = sizeof quantiles / sizeof *quantiles;

static void print_quantiles(const char *name, double *late_ms, size_t n)
{
    bench_sort(late_ms, n);
    (void)printf(", \"%s\": [", name);
    for (size_t i = 0; i < n_quantiles; i++) {
        size_t at = (size_t)(quantiles[i] * (double)n);
        (void)printf("%s%.3f", i == 0 ? "" : ", ", n == 0 ? 0 : late_ms[at < n ? at : n - 1]);
    }
    (void)printf("]");
}

/* `pulse`: NULL, or what tells which of them were due while the processor kept its speed. */
static void print_lateness(const struct load *l, const struct pulse *pulse)
{
    size_t n = 0;
    double *late_ms = calloc((size_t)l->n_late + 1, sizeof *late_ms);
    if (late_ms == NULL)
        bench_die("load", "no memory");
    for (long i = 0; i < l->n_late; i++)
        if (pulse == NULL || !pulse_was_slow(pulse, l->late[i].due_us))
            late_ms[n++] = l->late[i].ms;
    if (pulse != NULL)
        (void)printf(", \"at_speed\": %zu", n);
    print_quantiles(pulse == NULL ? "late_ms" : "late_at_speed_ms", late_ms, n);
    free(late_ms);
}

static void print_result(const struct load *l, const struct pulse *pulse)
{
    (void)printf("{\"sent\": %ld, \"measured\": %ld, \"lost\": %ld, \"doubled\": %ld, "
                 "\"early\": %ld, \"last_ms\": %.3f, \"quantiles\": [",
                 l->total, l->n_late, l->total - l->received, l->doubled, l->early,
                 (double)l->last_us / 1000);
    for (size_t i = 0; i < n_quantiles; i++)
        (void)printf("%s%g", i == 0 ? "" : ", ", quantiles[i]);
    (void)printf("]");
    print_lateness(l, NULL);
    if (pulse != NULL)
        print_lateness(l, pulse);
    (void)printf("}\n");
}

/* Returns what tells, once all has come, when the processor kept its speed. */
static struct pulse *send_and_receive(struct load *l, const char *topic, long seconds)
{
    pthread_t sender;
    struct pulse *pulse = pulse_start();
    l->topic = rd_kafka_topic_new(l->producer, topic, NULL);
    l->from_us = rp_wall_us() + 1000 * l->max_ms;
    l->until_us = l->from_us + 1000000 * seconds;
    if (pthread_create(&sender, NULL, send_all, l) != 0)
        bench_die("load", "no thread");
    receive_all(l);
    (void)pthread_join(sender, NULL);
    pulse_stop(pulse);
    rd_kafka_topic_destroy(l->topic);
    return pulse;
}

static void receive_what_was_sent(struct load *l, int64_t from_us)
{
    l->from_us = from_us;
    l->until_us = INT64_MAX;
    atomic_store(&l->sent_all, true);
    receive_all(l);
}

int main(int argc, char **argv)
{
    const char *const sends[] = {"linger.ms",          "1",    "partitioner", "murmur2_random",
                                 "enable.idempotence", "true", NULL};
    const char *const reads[] = {"group.id",
                                 "bench-reader",
                                 "isolation.level",
                                 "read_committed",
                                 "enable.auto.commit",
                                 "false",
                                 NULL};
    struct pulse *pulse = NULL;
    struct load l = {
        .target = bench_arg(argv, "target", NULL),
        .raw = bench_number(argv, "raw", "0") != 0,
        .rate = bench_number(argv, "rate", "0"),
        .min_ms = bench_number(argv, "min", "100"),
        .max_ms = bench_number(argv, "max", "15000"),
        .size = (size_t)bench_number(argv, "size", "200"),
    };
    (void)argc;
    long seconds = l.rate > 0 ? bench_number(argv, "seconds", NULL) : 0;
    l.total = l.rate > 0 ? l.rate * (l.max_ms / 1000 + seconds) : bench_number(argv, "count", NULL);
    l.payload = calloc(1, l.size + 1);
    l.seen = calloc((size_t)l.total, 1);
    l.due_ms = calloc((size_t)l.total, sizeof *l.due_ms);
    l.late = calloc((size_t)l.total, sizeof *l.late);
    if (l.payload == NULL || l.seen == NULL || l.due_ms == NULL || l.late == NULL)
        bench_die("load", "no memory");
    rp_rng_init(&l.rng, (uint64_t)bench_number(argv, "seed", "1"));
    l.producer = bench_client(RD_KAFKA_PRODUCER, argv, rd_kafka_conf_new(), sends);
    l.consumer = bench_client(RD_KAFKA_CONSUMER, argv, rd_kafka_conf_new(), reads);
    bench_check_code(rd_kafka_poll_set_consumer(l.consumer), "consumer");
    read_target(&l);
    if (l.rate > 0)
        pulse = send_and_receive(&l, bench_arg(argv, "topic", NULL), seconds);
    else
        receive_what_was_sent(&l, 1000 * bench_number(argv, "later", NULL));
    print_result(&l, pulse);
    pulse_free(pulse);
    rd_kafka_destroy(l.producer);
    (void)rd_kafka_consumer_close(l.consumer);
    rd_kafka_destroy(l.consumer);
    free(l.payload);
    free(l.seen);
    free(l.due_ms);
    free(l.late);
    return 0;
}
