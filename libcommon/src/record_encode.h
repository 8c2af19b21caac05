/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_RECORD_ENCODE_H
#define REPRISE_RECORD_ENCODE_H

#include "reprise/bytes.h"
#include "shape.h"

/* Appends an int or a long, as Avro writes them: zig-zag, base 128. Fails with RP_E_NOMEM. */
RP_NODISCARD int rp_avro_put_long(struct rp_buf *out, int64_t value, struct rp_error *err);

/* Appends the struct that `shape` describes as one bare Avro record. A string that is null but
 * must not be is written as empty; bytes in strings that are not UTF-8 as U+FFFD. Fails only for
 * want of memory; `out` then keeps what was appended so far. */
RP_NODISCARD int rp_record_encode(const struct rp_shape *shape, const void *record,
                                  struct rp_buf *out, struct rp_error *err);

/* The same in single-object encoding, in front of it C3 01 and the fingerprint. On failure `out` is
 * as it was. */
RP_NODISCARD int rp_single_object_encode(const struct rp_shape *shape, uint64_t fingerprint,
                                         const void *record, struct rp_buf *out,
                                         struct rp_error *err);

#endif
