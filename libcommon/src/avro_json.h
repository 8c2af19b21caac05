/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_AVRO_JSON_H
#define REPRISE_AVRO_JSON_H

#include "schema.h"

/* Avro values as JSON that people can read and change, and back, by the schema that wrote them.
 *
 *     null, boolean, int, long, string, enum, array, map, record    as JSON has them
 *     float, double    numbers; "NaN", "Infinity", "-Infinity"
 *     bytes, fixed     {"base64": "..."}
 *     union            the value alone where JSON tells the types apart (null and one other, or a
 *                      string and a record); else {"long": 1}, {"ns.Name": ...}, and null
 *
 * Logical types are not looked at: a decimal is bytes, a timestamp a number. Fields are written in
 * the schema's order, and read by name; all must be there, and none else. */

#define RP_AVRO_MAX_DEPTH 200

/* Appends the value that begins at byte `from` of `value` and must end where `value` ends. Fails
 * with RP_E_DECODE (POISON) and the byte; also where a string is no UTF-8, and of an ambiguous
 * schema. */
RP_NODISCARD int rp_avro_to_json(const struct rp_schema *schema, struct rp_bytes value, size_t from,
                                 struct rp_buf *out, struct rp_error *err);

/* Appends what the JSON says, as Avro. Fails with RP_E_INVALID (POISON) and the field. */
RP_NODISCARD int rp_avro_from_json(const struct rp_schema *schema, struct rp_bytes json,
                                   struct rp_buf *out, struct rp_error *err);

#endif
