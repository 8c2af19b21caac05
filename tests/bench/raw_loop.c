/* SPDX-License-Identifier: Apache-2.0 */
/* What the router and the delayer are measured against: reads a topic, sends each record on with as
 * many headers as they do, and commits the offsets in the same transaction. Nothing is decoded or
 * decided. bootstrap= source= target= group= headers=tier|target count= [handler=NAME of a tier's
 * records] [counter=FILE] [offsets=first|last] [value=BYTES] [batch=] [linger=MS]
 * It may be started before there is anything to read, and ends when `count` records are out, of all
 * the loops that share the counter. Offsets go last while records are sent as they come; first, a
 * whole batch is read before: see README.md. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "clock.h"

#define MOST_PARTITIONS 256
#define LINGER_MS       5  /* how long a transaction waits for more */
#define IDLE_MS         20 /* until it looks whether the others have had all */
#define PATIENCE_MS     300000

struct loop {
    rd_kafka_t *consumer, *producer;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t *target;
    const char *source, *handler;
    bool of_tier, offsets_first;
    size_t value, batch;
    int64_t next[MOST_PARTITIONS]; /* 0: not in this batch */
    rd_kafka_message_t **messages;
};

/* Of the product's names and lengths. */
static rd_kafka_headers_t *headers_of(const struct loop *l)
{
    const struct {
        const char *name, *value;
    } headers[] = {
        {"reprise-task-id", "7b0e1c52-33a1-4a5e-9f00-000000000000"},
        {"reprise-attempt", "2"},
        {"reprise-due", "1763700000000"},
        {"reprise-first-failed-at", "1763700000000"},
        {"reprise-target", l->handler},
        {"reprise-policy", "default"},
    };
    size_t n = l->of_tier ? 6 : 4;
    rd_kafka_headers_t *list = rd_kafka_headers_new(n);
    for (size_t i = 0; i < n; i++)
        (void)rd_kafka_header_add(list, headers[i].name, -1, headers[i].value, -1);
    return list;
}

static void send_on(struct loop *l, const rd_kafka_message_t *m)
{
    size_t len = l->value < m->len ? l->value : m->len;
    bench_produce(l->producer, l->target, (struct rp_bytes){m->key, m->key_len},
                  (struct rp_bytes){m->payload, len}, headers_of(l));
}

static void send_all_on(struct loop *l, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) {
        send_on(l, l->messages[i]);
        rd_kafka_message_destroy(l->messages[i]);
    }
}

static void note_offset(struct loop *l, const rd_kafka_message_t *m)
{
    if (m->partition >= MOST_PARTITIONS)
        bench_die("partitions", "too many");
    l->next[m->partition] = m->offset + 1;
}

/* Takes what comes until the batch is full, or has lingered. Returns how many came. */
static size_t take_batch(struct loop *l)
{
    size_t n = 0, got;
    int64_t end_mono_ms = rp_mono_ms() + IDLE_MS, left_ms;
    do {
        left_ms = end_mono_ms - rp_mono_ms();
        got = bench_take(l->queue, left_ms > 0 ? (int)left_ms : 0, l->messages + n, l->batch - n);
        for (size_t i = n; i < n + got; i++)
            note_offset(l, l->messages[i]);
        if (n == 0 && got > 0) {
            bench_check(rd_kafka_begin_transaction(l->producer), "begin");
            end_mono_ms = rp_mono_ms() + LINGER_MS;
        }
        if (!l->offsets_first)
            send_all_on(l, n, got);
        n += got;
    } while (n < l->batch && (got > 0 || left_ms > 0));
    return n;
}

static void send_offsets(struct loop *l)
{
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(16);
    for (int p = 0; p < MOST_PARTITIONS; p++)
        if (l->next[p] > 0)
            rd_kafka_topic_partition_list_add(offsets, l->source, p)->offset = l->next[p];
    memset(l->next, 0, sizeof l->next);
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(l->consumer);
    bench_check(rd_kafka_send_offsets_to_transaction(l->producer, offsets, group, 20000),
                "send offsets");
    rd_kafka_consumer_group_metadata_destroy(group);
    rd_kafka_topic_partition_list_destroy(offsets);
}

/* Returns how many were sent. */
static size_t one_batch(struct loop *l)
{
    size_t n = take_batch(l);
    if (n == 0)
        return 0;
    send_offsets(l);
    if (l->offsets_first)
        send_all_on(l, 0, n);
    bench_check(rd_kafka_commit_transaction(l->producer, 20000), "commit");
    return n;
}

int main(int argc, char **argv)
{
    atomic_long alone = 0, *done = &alone;
    struct loop l = {
        .source = bench_arg(argv, "source", NULL),
        .handler = bench_arg(argv, "handler", "target"),
        .of_tier = strcmp(bench_arg(argv, "headers", NULL), "tier") == 0,
        .offsets_first = strcmp(bench_arg(argv, "offsets", "last"), "first") == 0,
        .value = (size_t)bench_number(argv, "value", "100000000"),
        .batch = (size_t)bench_number(argv, "batch", "1000"),
    };
    const char *group = bench_arg(argv, "group", NULL), *counter = bench_arg(argv, "counter", "");
    long count = bench_number(argv, "count", NULL);
    char id[200];
    (void)argc;
    (void)snprintf(id, sizeof id, "%s-%s", group, bench_arg(argv, "id", "0"));
    l.messages = calloc(l.batch, sizeof *l.messages);
    l.producer = bench_producer(argv, id, bench_arg(argv, "linger", "0"));
    l.target = rd_kafka_topic_new(l.producer, bench_arg(argv, "target", NULL), NULL);
    l.consumer = bench_member(argv, BENCH_FETCH_BYTES);
    l.queue = rd_kafka_queue_get_consumer(l.consumer);
    if (*counter != '\0')
        done = bench_map(counter, sizeof *done);
    size_t total = 0;
    int64_t cpu_us = 0, last_mono_ms = rp_mono_ms();
    while (atomic_load(done) < count) {
        size_t n = one_batch(&l);
        if (n > 0) {
            cpu_us = bench_cpu_us();
            last_mono_ms = rp_mono_ms();
        } else if (rp_mono_ms() - last_mono_ms > PATIENCE_MS) {
            bench_die("source", "nothing comes any more");
        }
        total += n;
        atomic_fetch_add(done, (long)n);
    }
    (void)printf("{\"records\": %zu, \"cpu_us\": %lld}\n", total, (long long)cpu_us);
    (void)fflush(stdout);
    rd_kafka_queue_destroy(l.queue);
    rd_kafka_topic_destroy(l.target);
    (void)rd_kafka_consumer_close(l.consumer);
    rd_kafka_destroy(l.consumer);
    rd_kafka_destroy(l.producer);
    free(l.messages);
    return 0;
}
