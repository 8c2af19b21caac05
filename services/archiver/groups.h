/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_GROUPS_H
#define REPRISE_GROUPS_H

#include <stdint.h>

#include "copy.h"

/* The error groups that a batch of rows belongs to, each once. A zeroed one is empty and ready. */
struct groups {
    struct copy rows; /* of error_group: fingerprint, task_type, error_class, message */
    int64_t *slots;   /* fingerprints, 0 where free; a power of two of them */
    size_t n, n_slots;
};

/* Whether it is new: then its row is to be appended. Without memory it is new each time, which does
 * no harm. */
bool groups_add(struct groups *g, int64_t fingerprint);
/* Forgets all, and keeps the memory. */
void groups_drop(struct groups *g);
void groups_clear(struct groups *g);

#endif
