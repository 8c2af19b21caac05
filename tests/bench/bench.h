/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

#include "reprise/task.h"

/* What the programs of this folder share. They take `name=value` arguments, print one line of JSON,
 * and end at the first thing that goes wrong: a figure is whole or it is not there. */

/* The value of an argument; `fallback` where it is not given, or the end where that is NULL. */
const char *bench_arg(char **argv, const char *name, const char *fallback);
long bench_number(char **argv, const char *name, const char *fallback);

_Noreturn void bench_die(const char *what, const char *why);
/* Dies of an error, or of a code that is one. */
void bench_check(rd_kafka_error_t *error, const char *what);
void bench_check_code(rd_kafka_resp_err_t code, const char *what);

/* A client with what the product sets, and then `settings`: name, value, ..., NULL. */
rd_kafka_t *bench_client(rd_kafka_type_t type, char **argv, rd_kafka_conf_t *conf,
                         const char *const *settings);
/* A transactional producer that is ready; with `transactional=0` an idempotent one. It takes
 * delivery reports: without any a commit sleeps 10 ms at a time until all is delivered. */
rd_kafka_t *bench_producer(char **argv, const char *id, const char *linger_ms);
/* A member of `group=` that reads `source=`, one topic or several with commas between. A fetch
 * waits for so many bytes, or 10 ms. */
#define BENCH_FETCH_BYTES                                                                          \
    "65536" /* as the router's; one who is to have what comes at once takes 1 */
rd_kafka_t *bench_member(char **argv, const char *fetch_min_bytes);

/* Takes what has come, up to `most` records; waits only where nothing has, for the first. Returns
 * how many. (rd_kafka_consume_batch_queue alone waits until it has `most` of them.) */
size_t bench_take(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **out, size_t most);

/* Sends a copy; waits where the producer's queue is full. Takes `headers`. */
void bench_produce(rd_kafka_t *producer, rd_kafka_topic_t *topic, struct rp_bytes key,
                   struct rp_bytes value, rd_kafka_headers_t *headers);

/* A task of the type that failed just now; its key is its id. Borrows all of them. */
struct rp_failed_task bench_task(struct rp_bytes id, const char *type, const char *target,
                                 struct rp_bytes payload);

/* When the record is due, as its header says. */
int64_t bench_due_ms(const rd_kafka_message_t *m);

/* A file of `size` bytes, shared with whoever else maps it. */
void *bench_map(const char *path, size_t size);

void bench_sort(double *values, size_t n);

/* What this process has used of the processors. */
int64_t bench_cpu_us(void);

#endif
