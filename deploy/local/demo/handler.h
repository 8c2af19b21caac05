/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_HANDLER_H
#define DEMO_HANDLER_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/task.h"

/* A sample handler, written as any service would write it: with librdkafka and the public interface
 * reprise/task.h alone. It reads its topic, does the work, and reports a failure to `failed-tasks`.
 * Its offsets are committed only after the reports before them have arrived, so that a handler that
 * dies loses no failure. It remembers nothing between deliveries, and so dedupes nothing. */
struct handler;

/* One delivery: a task's first, or a re-invocation. */
struct delivery {
    struct rp_bytes task_id;
    struct rp_bytes payload;
    struct rp_reinvocation in;
    int32_t attempt; /* the number of this execution, from 1 on */
    int64_t received_us;
};

struct failure {
    char error_class[80], message[120];
};

struct handler_def {
    const char *bootstrap_servers;
    const char *topic;        /* read from here */
    const char *failed_tasks; /* failures go here */
    const char *task_type;
    const char *service; /* the consumer group, and the source of its events */
    /* Does the work: true, or false with why in `out`. Called from the handler's thread. */
    bool (*work)(void *opaque, const struct delivery *d, struct failure *out);
    void *opaque;
};

/* Starts its thread. `def` and all in it are borrowed until handler_stop. */
RP_NODISCARD int handler_start(const struct handler_def *def, struct handler **out,
                               struct rp_error *err);
/* Whether it has its partitions and reads. Thread-safe. */
bool handler_ready(const struct handler *h);
/* Why it gave up; NULL while it runs. Thread-safe. */
const char *handler_error(const struct handler *h);
/* Asks it to finish what it has in hand. NULL is fine. Thread-safe. */
void handler_ask_to_stop(struct handler *h);
/* Asks it to, waits until it has, and frees it. NULL is fine. */
void handler_stop(struct handler *h);

#endif
