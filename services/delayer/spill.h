/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SPILL_H
#define REPRISE_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "reprise/error.h"

/* A file without a name, for pieces that do not fit in memory. It is divided into units; the place
 * of a freed piece is used again, its disk space is given back at once where the file system can,
 * and the whole file when it is empty. Not thread-safe. */
struct spill;

#define SPILL_UNIT ((size_t)1 << 20)

/* Fails with RP_E_IO when there can be no file in `dir`. */
RP_NODISCARD int spill_new(const char *dir, struct spill **out, struct rp_error *err);
void spill_free(struct spill *s);

/* Writes a piece and says where it is. When it fails (RETRIABLE), nothing is taken. */
RP_NODISCARD int spill_write(struct spill *s, const void *data, size_t n, uint64_t *out_place,
                             struct rp_error *err);
/* Reads `n` bytes at `at` in the piece. */
RP_NODISCARD int spill_read(struct spill *s, uint64_t place, size_t at, void *out, size_t n,
                            struct rp_error *err);
/* Gives back the place of a piece of `n` bytes. */
void spill_drop(struct spill *s, uint64_t place, size_t n);

/* How long the file is, holes included. */
uint64_t spill_file_bytes(const struct spill *s);

#endif
