/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TASK_H
#define REPRISE_TASK_H

#include "reprise/bytes.h"

/* A time that is not there (the null of a nullable timestamp). */
#define RP_NO_TIME INT64_MIN

/* Record headers of the contract; all values are text. */
#define RP_HDR_PREFIX          "reprise-"
#define RP_HDR_TASK_ID         "reprise-task-id"
#define RP_HDR_ATTEMPT         "reprise-attempt"
#define RP_HDR_DUE             "reprise-due"
#define RP_HDR_TARGET          "reprise-target"
#define RP_HDR_POLICY          "reprise-policy"
#define RP_HDR_FIRST_FAILED_AT "reprise-first-failed-at"
#define RP_HDR_REPLAY_ID       "reprise-replay-id"
#define RP_HDR_FALLBACK        "reprise-fallback"

struct rp_header {
    struct rp_bytes key;
    struct rp_bytes value; /* may be null */
};

/* Whether a header of this name is one of the contract's. */
static inline bool rp_header_is_ours(struct rp_bytes name)
{
    const size_t len = sizeof RP_HDR_PREFIX - 1;
    return name.len >= len && memcmp(name.data, RP_HDR_PREFIX, len) == 0;
}

struct rp_cause {
    struct rp_bytes class_name, message;
};

/* reprise.v1.FailedTask. Everything in it is borrowed: from the bytes it was decoded from, from
 * the arena of the decoder, or from whoever fills it in to encode it. Strings are UTF-8. */
struct rp_failed_task {
    struct rp_bytes task_id, task_type;
    struct rp_bytes target; /* null: the policy names it */
    struct rp_bytes key;    /* the task's own key; may be null */
    struct rp_bytes payload;
    const struct rp_header *headers; /* the task's own headers, in their order */
    size_t n_headers;
    int32_t attempt; /* executions so far, 1 at the first failure */
    struct rp_bytes error_class, error_message;
    struct rp_bytes error_category; /* may be null */
    const struct rp_cause *causes;  /* outermost first */
    size_t n_causes;
    struct rp_bytes source;
    int64_t first_failed_at_ms; /* RP_NO_TIME: not stated */
    int64_t failed_at_ms;
};

/* What a re-invocation's headers tell the handler. Zero or null where the header is not there: a
 * task's first delivery has none of them. */
struct rp_reinvocation {
    struct rp_bytes task_id;
    int32_t attempt; /* the number of this execution; 0: not stated, so it is the first */
    int64_t due_ms, first_failed_at_ms; /* RP_NO_TIME: not stated */
    struct rp_bytes replay_id;
    bool fallback; /* the last try, by the policy's fallback handler */
};

/* Reads the `reprise-` headers of a record; the others are passed over. Where a header comes twice
 * the last one counts. Fails with RP_E_DECODE when a number cannot be read; `out` then holds what
 * could be. Thread-safe. */
RP_NODISCARD int rp_reinvocation_read(const struct rp_header *headers, size_t n,
                                      struct rp_reinvocation *out, struct rp_error *err);

/* Begins the event of a failed execution: takes over `headers` (the record's, all of them, as they
 * came), and from the `reprise-` ones the task id, the attempt and the first failure. `task_id` is
 * what to use where the headers name none. What remains to be filled in: task_type, target, key,
 * payload, the error, source and failed_at_ms. Thread-safe. */
void rp_failed_task_begin(struct rp_failed_task *task, struct rp_bytes task_id,
                          const struct rp_header *headers, size_t n);

/* Appends the event in Avro single-object encoding to `out`, ready to be the value of a record in
 * `failed-tasks`. Fails with RP_E_INVALID when it breaks the contract (an empty task_id or
 * task_type, an attempt below 1, a negative time), with RP_E_NOMEM. Thread-safe. */
RP_NODISCARD int rp_failed_task_encode(const struct rp_failed_task *task, struct rp_buf *out,
                                       struct rp_error *err);

/* Fails with RP_E_INVALID, and says which field, when the task breaks the contract. */
RP_NODISCARD int rp_failed_task_check(const struct rp_failed_task *task, struct rp_error *err);

/* The key of the task's records in reprise's own topics: its own key, else its id. */
static inline struct rp_bytes rp_failed_task_key(const struct rp_failed_task *task)
{
    return task->key.data != NULL ? task->key : task->task_id;
}

#endif
