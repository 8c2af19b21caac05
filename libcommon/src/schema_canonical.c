/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "schema.h"

static int put(struct rp_buf *out, const char *text, struct rp_error *err)
{
    return rp_buf_append(out, text, strlen(text), err);
}

static int put_full_name(struct rp_buf *out, avro_schema_t named, struct rp_error *err)
{
    const char *space = avro_schema_namespace(named);
    if (put(out, "\"", err) != 0)
        return -1;
    if (space != NULL && space[0] != '\0' && (put(out, space, err) != 0 || put(out, ".", err) != 0))
        return -1;
    return put(out, avro_schema_name(named), err) != 0 || put(out, "\"", err) != 0 ? -1 : 0;
}

/* {"name":"full.name","type":"record" and so on, up to what differs. */
static int put_head(struct rp_buf *out, avro_schema_t named, const char *type, struct rp_error *err)
{
    return put(out, "{\"name\":", err) != 0 || put_full_name(out, named, err) != 0 ||
                   put(out, ",\"type\":\"", err) != 0 || put(out, type, err) != 0 ||
                   put(out, "\"", err) != 0
               ? -1
               : 0;
}

static int put_record(struct rp_buf *out, avro_schema_t type, struct rp_error *err)
{
    if (put_head(out, type, "record", err) != 0 || put(out, ",\"fields\":[", err) != 0)
        return -1;
    size_t n = avro_schema_record_size(type);
    for (size_t i = 0; i < n; i++) {
        if (put(out, i == 0 ? "{\"name\":\"" : ",{\"name\":\"", err) != 0 ||
            put(out, avro_schema_record_field_name(type, (int)i), err) != 0 ||
            put(out, "\",\"type\":", err) != 0 ||
            rp_schema_canonical(avro_schema_record_field_get_by_index(type, (int)i), out, err) !=
                0 ||
            put(out, "}", err) != 0)
            return -1;
    }
    return put(out, "]}", err);
}

static int put_enum(struct rp_buf *out, avro_schema_t type, struct rp_error *err)
{
    if (put_head(out, type, "enum", err) != 0 || put(out, ",\"symbols\":[", err) != 0)
        return -1;
    int n = avro_schema_enum_number_of_symbols(type);
    for (int i = 0; i < n; i++) {
        if (put(out, i == 0 ? "\"" : ",\"", err) != 0 ||
            put(out, avro_schema_enum_get(type, i), err) != 0 || put(out, "\"", err) != 0)
            return -1;
    }
    return put(out, "]}", err);
}

static int put_fixed(struct rp_buf *out, avro_schema_t type, struct rp_error *err)
{
    char size[40];
    (void)snprintf(size, sizeof size, ",\"size\":%" PRId64 "}", avro_schema_fixed_size(type));
    return put_head(out, type, "fixed", err) != 0 || put(out, size, err) != 0 ? -1 : 0;
}

static int put_union(struct rp_buf *out, avro_schema_t type, struct rp_error *err)
{
    if (put(out, "[", err) != 0)
        return -1;
    size_t n = avro_schema_union_size(type);
    for (size_t i = 0; i < n; i++) {
        if ((i > 0 && put(out, ",", err) != 0) ||
            rp_schema_canonical(avro_schema_union_branch(type, (int)i), out, err) != 0)
            return -1;
    }
    return put(out, "]", err);
}

static int put_container(struct rp_buf *out, const char *head, avro_schema_t inner,
                         struct rp_error *err)
{
    return put(out, head, err) != 0 || rp_schema_canonical(inner, out, err) != 0 ||
                   put(out, "}", err) != 0
               ? -1
               : 0;
}

int rp_schema_canonical(avro_schema_t type, struct rp_buf *out, struct rp_error *err)
{
    switch (avro_typeof(type)) {
    case AVRO_STRING:
        return put(out, "\"string\"", err);
    case AVRO_BYTES:
        return put(out, "\"bytes\"", err);
    case AVRO_INT32:
        return put(out, "\"int\"", err);
    case AVRO_INT64:
        return put(out, "\"long\"", err);
    case AVRO_FLOAT:
        return put(out, "\"float\"", err);
    case AVRO_DOUBLE:
        return put(out, "\"double\"", err);
    case AVRO_BOOLEAN:
        return put(out, "\"boolean\"", err);
    case AVRO_NULL:
        return put(out, "\"null\"", err);
    case AVRO_RECORD:
        return put_record(out, type, err);
    case AVRO_ENUM:
        return put_enum(out, type, err);
    case AVRO_FIXED:
        return put_fixed(out, type, err);
    case AVRO_ARRAY:
        return put_container(out, "{\"type\":\"array\",\"items\":", avro_schema_array_items(type),
                             err);
    case AVRO_MAP:
        return put_container(out, "{\"type\":\"map\",\"values\":", avro_schema_map_values(type),
                             err);
    case AVRO_UNION:
        return put_union(out, type, err);
    case AVRO_LINK:
        return put_full_name(out, avro_schema_link_target(type), err);
    default:
        return rp_fail(err, RP_E_SCHEMA, RP_POISON, "an unknown Avro type");
    }
}

/* The specification's algorithm: a Rabin fingerprint whose "empty" value is also its polynomial.
 * It runs once a schema, so it needs no table. */
static uint64_t crc64_avro(struct rp_bytes bytes)
{
    const uint64_t empty = 0xc15d213aa4d7a795u;
    const uint8_t *p = bytes.data;
    uint64_t fp = empty;
    for (size_t i = 0; i < bytes.len; i++) {
        uint64_t entry = (fp ^ p[i]) & 0xff;
        for (int bit = 0; bit < 8; bit++)
            entry = (entry >> 1) ^ (empty & (0 - (entry & 1)));
        fp = (fp >> 8) ^ entry;
    }
    return fp;
}

int rp_schema_fingerprint(avro_schema_t type, uint64_t *out, struct rp_error *err)
{
    struct rp_buf form = {0};
    int rc = rp_schema_canonical(type, &form, err);
    if (rc == 0)
        *out = crc64_avro(rp_buf_bytes(&form));
    rp_buf_clear(&form);
    return rc;
}
