/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_DEAD_LETTER_H
#define REPRISE_DEAD_LETTER_H

#include "reprise/task.h"

/* reprise.v1.Reason, in the schema's order. */
enum rp_reason {
    RP_EXHAUSTED,
    RP_DEADLINE_EXCEEDED,
    RP_NON_RETRYABLE,
    RP_NO_TARGET,
    RP_TARGET_FORBIDDEN,
    RP_UNDECODABLE,
    RP_OVERSIZED,
    RP_CANCELLED,
    RP_INVALID,
    RP_OTHER,
    RP_N_REASONS,
};

/* The symbol, for example "EXHAUSTED". */
const char *rp_reason_name(enum rp_reason reason);

/* reprise.v1.DeadLetter; borrowed like rp_failed_task. */
struct rp_dead_letter {
    bool has_task;
    struct rp_failed_task task;
    struct rp_bytes raw; /* what could not be decoded; may be null */
    enum rp_reason reason;
    struct rp_bytes detail, category, policy; /* each may be null */
    int32_t attempts;
    int64_t decided_at_ms;
    struct rp_bytes topic; /* where the record came from */
    int32_t partition;
    int64_t offset;
};

/* Appends it in Avro single-object encoding. Bytes in strings that are not UTF-8 are written as
 * U+FFFD: nothing that was read makes this fail but want of memory. */
RP_NODISCARD int rp_dead_letter_encode(const struct rp_dead_letter *letter, struct rp_buf *out,
                                       struct rp_error *err);

#endif
