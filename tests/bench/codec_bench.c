/* SPDX-License-Identifier: Apache-2.0 */
/* How many events a second one core encodes and decodes. */
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "codec.h"

#define RUN_US 500000

static struct rp_failed_task task_with(struct rp_bytes payload, const struct rp_header *headers,
                                       size_t n_headers)
{
    return (struct rp_failed_task){
        .task_id = rp_str("7b0e1c52-33a1-4a5e"),
        .task_type = rp_str("payment"),
        .payload = payload,
        .headers = headers,
        .n_headers = n_headers,
        .attempt = 2,
        .error_class = rp_str("java.net.SocketTimeoutException"),
        .error_message = rp_str("Read timed out"),
        .source = rp_str("payment-service"),
        .first_failed_at_ms = 1732147200000,
        .failed_at_ms = 1732147260123,
    };
}

static int die(const struct rp_error *err)
{
    (void)fprintf(stderr, "codec_bench: %s\n", err->text);
    return 1;
}

static void report(const char *what, const char *name, size_t bytes, uint64_t n, int64_t us)
{
    (void)printf("%-7s %-26s %7zu B  %6.2f million/s  %6.0f ns each\n", what, name, bytes,
                 (double)n / (double)us, (double)us * 1000 / (double)n);
}

static int bench_decode(struct rp_codec *codec, const char *name, struct rp_bytes value)
{
    struct rp_arena arena = {0};
    struct rp_failed_task out;
    struct rp_error err;
    uint64_t n = 0;
    int64_t begin_us = rp_mono_us(), us = 0;
    int rc = 0;
    while (us < RUN_US && rc == 0) {
        for (int i = 0; i < 1000 && rc == 0; i++) {
            rp_arena_reset(&arena);
            rc = rp_codec_decode_task(codec, value, &arena, &out, &err);
        }
        n += 1000;
        us = rp_mono_us() - begin_us;
    }
    rp_arena_clear(&arena);
    if (rc != 0)
        return die(&err);
    report("decode", name, value.len, n, us);
    return 0;
}

static int bench_encode(const char *name, const struct rp_failed_task *task)
{
    struct rp_buf buf = {0};
    struct rp_error err;
    uint64_t n = 0;
    int64_t begin_us = rp_mono_us(), us = 0;
    int rc = 0;
    while (us < RUN_US && rc == 0) {
        for (int i = 0; i < 1000 && rc == 0; i++) {
            buf.len = 0;
            rc = rp_failed_task_encode(task, &buf, &err);
        }
        n += 1000;
        us = rp_mono_us() - begin_us;
    }
    if (rc != 0)
        return die(&err);
    report("encode", name, buf.len, n, us);
    rp_buf_clear(&buf);
    return 0;
}

static int bench_both(struct rp_codec *codec, const char *name, const struct rp_failed_task *task)
{
    struct rp_buf buf = {0};
    struct rp_error err;
    if (rp_failed_task_encode(task, &buf, &err) != 0)
        return die(&err);
    int rc = bench_decode(codec, name, rp_buf_bytes(&buf));
    rp_buf_clear(&buf);
    return rc == 0 ? bench_encode(name, task) : rc;
}

int main(void)
{
    static char payload[10 << 20];
    static const struct rp_header headers[] = {
        {{"traceparent", 11}, {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 55}},
        {{"content-type", 12}, {"application/json", 16}},
        {{"tenant", 6}, {"acme", 4}},
        {{"reprise-attempt", 15}, {"2", 1}},
    };
    struct rp_codec *codec;
    struct rp_error err;
    memset(payload, 'x', sizeof payload);
    struct rp_failed_task small = task_with((struct rp_bytes){payload, 20}, NULL, 0);
    struct rp_failed_task kib = task_with((struct rp_bytes){payload, 770}, headers, 4);
    struct rp_failed_task huge = task_with((struct rp_bytes){payload, sizeof payload}, headers, 4);
    struct rp_bytes json = rp_str(
        "{\"task_id\": \"42\", \"task_type\": \"payment\", \"payload_json\": {\"amount\": 10.10}, "
        "\"attempt\": 1, \"error\": {\"class\": \"TimeoutError\", \"message\": \"no answer\"}, "
        "\"source\": \"shop\", \"failed_at\": \"2026-11-21T03:34:33Z\"}");
    if (rp_codec_new(NULL, &codec, &err) != 0)
        return die(&err);
    int rc = bench_both(codec, "small", &small);
    if (rc == 0)
        rc = bench_both(codec, "1 KiB, 4 headers", &kib);
    if (rc == 0)
        rc = bench_both(codec, "10 MiB", &huge);
    if (rc == 0)
        rc = bench_decode(codec, "JSON, small", json);
    rp_codec_free(codec);
    return rc;
}
