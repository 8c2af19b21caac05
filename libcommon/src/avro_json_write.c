/* SPDX-License-Identifier: Apache-2.0 */
#include "avro_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "avro_union.h"
#include "base64.h"
#include "json_number.h"
#include "record_encode.h"

struct writer {
    int depth;
    struct rp_buf *out;
    struct rp_error *err;
};

static int bad(const struct writer *w, const char *what)
{
    return rp_fail(w->err, RP_E_INVALID, RP_POISON, "%s", what);
}

static int put(const struct writer *w, const void *data, size_t n)
{
    return rp_buf_append(w->out, data, n, w->err);
}

static int put_long(const struct writer *w, int64_t value)
{
    return rp_avro_put_long(w->out, value, w->err);
}

static int put_counted(const struct writer *w, struct rp_bytes bytes)
{
    return put_long(w, (int64_t)bytes.len) != 0 ? -1 : put(w, bytes.data, bytes.len);
}

static int write_boolean(const struct writer *w, const json_t *json)
{
    const uint8_t byte = json_is_true(json);
    return json_is_boolean(json) ? put(w, &byte, 1) : bad(w, "must be true or false");
}

/* A whole number may be written as 1.0. */
static int write_whole(const struct writer *w, const json_t *json, bool is_int)
{
    int64_t value = json_integer_value(json);
    if (json_is_real(json)) {
        double real = json_real_value(json);
        if (real != trunc(real) || fabs(real) >= RP_SAFE_INTEGER)
            return bad(w, "must be a whole number");
        value = (int64_t)real;
    } else if (!json_is_integer(json)) {
        return bad(w, "must be a whole number");
    }
    if (is_int && (value < INT32_MIN || value > INT32_MAX))
        return bad(w, "must be a number of 32 bits");
    return put_long(w, value);
}

static bool real_of(const json_t *json, double *out)
{
    const char *text = json_string_value(json);
    *out = json_number_value(json);
    if (json_is_number(json))
        return true;
    if (text == NULL)
        return false;
    if (strcmp(text, "NaN") == 0)
        *out = (double)NAN;
    else if (strcmp(text, "Infinity") == 0)
        *out = (double)INFINITY;
    else if (strcmp(text, "-Infinity") == 0)
        *out = -(double)INFINITY;
    else
        return false;
    return true;
}

static int write_real(const struct writer *w, const json_t *json, size_t size)
{
    double value;
    uint64_t bits = 0;
    uint8_t bytes[8];
    if (!real_of(json, &value))
        return bad(w, "must be a number");
    if (size == 8) {
        memcpy(&bits, &value, 8);
    } else {
        float narrow = (float)value;
        if (isfinite(value) && !isfinite(narrow))
            return bad(w, "is too large for a float");
        memcpy(&bits, &narrow, 4);
    }
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    return put(w, bytes, size);
}

static int write_string(const struct writer *w, const json_t *json)
{
    if (!json_is_string(json))
        return bad(w, "must be a string");
    return put_counted(w, (struct rp_bytes){json_string_value(json), json_string_length(json)});
}

static int write_bytes(const struct writer *w, avro_schema_t type, const json_t *json)
{
    const json_t *base64 = json_object_get(json, "base64");
    size_t at;
    if (!json_is_string(base64) || json_object_size(json) != 1)
        return bad(w, "must be {\"base64\": \"...\"}");
    const struct rp_bytes text = {json_string_value(base64), json_string_length(base64)};
    uint8_t *room = malloc(rp_base64_room(text.len));
    if (room == NULL)
        return rp_fail(w->err, RP_E_NOMEM, RP_RETRIABLE, "no memory for bytes");
    const struct rp_bytes bytes = {room, rp_base64_decode(text, room, &at)};
    int rc;
    if (bytes.len == SIZE_MAX)
        rc = bad(w, "is no base64");
    else if (is_avro_bytes(type))
        rc = put_counted(w, bytes);
    else if (bytes.len != (size_t)avro_schema_fixed_size(type))
        rc = bad(w, "has not the length that the schema says");
    else
        rc = put(w, bytes.data, bytes.len);
    free(room);
    return rc;
}

static int write_enum(const struct writer *w, avro_schema_t type, const json_t *json)
{
    const char *name = json_string_value(json);
    int n = avro_schema_enum_number_of_symbols(type);
    for (int i = 0; name != NULL && i < n; i++)
        if (strcmp(avro_schema_enum_get(type, i), name) == 0)
            return put_long(w, i);
    return bad(w, "must be one of the enum's symbols");
}

static int write_value(struct writer *w, avro_schema_t type, json_t *json);

static int write_array(struct writer *w, avro_schema_t type, json_t *json)
{
    size_t i, n = json_array_size(json);
    json_t *item;
    if (!json_is_array(json))
        return bad(w, "must be an array");
    if (n > 0 && put_long(w, (int64_t)n) != 0)
        return -1;
    json_array_foreach(json, i, item)
    {
        if (write_value(w, avro_schema_array_items(type), item) != 0)
            return rp_fail_in(w->err, "[%zu]", i);
    }
    return put_long(w, 0);
}

static int write_map(struct writer *w, avro_schema_t type, json_t *json)
{
    size_t n = json_object_size(json);
    const char *name;
    json_t *item;
    if (!json_is_object(json))
        return bad(w, "must be an object");
    if (n > 0 && put_long(w, (int64_t)n) != 0)
        return -1;
    json_object_foreach(json, name, item)
    {
        if (put_counted(w, rp_str(name)) != 0 ||
            write_value(w, avro_schema_map_values(type), item) != 0)
            return rp_fail_in(w->err, "%.40s", name);
    }
    return put_long(w, 0);
}

static enum rp_json_kind kind_of(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_NULL:
        return RP_JSON_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return RP_JSON_BOOLEAN;
    case JSON_INTEGER:
    case JSON_REAL:
        return RP_JSON_NUMBER;
    case JSON_STRING:
        return RP_JSON_STRING;
    case JSON_ARRAY:
        return RP_JSON_ARRAY;
    default:
        return RP_JSON_OBJECT;
    }
}

/* "NaN" is a number that JSON has no other way to say. */
static bool can_be(avro_schema_t branch, const json_t *json)
{
    double value;
    enum rp_json_kind kind = rp_union_kind(branch);
    branch = rp_schema_resolve(branch);
    if (is_avro_float(branch) || is_avro_double(branch))
        return real_of(json, &value);
    return kind == kind_of(json);
}

static int write_branch(struct writer *w, avro_schema_t type, int branch, json_t *json)
{
    if (put_long(w, branch) != 0)
        return -1;
    return write_value(w, avro_schema_union_branch(type, branch), json);
}

static int write_union(struct writer *w, avro_schema_t type, json_t *json)
{
    const int n = (int)avro_schema_union_size(type);
    const bool named = rp_union_names_branches(type) && !json_is_null(json);
    const char *name = json_object_iter_key(json_object_iter(json));
    char room[RP_BRANCH_NAME];
    if (named && json_object_size(json) != 1)
        return bad(w, "must be {\"type\": value}, since the union has types alike");
    for (int i = 0; i < n; i++) {
        avro_schema_t branch = avro_schema_union_branch(type, i);
        if (!named && can_be(branch, json))
            return write_branch(w, type, i, json);
        if (named && strcmp(rp_union_branch_name(branch, room), name) == 0)
            return write_branch(w, type, i, json_object_get(json, name));
    }
    return bad(w, "is of no type of the union");
}

static int write_record(struct writer *w, avro_schema_t type, json_t *json)
{
    size_t n = avro_schema_record_size(type);
    const char *name;
    json_t *value;
    if (!json_is_object(json))
        return bad(w, "must be an object");
    for (size_t i = 0; i < n; i++) {
        name = avro_schema_record_field_name(type, (int)i);
        value = json_object_get(json, name);
        if (value == NULL)
            return rp_fail(w->err, RP_E_INVALID, RP_POISON, "%.80s is missing", name);
        if (write_value(w, avro_schema_record_field_get_by_index(type, (int)i), value) != 0)
            return rp_fail_in(w->err, "%.80s", name);
    }
    json_object_foreach(json, name, value)
    {
        if (rp_schema_field_index(type, name) < 0)
            return rp_fail(w->err, RP_E_INVALID, RP_POISON, "%.80s is no field of the schema",
                           name);
    }
    return 0;
}

static int write_typed(struct writer *w, avro_schema_t type, json_t *json)
{
    switch (avro_typeof(type)) {
    case AVRO_NULL:
        return json_is_null(json) ? 0 : bad(w, "must be null");
    case AVRO_BOOLEAN:
        return write_boolean(w, json);
    case AVRO_INT32:
    case AVRO_INT64:
        return write_whole(w, json, is_avro_int32(type));
    case AVRO_FLOAT:
        return write_real(w, json, 4);
    case AVRO_DOUBLE:
        return write_real(w, json, 8);
    case AVRO_STRING:
        return write_string(w, json);
    case AVRO_BYTES:
    case AVRO_FIXED:
        return write_bytes(w, type, json);
    case AVRO_ENUM:
        return write_enum(w, type, json);
    case AVRO_ARRAY:
        return write_array(w, type, json);
    case AVRO_MAP:
        return write_map(w, type, json);
    case AVRO_UNION:
        return write_union(w, type, json);
    case AVRO_RECORD:
        return write_record(w, type, json);
    default:
        return bad(w, "has a type that is not known");
    }
}

static int write_value(struct writer *w, avro_schema_t type, json_t *json)
{
    if (w->depth == RP_AVRO_MAX_DEPTH)
        return bad(w, "nests too deep");
    w->depth++;
    int rc = write_typed(w, rp_schema_resolve(type), json);
    w->depth--;
    return rc;
}

int rp_avro_from_json(const struct rp_schema *schema, struct rp_bytes json, struct rp_buf *out,
                      struct rp_error *err)
{
    struct writer w = {0, out, err};
    json_error_t e;
    json_t *value = json_loadb(json.data, json.len,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &e);
    if (value == NULL)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "%s", e.text);
    int rc = write_value(&w, schema->root, value);
    json_decref(value);
    return rc;
}
