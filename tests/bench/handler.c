/* SPDX-License-Identifier: Apache-2.0 */
/* The handler beside which Spring Kafka's is measured: it fails each task of the topic `work`,
 * reports that to `failures`, and succeeds when the task comes again in the topic `again`. What it
 * saw of each task is in the file `ledger`, which outlives whoever is killed. It runs until it is
 * killed. bootstrap= group= work= again= failures= ledger= count= source=WORK,AGAIN */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "clock.h"
#include "reprise/task.h"

#define COMMIT_RECORDS 1000
#define COMMIT_MS      20

/* As spring/Retrying.java writes it; spring.py reads it. */
struct entry {
    uint32_t failures, again; /* how often it was handled */
    int64_t failed_us, again_us;
};

struct handler {
    rd_kafka_t *consumer, *producer;
    rd_kafka_topic_t *failures;
    const char *work, *again;
    struct entry *entries;
    long count;
    size_t unacknowledged, uncommitted;
    struct rp_buf value;
};

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    (void)rk;
    bench_check_code(message->err, "delivery");
    ((struct handler *)opaque)->unacknowledged--;
}

static struct entry *entry_of(const struct handler *h, const rd_kafka_message_t *m)
{
    char key[64];
    (void)snprintf(key, sizeof key, "%.*s", (int)m->key_len, (const char *)m->key);
    const char *dash = strrchr(key, '-');
    long i = dash == NULL ? -1 : strtol(dash + 1, NULL, 10);
    if (i < 0 || i >= h->count)
        bench_die("key", key);
    return &h->entries[i];
}

static void report(struct handler *h, const rd_kafka_message_t *m)
{
    struct rp_error err;
    const struct rp_failed_task task = bench_task((struct rp_bytes){m->key, m->key_len}, "work",
                                                  h->again, (struct rp_bytes){m->payload, m->len});
    h->value.len = 0;
    if (rp_failed_task_encode(&task, &h->value, &err) != 0)
        bench_die("encode", err.text);
    bench_produce(h->producer, h->failures, task.key, rp_buf_bytes(&h->value),
                  rd_kafka_headers_new(0));
    (void)rd_kafka_poll(h->producer, 0);
    h->unacknowledged++;
}

static void handle(struct handler *h, const rd_kafka_message_t *m)
{
    struct entry *entry = entry_of(h, m);
    if (strcmp(rd_kafka_topic_name(m->rkt), h->work) == 0) {
        if (entry->failures++ == 0)
            entry->failed_us = rp_wall_us();
        report(h, m);
    } else if (entry->again++ == 0) {
        entry->again_us = rp_wall_us();
    }
    bench_check(rd_kafka_offset_store_message((rd_kafka_message_t *)(uintptr_t)m), "store offset");
    h->uncommitted++;
}

/* At least once: what is reported is on the broker before its offsets are. */
static void commit(struct handler *h)
{
    while (h->unacknowledged > 0)
        (void)rd_kafka_poll(h->producer, 100);
    bench_check_code(rd_kafka_commit(h->consumer, NULL, 1), "commit offsets");
    h->uncommitted = 0;
}

int main(int argc, char **argv)
{
    struct handler h = {
        .work = bench_arg(argv, "work", NULL),
        .again = bench_arg(argv, "again", NULL),
        .count = bench_number(argv, "count", NULL),
    };
    const char *const sends[] = {"linger.ms",          "1",    "partitioner", "murmur2_random",
                                 "enable.idempotence", "true", NULL};
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    (void)argc;
    h.entries = bench_map(bench_arg(argv, "ledger", NULL), (size_t)h.count * sizeof *h.entries);
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_opaque(conf, &h);
    h.producer = bench_client(RD_KAFKA_PRODUCER, argv, conf, sends);
    h.failures = rd_kafka_topic_new(h.producer, bench_arg(argv, "failures", NULL), NULL);
    h.consumer = bench_member(argv, "1");
    int64_t committed_mono_ms = rp_mono_ms();
    for (;;) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(h.consumer, COMMIT_MS);
        if (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            handle(&h, m);
        if (m != NULL)
            rd_kafka_message_destroy(m);
        int64_t now_mono_ms = rp_mono_ms();
        if (h.uncommitted >= COMMIT_RECORDS ||
            (h.uncommitted > 0 && now_mono_ms - committed_mono_ms >= COMMIT_MS)) {
            commit(&h);
            committed_mono_ms = now_mono_ms;
        }
    }
}
