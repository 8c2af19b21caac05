/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LESSONS_H
#define REPRISE_LESSONS_H

#include "dead_letter.h"
#include "kafka.h"

#define RP_BURY_MOST 2 /* so often a dead letter becomes smaller (bury.h) */

/* What failed batches taught about single records. A record whose delivery failed is tried again in
 * a batch of its own, since brokers refuse a batch as a whole; only when it fails alone is it to
 * blame. A dead letter that is refused keeps its own reason. Holds a handful of records; not
 * thread-safe. A zeroed one is ready. */
struct rp_lesson {
    const char *topic; /* borrowed; compared as a pointer */
    int32_t partition;
    int64_t offset;
    bool refused;             /* the brokers refuse it at its destination: it is a dead letter */
    enum rp_reason reason;    /* for that, with the brokers' words */
    char refusal[160];        /* the same */
    unsigned letters_refused; /* how often they refused a dead letter of it, RP_BURY_MOST at most */
};

struct rp_lessons {
    struct rp_lesson *items;
    size_t n, cap;
};

/* NULL: nothing is known against the record. Valid until the next call that changes. */
const struct rp_lesson *rp_lessons_find(const struct rp_lessons *l, const char *topic,
                                        int32_t partition, int64_t offset);

/* The record's delivery failed with `code`. `alone`: in a batch of its own; `letter`: as a dead
 * letter. Returns 1 when that is news, so that the same batch will not fail the same way again,
 * else 0. */
RP_NODISCARD int rp_lessons_add(struct rp_lessons *l, const char *topic, int32_t partition,
                                int64_t offset, bool alone, bool letter, rd_kafka_resp_err_t code,
                                struct rp_error *err);

/* The record is behind us. */
void rp_lessons_forget(struct rp_lessons *l, const char *topic, int32_t partition, int64_t offset);
/* The partition is somebody else's, who finds out anew. */
void rp_lessons_forget_partition(struct rp_lessons *l, const char *topic, int32_t partition);
void rp_lessons_clear(struct rp_lessons *l);

#endif
