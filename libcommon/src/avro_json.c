/* SPDX-License-Identifier: Apache-2.0 */
#include "avro_json.h"

int rp_avro_to_json(const struct rp_schema *schema, struct rp_bytes value, size_t from,
                    struct rp_buf *out, struct rp_error *err)
{
    (void)schema;
    (void)value;
    (void)from;
    (void)out;
    return rp_fail(err, RP_E_SCHEMA, RP_POISON, "Avro payloads cannot be read yet");
}

int rp_avro_from_json(const struct rp_schema *schema, struct rp_bytes json, struct rp_buf *out,
                      struct rp_error *err)
{
    (void)schema;
    (void)json;
    (void)out;
    return rp_fail(err, RP_E_SCHEMA, RP_POISON, "Avro payloads cannot be written yet");
}
