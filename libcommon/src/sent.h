/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SENT_H
#define REPRISE_SENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/error.h"

/* Records that are read again, since their batch failed, although what follows from them is out.
 * Outside of a transaction nothing takes that back, so it is not sent once more. A zeroed one is
 * ready; not thread-safe. */
struct rp_sent_mark {
    const char *topic; /* borrowed; compared as a pointer */
    int32_t partition;
    int64_t offset;
    bool gone;
};

struct rp_sent {
    struct rp_sent_mark *marks;
    size_t n, cap;
    size_t n_left; /* that are not gone */
    bool sorted;
};

RP_NODISCARD int rp_sent_add(struct rp_sent *s, const char *topic, int32_t partition,
                             int64_t offset, struct rp_error *err);
bool rp_sent_has(struct rp_sent *s, const char *topic, int32_t partition, int64_t offset);

/* The record is behind us. */
void rp_sent_forget(struct rp_sent *s, const char *topic, int32_t partition, int64_t offset);
/* The partition is somebody else's, who reads the records anew. */
void rp_sent_forget_partition(struct rp_sent *s, const char *topic, int32_t partition);
void rp_sent_clear(struct rp_sent *s);

#endif
