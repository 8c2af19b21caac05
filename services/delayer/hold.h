/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_HOLD_H
#define REPRISE_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* The bytes of the records that a worker holds. They are laid into segments one after another; what
 * is over the memory budget goes to a file without a name in `spill_dir`, oldest segment first, and
 * is read back when it is due. A segment is given back when the last of its records is dropped.
 * Where the file cannot be written (a full disk), segments stay in memory, and it says so once:
 * what is held is never lost, and who puts looks at hold_is_over. Not thread-safe. */
struct hold;

RP_NODISCARD int hold_new(size_t memory_bytes, const char *spill_dir, struct hold **out,
                          struct rp_error *err);
void hold_free(struct hold *h);

/* Copies `n` parts, one behind the other, as one record. */
RP_NODISCARD int hold_put(struct hold *h, const struct rp_bytes *parts, size_t n,
                          uint64_t *out_handle, struct rp_error *err);
/* The record's bytes, borrowed until the next hold_put or hold_drop; from the file they are read
 * into `scratch`. RETRIABLE with RP_E_IO when the file cannot be read, or has other bytes. */
RP_NODISCARD int hold_get(struct hold *h, uint64_t handle, struct rp_buf *scratch,
                          struct rp_bytes *out, struct rp_error *err);
void hold_drop(struct hold *h, uint64_t handle);

/* Twice the budget is in memory, since the file cannot be written. */
bool hold_is_over(const struct hold *h);
size_t hold_memory_bytes(const struct hold *h);
size_t hold_spilled_bytes(const struct hold *h);

#endif
