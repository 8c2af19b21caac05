/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REINVOKE_H
#define REPRISE_REINVOKE_H

#include "arena.h"
#include "reprise/task.h"

/* What reprise knows of a task beside the event itself: the content of the `reprise-` headers. */
struct rp_passage {
    struct rp_bytes task_id;
    int32_t attempt; /* the number of the execution that is asked for */
    int64_t due_ms, first_failed_at_ms;
    struct rp_bytes target, policy;
    struct rp_bytes replay_id; /* null: no replay */
    bool fallback;
};

/* The number of the execution behind the one of this number; the last there is stays. */
static inline int32_t rp_next_attempt(int32_t attempt)
{
    return attempt == INT32_MAX ? attempt : attempt + 1;
}

/* The headers of a re-invocation: the task's own but the `reprise-` ones, in their order, then
 * ours. In the arena; the strings that exist are borrowed. */
RP_NODISCARD int rp_target_headers(const struct rp_passage *passage,
                                   const struct rp_failed_task *task, struct rp_arena *arena,
                                   const struct rp_header **out, size_t *out_n,
                                   struct rp_error *err);

/* The headers of a record in a tier. */
RP_NODISCARD int rp_tier_headers(const struct rp_passage *passage, struct rp_arena *arena,
                                 const struct rp_header **out, size_t *out_n, struct rp_error *err);

/* Reads a tier record's headers. What is missing or cannot be read is null, 0 or RP_NO_TIME. */
void rp_passage_read(const struct rp_header *headers, size_t n, struct rp_passage *out);

#endif
