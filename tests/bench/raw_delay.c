/* SPDX-License-Identifier: Apache-2.0 */
/* What the delayer's lateness is measured against: holds its records in memory, and begins a
 * transaction when the first of them is due. It could not survive a restart: its offsets say
 * nothing of what it holds. bootstrap= source= target= group= count= [value=BYTES] [batch=]
 * [transactional=0] [offsets=last] It ends when `count` records are out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"

#define MOST_PARTITIONS 256
#define READ_MOST       512
#define LOOK_MS         5 /* at most so long without a look at the clock */
#define COMMIT_EVERY_MS 100
#define PATIENCE_MS     120000

struct item {
    int64_t due_us;
    size_t key_len, value_len;
    char *bytes; /* the key, then the value */
};

struct delay {
    rd_kafka_t *consumer, *producer;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t *target;
    const char *source;
    bool transactional;
    bool offsets_last; /* behind a full batch's records, in the next transaction */
    bool behind;       /* the last batch was full */
    size_t value, batch;
    int64_t committed_mono_ms; /* without transactions */
    struct item *heap;
    size_t n, cap;
    int64_t next[MOST_PARTITIONS];
};

static void push(struct delay *d, struct item item)
{
    if (d->n == d->cap) {
        d->cap = d->cap == 0 ? 4096 : 2 * d->cap;
        d->heap = realloc(d->heap, d->cap * sizeof *d->heap);
        if (d->heap == NULL)
            bench_die("heap", "no memory");
    }
    size_t i = d->n++;
    for (; i > 0 && d->heap[(i - 1) / 2].due_us > item.due_us; i = (i - 1) / 2)
        d->heap[i] = d->heap[(i - 1) / 2];
    d->heap[i] = item;
}

static struct item pop(struct delay *d)
{
    struct item top = d->heap[0], last = d->heap[--d->n];
    size_t i = 0, child;
    for (; (child = 2 * i + 1) < d->n; i = child) {
        if (child + 1 < d->n && d->heap[child + 1].due_us < d->heap[child].due_us)
            child++;
        if (d->heap[child].due_us >= last.due_us)
            break;
        d->heap[i] = d->heap[child];
    }
    d->heap[i] = last;
    return top;
}

static void hold(struct delay *d, const rd_kafka_message_t *m)
{
    struct item item = {.due_us = 1000 * bench_due_ms(m),
                        .key_len = m->key_len,
                        .value_len = d->value < m->len ? d->value : m->len};
    item.bytes = malloc(item.key_len + item.value_len + 1);
    if (item.bytes == NULL || m->partition >= MOST_PARTITIONS)
        bench_die("hold", "no memory, or too many partitions");
    memcpy(item.bytes, m->key, m->key_len);
    memcpy(item.bytes + item.key_len, m->payload, item.value_len);
    push(d, item);
    d->next[m->partition] = m->offset + 1;
}

/* How long until something is due, or a look at the clock is. */
static int64_t wait_us(const struct delay *d)
{
    int64_t left_us = d->n == 0 ? INT64_MAX : d->heap[0].due_us - rp_wall_us();
    return left_us > 1000 * LOOK_MS ? 1000 * LOOK_MS : left_us > 0 ? left_us : 0;
}

/* librdkafka waits for whole milliseconds. */
static void read_some(struct delay *d)
{
    rd_kafka_message_t *messages[READ_MOST];
    int64_t left_us = wait_us(d);
    size_t n = bench_take(d->queue, (int)(left_us / 1000), messages, READ_MOST);
    if (n == 0 && left_us > 0 && left_us < 1000)
        (void)usleep((useconds_t)left_us);
    for (size_t i = 0; i < n; i++) {
        hold(d, messages[i]);
        rd_kafka_message_destroy(messages[i]);
    }
}

static void send_one(struct delay *d, const struct item *item)
{
    char due[24];
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    (void)snprintf(due, sizeof due, "%lld", (long long)item->due_us / 1000);
    (void)rd_kafka_header_add(headers, "reprise-task-id", -1, item->bytes, (ssize_t)item->key_len);
    (void)rd_kafka_header_add(headers, "reprise-attempt", -1, "2", -1);
    (void)rd_kafka_header_add(headers, "reprise-due", -1, due, -1);
    (void)rd_kafka_header_add(headers, "reprise-first-failed-at", -1, due, -1);
    bench_produce(d->producer, d->target, (struct rp_bytes){item->bytes, item->key_len},
                  (struct rp_bytes){item->bytes + item->key_len, item->value_len}, headers);
}

static rd_kafka_topic_partition_list_t *offsets_of(struct delay *d)
{
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(16);
    for (int p = 0; p < MOST_PARTITIONS; p++)
        if (d->next[p] > 0)
            rd_kafka_topic_partition_list_add(offsets, d->source, p)->offset = d->next[p];
    return offsets;
}

static void send_offsets(struct delay *d)
{
    rd_kafka_topic_partition_list_t *offsets = offsets_of(d);
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(d->consumer);
    bench_check(rd_kafka_send_offsets_to_transaction(d->producer, offsets, group, 20000),
                "send offsets");
    rd_kafka_consumer_group_metadata_destroy(group);
    rd_kafka_topic_partition_list_destroy(offsets);
}

static void commit(struct delay *d)
{
    if (d->transactional) {
        bench_check(rd_kafka_commit_transaction(d->producer, 20000), "commit");
        return;
    }
    bench_check_code(rd_kafka_flush(d->producer, 20000), "flush"); /* which does not linger */
    if (rp_mono_ms() - d->committed_mono_ms < COMMIT_EVERY_MS)
        return;
    d->committed_mono_ms = rp_mono_ms();
    rd_kafka_topic_partition_list_t *offsets = offsets_of(d);
    bench_check_code(rd_kafka_commit(d->consumer, offsets, 1), "commit offsets");
    rd_kafka_topic_partition_list_destroy(offsets);
}

/* Sends a batch of what is due; returns how many. Where the last transaction is still being ended,
 * librdkafka tries again sooner for offsets than for records: so they go first, unless the records
 * of a full batch are to be on their way meanwhile. */
static size_t settle(struct delay *d)
{
    size_t n = 0;
    bool last = d->behind && d->offsets_last;
    if (d->n == 0 || d->heap[0].due_us > rp_wall_us())
        return 0;
    if (d->transactional)
        bench_check(rd_kafka_begin_transaction(d->producer), "begin");
    if (d->transactional && !last)
        send_offsets(d);
    int64_t now_us = rp_wall_us(); /* to begin takes a while, in which more come due */
    for (; d->n > 0 && n < d->batch && d->heap[0].due_us <= now_us; n++) {
        struct item item = pop(d);
        send_one(d, &item);
        free(item.bytes);
    }
    if (d->transactional && last)
        send_offsets(d);
    commit(d);
    d->behind = n == d->batch;
    return n;
}

int main(int argc, char **argv)
{
    struct delay d = {
        .source = bench_arg(argv, "source", NULL),
        .transactional = bench_number(argv, "transactional", "1") != 0,
        .offsets_last = strcmp(bench_arg(argv, "offsets", "first"), "last") == 0,
        .value = (size_t)bench_number(argv, "value", "100000000"),
        .batch = (size_t)bench_number(argv, "batch", "1000"),
    };
    size_t count = (size_t)bench_number(argv, "count", NULL), out = 0;
    (void)argc;
    d.producer =
        bench_producer(argv, bench_arg(argv, "group", NULL), bench_arg(argv, "linger", "0.5"));
    d.target = rd_kafka_topic_new(d.producer, bench_arg(argv, "target", NULL), NULL);
    d.consumer = bench_member(argv, BENCH_FETCH_BYTES);
    d.queue = rd_kafka_queue_get_consumer(d.consumer);
    int64_t last_mono_ms = rp_mono_ms();
    while (out < count) {
        read_some(&d);
        size_t n = settle(&d);
        if (n > 0 || d.n > 0)
            last_mono_ms = rp_mono_ms();
        else if (rp_mono_ms() - last_mono_ms > PATIENCE_MS)
            bench_die("source", "nothing comes any more");
        out += n;
    }
    (void)printf("{\"records\": %zu}\n", out);
    rd_kafka_queue_destroy(d.queue);
    rd_kafka_topic_destroy(d.target);
    (void)rd_kafka_consumer_close(d.consumer);
    rd_kafka_destroy(d.consumer);
    rd_kafka_destroy(d.producer);
    free(d.heap);
    return 0;
}
