/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_WINDOWS_H
#define REPRISE_REPLAY_WINDOWS_H

#include "db.h"

/* Windows of a job's rows, read ahead by a thread: PostgreSQL stands still once the socket is full
 * of what nobody takes, and who sends waits for brokers half of the time. A window is bounded in
 * rows and in bytes, and so is how many of them wait. Owns its connection. */
struct rp_replay_windows;

/* What a window's columns are; `about` is JSON of the task, as transforms see it. */
/* clang-format off */
#define RP_REPLAY_COLUMNS(X)                                                                       \
    X(id) X(reason) X(detail) X(category) X(policy) X(attempts) X(task_id) X(task_type)            \
    X(target) X(task_key) X(payload) X(header_keys) X(header_values) X(attempt) X(error_class)     \
    X(error_message) X(error_category) X(cause_classes) X(cause_messages) X(source)                \
    X(first_failed_at) X(failed_at) X(raw) X(record) X(record_key)
/* clang-format on */
#define RP_REPLAY_AS_ENUM(name) RP_REPLAY_C_##name,
enum rp_replay_column {
    RP_REPLAY_C_n,
    RP_REPLAY_C_refused,
    RP_REPLAY_C_edited,
    RP_REPLAY_C_about,
    RP_REPLAY_COLUMNS(RP_REPLAY_AS_ENUM)
};

/* `about`: somebody reads that column. */
RP_NODISCARD int rp_replay_windows_new(const char *dsn, const char *job, bool about,
                                       struct rp_replay_windows **out, struct rp_error *err);
void rp_replay_windows_free(struct rp_replay_windows *w);

/* The window that begins with row `n`, in PostgreSQL's binary forms, without rows where there are
 * none; the caller's to PQclear. Goes on to read those behind it. */
RP_NODISCARD int rp_replay_windows_take(struct rp_replay_windows *w, int64_t n, PGresult **out,
                                        struct rp_error *err);

/* Forgets what was read ahead. */
void rp_replay_windows_forget(struct rp_replay_windows *w);

#endif
