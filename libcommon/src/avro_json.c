/* SPDX-License-Identifier: Apache-2.0 */
#include "avro_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "avro_union.h"
#include "base64.h"
#include "json_number.h"
#include "json_text.h"
#include "utf8.h"

struct reader {
    const struct rp_schema *schema;
    const uint8_t *p;
    size_t at, len;
    int depth;
    struct rp_buf *out;
    struct rp_error *err;
};

static int bad(const struct reader *r, const char *what)
{
    return rp_fail(r->err, RP_E_DECODE, RP_POISON, "byte %zu: %s", r->at, what);
}

/* Names of fields stand for few bytes or none: what comes of a value has a limit of its own. */
#define MAX_JSON ((size_t)256 * 1024 * 1024)

static int put(const struct reader *r, const char *text)
{
    if (r->out->len > MAX_JSON)
        return bad(r, "the value makes too long a text");
    return rp_json_put(r->out, text, r->err);
}

static int read_varint(struct reader *r, int64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->at == r->len)
            return bad(r, "a number is cut off");
        uint8_t byte = r->p[r->at++];
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
            return 0;
        }
    }
    return bad(r, "a number has more than 64 bits");
}

static int take(struct reader *r, int64_t n, struct rp_bytes *out)
{
    if (n < 0 || (uint64_t)n > r->len - r->at)
        return bad(r, "a length goes past the end");
    *out = (struct rp_bytes){r->p + r->at, (size_t)n};
    r->at += (size_t)n;
    return 0;
}

static int take_counted(struct reader *r, struct rp_bytes *out)
{
    int64_t n;
    return read_varint(r, &n) != 0 ? -1 : take(r, n, out);
}

static int read_boolean(struct reader *r)
{
    struct rp_bytes byte = {0};
    if (take(r, 1, &byte) != 0)
        return -1;
    uint8_t value = *(const uint8_t *)byte.data;
    return value > 1 ? bad(r, "a boolean is neither 0 nor 1") : put(r, value ? "true" : "false");
}

static int read_whole(struct reader *r, bool is_int)
{
    int64_t value;
    char text[32];
    if (read_varint(r, &value) != 0)
        return -1;
    if (is_int && (value < INT32_MIN || value > INT32_MAX))
        return bad(r, "an int has more than 32 bits");
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return put(r, text);
}

/* What JSON does not have is a string. */
static int put_special(const struct reader *r, double value)
{
    return put(r, isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static int read_float(struct reader *r)
{
    struct rp_bytes four = {0};
    char text[RP_NUMBER_TEXT];
    uint32_t bits = 0;
    float value;
    if (take(r, 4, &four) != 0)
        return -1;
    for (int i = 3; i >= 0; i--)
        bits = bits << 8 | ((const uint8_t *)four.data)[i];
    memcpy(&value, &bits, sizeof value);
    return isfinite(value) ? put(r, rp_float_text(value, text)) : put_special(r, (double)value);
}

static int read_double(struct reader *r)
{
    struct rp_bytes eight = {0};
    char text[RP_NUMBER_TEXT];
    uint64_t bits = 0;
    double value;
    if (take(r, 8, &eight) != 0)
        return -1;
    for (int i = 7; i >= 0; i--)
        bits = bits << 8 | ((const uint8_t *)eight.data)[i];
    memcpy(&value, &bits, sizeof value);
    return isfinite(value) ? put(r, rp_number_text(value, text)) : put_special(r, value);
}

static int read_string(struct reader *r)
{
    struct rp_bytes text;
    if (take_counted(r, &text) != 0)
        return -1;
    if (!rp_utf8_valid(text))
        return bad(r, "a string before it is no UTF-8");
    return rp_json_put_string(r->out, text, r->err);
}

static int read_bytes(struct reader *r, avro_schema_t type)
{
    struct rp_bytes bytes;
    int rc = is_avro_fixed(type) ? take(r, avro_schema_fixed_size(type), &bytes)
                                 : take_counted(r, &bytes);
    return rc != 0 ? -1 : rp_json_put_base64(r->out, bytes, r->err);
}

static int read_enum(struct reader *r, avro_schema_t type)
{
    int64_t n;
    if (read_varint(r, &n) != 0)
        return -1;
    if (n < 0 || n >= avro_schema_enum_number_of_symbols(type))
        return bad(r, "an enum has no such symbol");
    return rp_json_put_string(r->out, rp_str(avro_schema_enum_get(type, (int)n)), r->err);
}

static int read_value(struct reader *r, avro_schema_t type);

static int read_item(struct reader *r, avro_schema_t type, bool first)
{
    if (!first && put(r, ",") != 0)
        return -1;
    if (is_avro_array(type))
        return read_value(r, avro_schema_array_items(type));
    if (read_string(r) != 0 || put(r, ":") != 0)
        return -1;
    return read_value(r, avro_schema_map_values(type));
}

/* Blocks of an array or a map, up to the empty one. A negative count has the block's size behind
 * it. What takes no bytes could be any number of items. */
static int read_items(struct reader *r, avro_schema_t type)
{
    const bool no_bytes =
        is_avro_array(type) && rp_schema_takes_no_bytes(r->schema, avro_schema_array_items(type));
    bool first = true;
    int64_t n, size;
    if (put(r, is_avro_array(type) ? "[" : "{") != 0)
        return -1;
    for (;;) {
        if (read_varint(r, &n) != 0)
            return -1;
        if (n == 0)
            return put(r, is_avro_array(type) ? "]" : "}");
        if (n < 0 && read_varint(r, &size) != 0)
            return -1;
        if (n == INT64_MIN || (no_bytes && (n > 1000 || n < -1000)))
            return bad(r, "too many items");
        for (n = n < 0 ? -n : n; n > 0; n--, first = false)
            if (read_item(r, type, first) != 0)
                return -1;
    }
}

static int read_union(struct reader *r, avro_schema_t type)
{
    int64_t n;
    if (read_varint(r, &n) != 0)
        return -1;
    if (n < 0 || (uint64_t)n >= avro_schema_union_size(type))
        return bad(r, "a union has no such branch");
    avro_schema_t branch = avro_schema_union_branch(type, (int)n);
    if (!rp_union_names_branches(type) || is_avro_null(branch))
        return read_value(r, branch);
    char name[RP_BRANCH_NAME];
    if (put(r, "{") != 0 ||
        rp_json_put_string(r->out, rp_str(rp_union_branch_name(branch, name)), r->err) != 0 ||
        put(r, ":") != 0 || read_value(r, branch) != 0)
        return -1;
    return put(r, "}");
}

static int read_record(struct reader *r, avro_schema_t type)
{
    size_t n = avro_schema_record_size(type);
    if (put(r, "{") != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const char *name = avro_schema_record_field_name(type, (int)i);
        if ((i > 0 && put(r, ",") != 0) || rp_json_put_string(r->out, rp_str(name), r->err) != 0 ||
            put(r, ":") != 0)
            return -1;
        if (read_value(r, avro_schema_record_field_get_by_index(type, (int)i)) != 0)
            return rp_fail_in(r->err, "%s", name);
    }
    return put(r, "}");
}

static int read_typed(struct reader *r, avro_schema_t type)
{
    switch (avro_typeof(type)) {
    case AVRO_NULL:
        return put(r, "null");
    case AVRO_BOOLEAN:
        return read_boolean(r);
    case AVRO_INT32:
    case AVRO_INT64:
        return read_whole(r, is_avro_int32(type));
    case AVRO_FLOAT:
        return read_float(r);
    case AVRO_DOUBLE:
        return read_double(r);
    case AVRO_STRING:
        return read_string(r);
    case AVRO_BYTES:
    case AVRO_FIXED:
        return read_bytes(r, type);
    case AVRO_ENUM:
        return read_enum(r, type);
    case AVRO_ARRAY:
    case AVRO_MAP:
        return read_items(r, type);
    case AVRO_UNION:
        return read_union(r, type);
    case AVRO_RECORD:
        return read_record(r, type);
    default:
        return bad(r, "the schema has a type that is not known");
    }
}

static int read_value(struct reader *r, avro_schema_t type)
{
    if (r->depth == RP_AVRO_MAX_DEPTH)
        return bad(r, "the value nests too deep");
    r->depth++;
    int rc = read_typed(r, rp_schema_resolve(type));
    r->depth--;
    return rc;
}

int rp_avro_to_json(const struct rp_schema *schema, struct rp_bytes value, size_t from,
                    struct rp_buf *out, struct rp_error *err)
{
    const void *bytes = value.data == NULL ? "" : value.data; /* a value may have none */
    struct reader r = {schema, bytes, from, value.len, 0, out, err};
    if (from > value.len)
        return rp_fail(err, RP_E_DECODE, RP_POISON, "the value is cut off");
    if (schema->ambiguous)
        return rp_fail(err, RP_E_DECODE, RP_POISON,
                       "a union of the schema holds two types of one name");
    if (read_value(&r, schema->root) != 0)
        return -1;
    return r.at == r.len ? 0 : bad(&r, "bytes are left over");
}
