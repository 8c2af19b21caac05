/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_COUNTS_H
#define REPRISE_COUNTS_H

#include "copy.h"

/* What a batch of dead letters adds to dead_letter_count. A zeroed one is empty and ready. */
struct counts {
    struct copy keys; /* hour, task_type, reason, category and fingerprint of each, as in COPY */
    struct count *items;
    size_t n, cap;
    size_t *slots; /* items, from 1 on; 0 where free; a power of two of them */
    size_t n_slots;
    struct copy rows;
};

/* One more with the five fields that were appended to `keys` since the last call; `hash` is the
 * same for the same ones. Want of memory is told by `keys.failed`. */
void counts_add(struct counts *c, uint64_t hash, int64_t dead_at_ms);
/* As rows of the columns that counts_columns names, until the next call. */
RP_NODISCARD int counts_rows(struct counts *c, struct rp_bytes *out, struct rp_error *err);
extern const char counts_columns[];
/* Forgets all, and keeps the memory. */
void counts_drop(struct counts *c);
void counts_clear(struct counts *c);

#endif
