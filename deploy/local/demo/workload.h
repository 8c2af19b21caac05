/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_WORKLOAD_H
#define DEMO_WORKLOAD_H

#include "handler.h"

/* What the demo plays: tasks of several kinds, each with the way it fails and the end that reprise
 * must bring it to. A task's payload says how its executions go, so the handlers need no other
 * knowledge, and a task of anybody else's can say it too:
 *
 *     {"fails": 2, "until_ms": 0, "error": "java.net.ConnectException", "message": "refused"}
 *
 * fails while the attempt is at most `fails`, or the time is before `until_ms`. */

/* How a task comes into being. */
enum origin {
    FROM_HANDLER,  /* it is delivered to a handler, whose failures it is */
    FROM_PRODUCER, /* a producer reports its failure, with a target of its own choice */
    FROM_GARBAGE,  /* bytes that are no event */
    FROM_INVALID,  /* an event that breaks the contract */
};

#define ALWAYS 1000000 /* more executions than any policy allows */

struct kind {
    const char *about; /* for people */
    enum origin origin;
    const char *topic; /* the handler's, or the target that the event names */
    const char *type;
    int per_mille;  /* of all tasks; 0: a handful */
    int fails;      /* executions that fail: 1 to this, spread over the tasks; 0: none */
    int outage_ms;  /* fails until this long after the start, whatever the attempt */
    size_t padding; /* bytes that the payload is made longer by */
    const char *error_class, *message;
    const char *reason; /* of the dead letter it must become; NULL: it must succeed */
};

extern const struct kind workload_kinds[];
extern const size_t workload_n_kinds;

/* The handlers that there are. */
struct sample {
    const char *topic, *type, *service;
};
extern const struct sample workload_samples[];
extern const size_t workload_n_samples;

/* The target that takes small records only, and how small. */
#define WORKLOAD_SMALL_TOPIC "postcards"
#define WORKLOAD_SMALL_BYTES "2048"

/* How many tasks of `total` are of this kind. */
int workload_count(const struct kind *kind, int total);
/* How many executions of the kind's task `i` fail. */
int workload_fails(const struct kind *kind, int i);
/* The payload of the kind's task `i`, as JSON; the caller's to free, NULL when there is no memory.
 */
char *workload_payload(const struct kind *kind, int i, int64_t start_ms);
/* What a handler does with a payload: true when it succeeds. */
bool workload_execute(struct rp_bytes payload, int32_t attempt, int64_t now_ms,
                      struct failure *out);

#endif
