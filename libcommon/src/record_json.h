/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_RECORD_JSON_H
#define REPRISE_RECORD_JSON_H

#include "arena.h"
#include "reprise/bytes.h"
#include "shape.h"

/* Reads one of our structs from plain JSON, as a shell script or any language writes it:
 *
 *     {"task_id": "42", "task_type": "payment", "payload_json": {"amount": 10.10}, "attempt": 1,
 *      "error": {"class": "TimeoutError", "message": "no answer"}, "source": "shop",
 *      "failed_at": "2026-11-21T03:34:33Z"}
 *
 * Names are the schema's. What has a default may be missing or null. A number may also be a string
 * of digits. A time is ms since the epoch (what follows the point is cut) or ISO 8601, UTC where it
 * names no zone. Bytes `x` are base64, or text in `x_text`, or any JSON in `x_json`, whose text is
 * taken byte for byte (not in headers); only one of them may be there. Other members are ignored.
 * An unknown reason is OTHER. Half a surrogate pair becomes U+FFFD; bytes that are no UTF-8 are no
 * JSON.
 *
 * `out` borrows from `value` and `arena`. Fails with RP_E_DECODE (POISON), with line and column or
 * with the field. */
RP_NODISCARD int rp_record_from_json(const struct rp_shape *shape, struct rp_bytes value,
                                     struct rp_arena *arena, void *out, struct rp_error *err);

#endif
