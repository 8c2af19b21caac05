/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a topic: with events for the router (kind=event), with tier records for the delayer
 * (kind=tier) or with dead letters for the archiver (kind=letter), `size` bytes each.
 *   bootstrap= topic= kind= count= size= target= [due=MS] [spread=MS] [hold=1]
 *   [rate=] a second, as fast as it goes without; [first=] the number of the first task
 * With hold=1 all is one transaction, which is committed when a line comes on standard input: those
 * who wait at the topic's end then find all of it at once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "clock.h"
#include "dead_letter.h"

struct fill {
    const char *target;
    char kind;
    long count, size, rate, first;
    int64_t due_ms, spread_ms;
    rd_kafka_t *rk;
    rd_kafka_topic_t *topic;
    char *payload;
    struct rp_buf value;
};

static void encode(struct fill *f, const char *id, size_t payload)
{
    struct rp_error err;
    struct rp_failed_task task =
        bench_task(rp_str(id), "work", f->target, (struct rp_bytes){f->payload, payload});
    struct rp_dead_letter letter = {.has_task = true,
                                    .task = task,
                                    .reason = RP_EXHAUSTED,
                                    .detail = rp_str("execution 3, max_attempts 3"),
                                    .policy = rp_str("default"),
                                    .attempts = 3,
                                    .decided_at_ms = task.failed_at_ms,
                                    .topic = rp_str("failed-tasks")};
    f->value.len = 0;
    if ((f->kind == 'l' ? rp_dead_letter_encode(&letter, &f->value, &err)
                        : rp_failed_task_encode(&task, &f->value, &err)) != 0)
        bench_die("encode", err.text);
}

static void add(rd_kafka_headers_t *headers, const char *name, const char *value)
{
    (void)rd_kafka_header_add(headers, name, -1, value, -1);
}

static rd_kafka_headers_t *headers_of(const struct fill *f, const char *id, long i)
{
    char due[24], failed[24];
    rd_kafka_headers_t *headers = rd_kafka_headers_new(6);
    (void)snprintf(due, sizeof due, "%" PRId64, f->due_ms + i * f->spread_ms / f->count);
    (void)snprintf(failed, sizeof failed, "%" PRId64, rp_wall_ms());
    add(headers, RP_HDR_TASK_ID, id);
    add(headers, RP_HDR_ATTEMPT, "2");
    add(headers, RP_HDR_DUE, due);
    add(headers, RP_HDR_TARGET, f->target);
    add(headers, RP_HDR_POLICY, "default");
    add(headers, RP_HDR_FIRST_FAILED_AT, failed);
    return headers;
}

static void send_one(struct fill *f, const char *id, long i)
{
    rd_kafka_headers_t *headers = f->kind == 't' ? headers_of(f, id, i) : rd_kafka_headers_new(0);
    bench_produce(f->rk, f->topic, rp_str(id), rp_buf_bytes(&f->value), headers);
    (void)rd_kafka_poll(f->rk, 0);
}

static rd_kafka_t *producer_new(char **argv, bool hold)
{
    const char *settings[] = {"linger.ms",
                              "20",
                              "partitioner",
                              "murmur2_random",
                              "enable.idempotence",
                              "true",
                              "transactional.id",
                              bench_arg(argv, "topic", NULL),
                              "transaction.timeout.ms",
                              "600000",
                              NULL};
    if (!hold)
        settings[6] = NULL;
    rd_kafka_t *rk = bench_client(RD_KAFKA_PRODUCER, argv, rd_kafka_conf_new(), settings);
    if (hold) {
        bench_check(rd_kafka_init_transactions(rk, 30000), "init transactions");
        bench_check(rd_kafka_begin_transaction(rk), "begin");
    }
    return rk;
}

static void commit_when_told(rd_kafka_t *rk)
{
    (void)printf("filled\n");
    (void)fflush(stdout);
    (void)getchar();
    bench_check(rd_kafka_commit_transaction(rk, 60000), "commit");
}

/* Until the moment of record `i`, where they come at a rate. */
static void wait_for_turn(const struct fill *f, int64_t begun_mono_us, long i)
{
    int64_t left_us = 0;
    while (f->rate > 0 && (left_us = begun_mono_us + i * 1000000 / f->rate - rp_mono_us()) > 1000)
        (void)rd_kafka_poll(f->rk, (int)(left_us / 1000));
}

int main(int argc, char **argv)
{
    bool hold = bench_number(argv, "hold", "0") != 0;
    struct fill f = {
        .target = bench_arg(argv, "target", "target"),
        .kind = *bench_arg(argv, "kind", "event"),
        .count = bench_number(argv, "count", NULL),
        .size = bench_number(argv, "size", "200"),
        .rate = bench_number(argv, "rate", "0"),
        .first = bench_number(argv, "first", "0"),
        .due_ms = bench_number(argv, "due", "0"),
        .spread_ms = bench_number(argv, "spread", "0"),
    };
    (void)argc;
    f.payload = calloc(1, (size_t)f.size + 1);
    f.rk = producer_new(argv, hold);
    f.topic = rd_kafka_topic_new(f.rk, bench_arg(argv, "topic", NULL), NULL);
    char id[48];
    (void)snprintf(id, sizeof id, "7b0e1c52-33a1-4a5e-9f00-%012d", 0);
    encode(&f, id, 1); /* says what is there without the payload */
    size_t around = f.value.len - 1,
           payload = (size_t)f.size > around ? (size_t)f.size - around : 0;
    int64_t begun_mono_us = rp_mono_us();
    for (long i = 0; i < f.count; i++) {
        wait_for_turn(&f, begun_mono_us, i);
        (void)snprintf(id, sizeof id, "7b0e1c52-33a1-4a5e-9f00-%012ld", f.first + i);
        encode(&f, id, payload);
        send_one(&f, id, i);
    }
    bench_check_code(rd_kafka_flush(f.rk, 120000), "flush");
    if (hold)
        commit_when_told(f.rk);
    (void)printf("{\"records\": %ld, \"payload\": %zu}\n", f.count, payload);
    rd_kafka_topic_destroy(f.topic);
    rd_kafka_destroy(f.rk);
    rp_buf_clear(&f.value);
    free(f.payload);
    return 0;
}
