/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"

const char *bench_arg(char **argv, const char *name, const char *fallback)
{
    size_t len = strlen(name);
    while (*++argv != NULL)
        if (strncmp(*argv, name, len) == 0 && (*argv)[len] == '=')
            return *argv + len + 1;
    if (fallback == NULL)
        bench_die(name, "this argument is missing");
    return fallback;
}

long bench_number(char **argv, const char *name, const char *fallback)
{
    return strtol(bench_arg(argv, name, fallback), NULL, 10);
}

_Noreturn void bench_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

void bench_check(rd_kafka_error_t *error, const char *what)
{
    if (error != NULL)
        bench_die(what, rd_kafka_error_string(error));
}

void bench_check_code(rd_kafka_resp_err_t code, const char *what)
{
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        bench_die(what, rd_kafka_err2str(code));
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[200];
    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) != RD_KAFKA_CONF_OK)
        bench_die(name, text);
}

rd_kafka_t *bench_client(rd_kafka_type_t type, char **argv, rd_kafka_conf_t *conf,
                         const char *const *settings)
{
    char text[200];
    (void)mallopt(M_MXFAST, 0); /* as the services do */
    set(conf, "bootstrap.servers", bench_arg(argv, "bootstrap", NULL));
    set(conf, "socket.nagle.disable", "true");
    for (; *settings != NULL; settings += 2)
        set(conf, settings[0], settings[1]);
    rd_kafka_t *rk = rd_kafka_new(type, conf, text, sizeof text);
    if (rk == NULL)
        bench_die("client", text);
    return rk;
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    (void)rk;
    (void)opaque;
    bench_check_code(message->err, "delivery");
}

rd_kafka_t *bench_producer(char **argv, const char *id, const char *linger_ms)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    bool transactional = bench_number(argv, "transactional", "1") != 0;
    const char *settings[] = {"enable.idempotence",
                              "true",
                              "acks",
                              "all",
                              "partitioner",
                              "murmur2_random",
                              "retry.backoff.ms",
                              "1",
                              "linger.ms",
                              linger_ms,
                              "transactional.id",
                              id,
                              NULL};
    if (!transactional)
        settings[10] = NULL;
    rd_kafka_t *rk = bench_client(RD_KAFKA_PRODUCER, argv, conf, settings);
    if (transactional)
        bench_check(rd_kafka_init_transactions(rk, 30000), "init transactions");
    return rk;
}

rd_kafka_t *bench_member(char **argv, const char *fetch_min_bytes)
{
    const char *settings[] = {"group.id",
                              bench_arg(argv, "group", NULL),
                              "isolation.level",
                              "read_committed",
                              "auto.offset.reset",
                              "earliest",
                              "enable.auto.commit",
                              "false",
                              "enable.auto.offset.store",
                              "false",
                              "fetch.queue.backoff.ms",
                              "5",
                              "fetch.min.bytes",
                              fetch_min_bytes,
                              "fetch.wait.max.ms",
                              "10",
                              NULL};
    rd_kafka_t *rk = bench_client(RD_KAFKA_CONSUMER, argv, rd_kafka_conf_new(), settings);
    bench_check_code(rd_kafka_poll_set_consumer(rk), "consumer");
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(2);
    char names[600], *rest = names, *name;
    (void)snprintf(names, sizeof names, "%s", bench_arg(argv, "source", NULL));
    while ((name = strsep(&rest, ",")) != NULL)
        rd_kafka_topic_partition_list_add(topics, name, RD_KAFKA_PARTITION_UA);
    bench_check_code(rd_kafka_subscribe(rk, topics), "subscribe");
    rd_kafka_topic_partition_list_destroy(topics);
    return rk;
}

static size_t take(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **out, size_t most)
{
    ssize_t n = rd_kafka_consume_batch_queue(queue, timeout_ms, out, most);
    for (ssize_t i = 0; i < n; i++)
        if (out[i]->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            bench_die("consume", rd_kafka_message_errstr(out[i]));
    return n > 0 ? (size_t)n : 0;
}

size_t bench_take(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **out, size_t most)
{
    size_t n = take(queue, 0, out, most);
    if (n == 0 && timeout_ms > 0 && take(queue, timeout_ms, out, 1) == 1)
        n = 1 + take(queue, 0, out + 1, most - 1);
    return n;
}

int64_t bench_due_ms(const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers;
    const void *due;
    size_t size;
    char text[24];
    bench_check_code(rd_kafka_message_headers(m, &headers), "headers");
    bench_check_code(rd_kafka_header_get_last(headers, RP_HDR_DUE, &due, &size), "due");
    (void)snprintf(text, sizeof text, "%.*s", (int)size, (const char *)due);
    return strtoll(text, NULL, 10);
}

void *bench_map(const char *path, size_t size)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *found = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (found == MAP_FAILED)
        bench_die(path, "cannot be mapped");
    (void)close(fd);
    return found;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
}

int64_t bench_cpu_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

void bench_produce(rd_kafka_t *producer, rd_kafka_topic_t *topic, struct rp_bytes key,
                   struct rp_bytes value, rd_kafka_headers_t *headers)
{
    rd_kafka_resp_err_t code;
    do {
        code = rd_kafka_producev(
            producer, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(key.data, key.len), RD_KAFKA_V_VALUE((void *)value.data, value.len),
            RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            (void)rd_kafka_poll(producer, 10);
    } while (code == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    bench_check_code(code, "produce");
}

struct rp_failed_task bench_task(struct rp_bytes id, const char *type, const char *target,
                                 struct rp_bytes payload)
{
    return (struct rp_failed_task){
        .task_id = id,
        .task_type = rp_str(type),
        .target = rp_str(target),
        .key = id,
        .payload = payload,
        .attempt = 1,
        .error_class = rp_str("TimeoutError"),
        .error_message = rp_str("timed out"),
        .source = rp_str("bench"),
        .first_failed_at_ms = RP_NO_TIME,
        .failed_at_ms = rp_wall_ms(),
    };
}
