/* SPDX-License-Identifier: Apache-2.0 */
#include "record_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base64.h"
#include "dead_letter.h"
#include "iso8601.h"
#include "json_skeleton.h"
#include "json_span.h"
#include "plan.h"

struct reading {
    struct rp_arena *arena;
    char path[128]; /* of the field in hand: "headers[3].key" */
    struct rp_error *err;
};

/* "error.class: ..." */
static int refuse(const struct reading *r, const char *fmt, ...) RP_PRINTF(2, 3);

static int refuse(const struct reading *r, const char *fmt, ...)
{
    char what[160];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return rp_fail(r->err, RP_E_DECODE, RP_POISON, "%s: %s", r->path, what);
}

static int no_memory(const struct reading *r)
{
    return rp_fail(r->err, RP_E_NOMEM, RP_RETRIABLE, "no memory for JSON");
}

static size_t push_path(struct reading *r, const char *fmt, ...) RP_PRINTF(2, 3);

/* Returns the length to go back to. */
static size_t push_path(struct reading *r, const char *fmt, ...)
{
    size_t len = strlen(r->path);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(r->path + len, sizeof r->path - len, fmt, args);
    va_end(args);
    return len;
}

static size_t push_field(struct reading *r, const char *name)
{
    return push_path(r, r->path[0] == '\0' ? "%s" : ".%s", name);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "a boolean";
    }
}

static int expected(const struct reading *r, const char *what, const json_t *value)
{
    return refuse(r, "expected %s, found %s", what, type_name(value));
}

static bool is(const json_t *value, json_type type)
{
    return json_typeof(value) == type;
}

/* What is null is as good as missing. */
static bool is_there(const json_t *value)
{
    return value != NULL && !is(value, JSON_NULL);
}

/* Copies: what jansson holds goes with its tree. */
static int read_text(struct reading *r, const json_t *value, struct rp_bytes *out)
{
    if (!is(value, JSON_STRING))
        return expected(r, "a string", value);
    out->len = json_string_length(value);
    out->data = rp_arena_copy(r->arena, json_string_value(value), out->len);
    return out->data == NULL ? no_memory(r) : 0;
}

static int read_base64(struct reading *r, const json_t *value, struct rp_bytes *out)
{
    if (!is(value, JSON_STRING))
        return expected(r, "base64 in a string", value);
    struct rp_bytes text = {json_string_value(value), json_string_length(value)};
    size_t bad = 0;
    uint8_t *bytes = rp_arena_alloc(r->arena, rp_base64_room(text.len));
    if (bytes == NULL)
        return no_memory(r);
    *out = (struct rp_bytes){bytes, rp_base64_decode(text, bytes, &bad)};
    if (out->len == SIZE_MAX)
        return refuse(r, "no base64 at character %zu; plain text goes into %s_text", bad, r->path);
    return 0;
}

/* `text` is the object's own; null where it is not known. */
static int read_bytes(struct reading *r, const json_t *object, struct rp_bytes text,
                      const struct rp_shape_field *field, struct rp_bytes *out)
{
    char text_name[64], json_name[64];
    (void)snprintf(text_name, sizeof text_name, "%s_text", field->name);
    (void)snprintf(json_name, sizeof json_name, "%s_json", field->name);
    const json_t *base64 = json_object_get(object, field->name);
    const json_t *plain = json_object_get(object, text_name);
    const json_t *json = text.data == NULL ? NULL : json_object_get(object, json_name);
    bool has_base64 = is_there(base64), has_plain = is_there(plain), has_json = is_there(json);
    if (has_base64 + has_plain + has_json > 1)
        return refuse(r, "it comes twice: as base64, _text or _json only");
    if (has_base64)
        return read_base64(r, base64, out);
    if (has_plain)
        return read_text(r, plain, out);
    if (has_json) {
        *out = rp_json_member(text, json_name);
        return out->data == NULL ? refuse(r, "write the name %s without escapes", json_name) : 0;
    }
    return field->nullable ? 0 : refuse(r, "is missing");
}

static bool parse_digits(const char *text, int64_t *out)
{
    char *end;
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
        return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0';
}

/* A number that may be written as 3, 3.0 or "3". */
static bool parse_number(const json_t *value, double *real, int64_t *out)
{
    *real = 0;
    if (is(value, JSON_STRING))
        return parse_digits(json_string_value(value), out);
    if (is(value, JSON_INTEGER)) {
        *out = json_integer_value(value);
        return true;
    }
    if (!is(value, JSON_REAL) || fabs(json_real_value(value)) > 0x1p53)
        return false;
    *out = (int64_t)floor(json_real_value(value));
    *real = json_real_value(value) - (double)*out;
    return true;
}

static int read_integer(struct reading *r, const json_t *value, int64_t low, int64_t high,
                        int64_t *out)
{
    double fraction;
    if (!parse_number(value, &fraction, out))
        return expected(r, "a whole number", value);
    if (fraction > 0)
        return refuse(r, "expected a whole number, found a fraction");
    if (*out < low || *out > high)
        return refuse(r, "%" PRId64 " is out of range", *out);
    return 0;
}

static int read_time(struct reading *r, const json_t *value, int64_t *out)
{
    double fraction;
    if (parse_number(value, &fraction, out))
        return *out == RP_NO_TIME ? refuse(r, "is out of range") : 0;
    struct rp_bytes text = {json_string_value(value), json_string_length(value)};
    if (text.data == NULL)
        return expected(r, "ms since 1970 or ISO 8601 in a string", value);
    if (rp_iso8601_parse(text, out))
        return 0;
    return refuse(r, "'%.40s' is no time: expected ms since 1970 or ISO 8601",
                  (const char *)text.data);
}

static int read_reason(struct reading *r, const json_t *value, enum rp_reason *out)
{
    if (!is(value, JSON_STRING))
        return expected(r, "a reason", value);
    *out = 0;
    while (*out < RP_OTHER && strcmp(rp_reason_name(*out), json_string_value(value)) != 0)
        ++*out;
    return 0;
}

static int read_record(struct reading *r, const json_t *object, struct rp_bytes text,
                       const struct rp_shape *shape, uint8_t *base);

static int read_array(struct reading *r, const json_t *array, const struct rp_shape_field *field,
                      uint8_t *base)
{
    if (!is(array, JSON_ARRAY))
        return expected(r, "an array", array);
    size_t n = json_array_size(array), size = field->of->size;
    if (n > RP_PLAN_MAX_ITEMS)
        return refuse(r, "%zu items, at most %d", n, RP_PLAN_MAX_ITEMS);
    uint8_t *items = n == 0 ? NULL : rp_arena_alloc(r->arena, n * size);
    if (n > 0 && items == NULL)
        return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        size_t up = push_path(r, "[%zu]", i);
        memset(items + i * size, 0, size);
        if (read_record(r, json_array_get(array, i), RP_NULL_BYTES, field->of, items + i * size) !=
            0)
            return -1;
        r->path[up] = '\0';
    }
    memcpy(base + field->at, &items, sizeof items);
    memcpy(base + field->count_at, &n, sizeof n);
    return 0;
}

/* The struct is zeroed before, so only a time has a default to write. */
static int take_default(struct reading *r, const struct rp_shape_field *field, const json_t *value,
                        uint8_t *base)
{
    if (!rp_shape_has_default(field))
        return refuse(r, value == NULL ? "is missing" : "must not be null");
    if (field->type == RP_SHAPE_TIME)
        *(int64_t *)(void *)(base + field->at) = RP_NO_TIME;
    return 0;
}

/* Bytes may be JSON, which is taken as it is written. */
static bool has_bytes(const struct rp_shape *shape)
{
    bool found = false;
    for (size_t i = 0; i < shape->n_fields; i++)
        found = found || shape->fields[i].type == RP_SHAPE_BYTES ||
                (shape->fields[i].type == RP_SHAPE_RECORD && has_bytes(shape->fields[i].of));
    return found;
}

static int read_embedded(struct reading *r, const json_t *value, struct rp_bytes text,
                         const struct rp_shape_field *field, uint8_t *base)
{
    struct rp_bytes inner = text.data == NULL ? RP_NULL_BYTES : rp_json_member(text, field->name);
    if (text.data != NULL && inner.data == NULL && has_bytes(field->of))
        return refuse(r, "write the name %s without escapes", field->name);
    if (field->nullable)
        *(bool *)(base + field->count_at) = true;
    return read_record(r, value, inner, field->of, base + field->at);
}

static int read_field(struct reading *r, const json_t *object, struct rp_bytes text,
                      const struct rp_shape_field *field, uint8_t *base)
{
    void *at = base + field->at;
    const json_t *value = json_object_get(object, field->name);
    int64_t n;
    if (field->type == RP_SHAPE_BYTES)
        return read_bytes(r, object, text, field, at);
    if (!is_there(value))
        return take_default(r, field, value, base);
    switch (field->type) {
    case RP_SHAPE_STRING:
        return read_text(r, value, at);
    case RP_SHAPE_INT:
        if (read_integer(r, value, INT32_MIN, INT32_MAX, &n) != 0)
            return -1;
        *(int32_t *)at = (int32_t)n;
        return 0;
    case RP_SHAPE_LONG:
        return read_integer(r, value, INT64_MIN, INT64_MAX, at);
    case RP_SHAPE_TIME:
        return read_time(r, value, at);
    case RP_SHAPE_REASON:
        return read_reason(r, value, at);
    case RP_SHAPE_RECORD:
        return read_embedded(r, value, text, field, base);
    default:
        return read_array(r, value, field, base);
    }
}

static int read_record(struct reading *r, const json_t *object, struct rp_bytes text,
                       const struct rp_shape *shape, uint8_t *base)
{
    if (!is(object, JSON_OBJECT))
        return expected(r, "an object", object);
    for (size_t i = 0; i < shape->n_fields; i++) {
        size_t up = push_field(r, shape->fields[i].name);
        if (read_field(r, object, text, &shape->fields[i], base) != 0)
            return -1;
        r->path[up] = '\0';
    }
    return 0;
}

/* A payload may hold numbers beyond 64 bits, or beyond a double. Its text is passed on as it
 * stands, so the tree need not be exact about them. */
static json_t *load(struct rp_bytes text, json_error_t *why)
{
    json_t *root = json_loadb(text.data, text.len, JSON_ALLOW_NUL, why);
    if (root == NULL && json_error_code(why) == json_error_numeric_overflow)
        root = json_loadb(text.data, text.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, why);
    return root;
}

static json_t *load_mended(struct rp_bytes text, struct rp_arena *arena, json_error_t *why,
                           bool *no_memory)
{
    char *copy = rp_arena_copy(arena, text.data, text.len);
    *no_memory = copy == NULL;
    if (copy == NULL)
        return NULL;
    bool mended = rp_json_mend(copy, text.len);
    if (!rp_json_tame_numbers(copy, text.len) && !mended)
        return NULL;
    return load((struct rp_bytes){copy, text.len}, why);
}

int rp_record_from_json(const struct rp_shape *shape, struct rp_bytes value, struct rp_arena *arena,
                        void *out, struct rp_error *err)
{
    struct reading r = {.arena = arena, .err = err};
    json_error_t why;
    bool no_memory = false;
    if (rp_json_check_tree(value, err) != 0)
        return rp_fail_in(err, "JSON");
    json_t *root = load(value, &why);
    if (root == NULL)
        root = load_mended(value, arena, &why, &no_memory);
    if (no_memory)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for JSON");
    if (root == NULL)
        return rp_fail(err, RP_E_DECODE, RP_POISON, "JSON: line %d, column %d: %s", why.line,
                       why.column, why.text);
    memset(out, 0, shape->size);
    int rc = read_record(&r, root, value, shape, out);
    json_decref(root);
    return rc == 0 ? 0 : rp_fail_in(err, "JSON");
}
