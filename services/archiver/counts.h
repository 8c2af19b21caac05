/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_COUNTS_H
#define REPRISE_COUNTS_H

#include "arena.h"
#include "copy.h"
#include "dead_letter.h"

/* What a batch of rows adds to dead_letter_count, where no trigger counts them: those that go into
 * the partition of their day by its own name. A zeroed one is empty and ready. */
struct counts {
    struct counted *items;
    size_t n, cap;
    size_t *slots; /* an item's place + 1, 0 where free; a power of two of them */
    size_t n_slots;
    struct rp_arena arena; /* the items' texts */
    struct copy rows;
};

/* What rows that count together have in common. */
struct count_of {
    struct rp_bytes task_type, category; /* as they came; null is null */
    enum rp_reason reason;
    int64_t fingerprint;
};

/* The columns of dead_letter_count that rows are written for, in their order. */
extern const char counts_columns[];

/* Counts one. Fails with RP_E_NOMEM, and then counted nothing. */
RP_NODISCARD int counts_add(struct counts *c, const struct count_of *of, int64_t dead_at_ms,
                            struct rp_error *err);
/* What was counted, as rows in binary COPY format, until the next call. Fails with RP_E_NOMEM. */
RP_NODISCARD int counts_rows(struct counts *c, struct rp_bytes *out, struct rp_error *err);
/* Forgets all, and keeps the memory. */
void counts_drop(struct counts *c);
void counts_clear(struct counts *c);

#endif
