/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <jansson.h>

#include "avro_json.h"
#include "base64.h"
#include "json_skeleton.h"
#include "json_span.h"
#include "json_text.h"
#include "message_reader.h"

typedef int put_bytes_fn(struct rp_buf *out, struct rp_bytes bytes, struct rp_error *err);

static int put_headers(struct rp_buf *out, const struct rp_message *m, put_bytes_fn *put_bytes,
                       struct rp_error *err)
{
    int rc = rp_json_put(out, "[", err);
    for (size_t i = 0; rc == 0 && i < m->n_headers; i++) {
        rc = rp_json_put(out, i == 0 ? "{\"key\": " : ", {\"key\": ", err);
        if (rc == 0)
            rc = put_bytes(out, m->headers[i].key, err);
        if (rc == 0)
            rc = rp_json_put(out, ", \"value\": ", err);
        if (rc == 0)
            rc = put_bytes(out, m->headers[i].value, err);
        if (rc == 0)
            rc = rp_json_put(out, "}", err);
    }
    return rc != 0 ? -1 : rp_json_put(out, "]", err);
}

/* All but the payload, whose value comes next. */
static int put_head(struct rp_buf *out, const struct rp_message *m, put_bytes_fn *put_bytes,
                    struct rp_error *err)
{
    if (rp_json_put(out, "{\"target\": ", err) != 0 ||
        rp_json_put_bytes(out, rp_str(m->target), err) != 0 ||
        rp_json_put(out, ", \"key\": ", err) != 0 || put_bytes(out, m->key, err) != 0 ||
        rp_json_put(out, ", \"headers\": ", err) != 0 || put_headers(out, m, put_bytes, err) != 0)
        return -1;
    return rp_json_put(out, ", \"payload\": ", err);
}

static int put_payload(struct rp_document *d, struct rp_bytes payload, struct rp_error *err)
{
    switch (d->form) {
    case RP_PAYLOAD_JSON:
        return rp_buf_append(&d->text, payload.data, payload.len, err);
    case RP_PAYLOAD_AVRO:
        return rp_avro_to_json(d->schema, payload, d->prefix, &d->text, err);
    case RP_PAYLOAD_BYTES:
        return rp_json_put_base64(&d->text, payload, err);
    default:
        return rp_json_put_bytes(&d->text, payload, err);
    }
}

static int write_document(struct rp_document *d, const struct rp_message *m, const char *task_json,
                          struct rp_error *err)
{
    if (put_head(&d->text, m, rp_json_put_bytes, err) != 0)
        return -1;
    if (put_payload(d, m->payload, err) != 0)
        return rp_fail_in(err, "payload");
    if (task_json != NULL && (rp_json_put(&d->text, ", \"task\": ", err) != 0 ||
                              rp_json_put(&d->text, task_json, err) != 0))
        return -1;
    if (rp_json_put(&d->text, "}", err) != 0)
        return -1;
    d->payload = rp_json_member(rp_buf_bytes(&d->text), "payload");
    return 0;
}

int rp_document_write(struct rp_message_reader *reader, const struct rp_message *m,
                      const char *task_json, struct rp_document *out, struct rp_error *err)
{
    *out = (struct rp_document){0};
    if (rp_payload_form_of(reader, m->payload, &out->form, &out->schema, &out->prefix, err) != 0)
        return rp_fail_in(err, "payload");
    if (write_document(out, m, task_json, err) == 0)
        return 0;
    rp_document_clear(out);
    return -1;
}

void rp_document_clear(struct rp_document *d)
{
    rp_buf_clear(&d->text);
    *d = (struct rp_document){0};
}

/* A document while it is read back. */
struct reading {
    struct rp_arena *arena;
    struct rp_error *err;
};

static int bad(const struct reading *r, const char *where, const char *what)
{
    return rp_fail(r->err, RP_E_INVALID, RP_POISON, "%s %s", where, what);
}

static int no_memory(const struct reading *r)
{
    return rp_fail(r->err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a message");
}

static int keep(const struct reading *r, const void *data, size_t n, struct rp_bytes *out)
{
    out->len = n;
    out->data = rp_arena_copy(r->arena, n == 0 ? "" : data, n);
    return out->data == NULL ? no_memory(r) : 0;
}

static int read_base64(const struct reading *r, const char *where, const json_t *text,
                       struct rp_bytes *out)
{
    struct rp_bytes in = {json_string_value(text), json_string_length(text)};
    size_t at;
    void *room = rp_arena_alloc(r->arena, rp_base64_room(in.len));
    if (room == NULL)
        return no_memory(r);
    *out = (struct rp_bytes){room, rp_base64_decode(in, room, &at)};
    return out->len == SIZE_MAX ? bad(r, where, "is no base64") : 0;
}

/* null, a string, or {"base64": "..."}. */
static int read_bytes(const struct reading *r, const char *where, const json_t *value,
                      struct rp_bytes *out)
{
    const json_t *base64 = json_object_get(value, "base64");
    *out = RP_NULL_BYTES;
    if (json_is_null(value))
        return 0;
    if (json_is_string(value))
        return keep(r, json_string_value(value), json_string_length(value), out);
    if (json_is_string(base64) && json_object_size(value) == 1)
        return read_base64(r, where, base64, out);
    return bad(r, where, "must be a string, {\"base64\": ...} or null");
}

static int check_members(const struct reading *r, const char *where, json_t *object,
                         const char *const *names)
{
    const char *name;
    json_t *value;
    char text[160];
    if (!json_is_object(object))
        return bad(r, where, "must be an object");
    json_object_foreach(object, name, value)
    {
        size_t i = 0;
        while (names[i] != NULL && strcmp(names[i], name) != 0)
            i++;
        if (names[i] != NULL)
            continue;
        (void)snprintf(text, sizeof text, "has a member '%.80s' that means nothing", name);
        return bad(r, where, text);
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        if (json_object_get(object, names[i]) != NULL || strcmp(names[i], "task") == 0)
            continue;
        (void)snprintf(text, sizeof text, "has no '%s'", names[i]);
        return bad(r, where, text);
    }
    return 0;
}

static int read_header(const struct reading *r, size_t i, json_t *item, struct rp_header *out)
{
    static const char *const names[] = {"key", "value", NULL};
    char where[48];
    (void)snprintf(where, sizeof where, "headers[%zu]", i);
    if (check_members(r, where, item, names) != 0)
        return -1;
    const json_t *key = json_object_get(item, "key");
    (void)snprintf(where, sizeof where, "headers[%zu].key", i);
    if (read_bytes(r, where, key, &out->key) != 0)
        return -1;
    /* librdkafka takes a name as a C string. */
    if (out->key.data == NULL || memchr(out->key.data, '\0', out->key.len) != NULL)
        return bad(r, where, "must be text without NUL");
    (void)snprintf(where, sizeof where, "headers[%zu].value", i);
    return read_bytes(r, where, json_object_get(item, "value"), &out->value);
}

static int read_headers(const struct reading *r, json_t *list, struct rp_message *out)
{
    size_t i, n = json_array_size(list);
    json_t *item;
    if (!json_is_array(list))
        return bad(r, "headers", "must be an array");
    struct rp_header *headers = rp_arena_alloc(r->arena, (n + 1) * sizeof *headers);
    if (headers == NULL)
        return no_memory(r);
    json_array_foreach(list, i, item)
    {
        if (read_header(r, i, item, &headers[i]) != 0)
            return -1;
    }
    out->headers = headers;
    out->n_headers = n;
    return 0;
}

static int read_target(const struct reading *r, const json_t *value, struct rp_message *out)
{
    const char *text = json_string_value(value);
    out->target = NULL;
    if (json_is_null(value))
        return 0;
    if (text == NULL || text[0] == '\0' || strlen(text) != json_string_length(value))
        return bad(r, "target", "must be a topic's name or null");
    out->target = rp_arena_copy(r->arena, text, strlen(text) + 1);
    return out->target == NULL ? no_memory(r) : 0;
}

/* Whether two texts are the same tokens. */
static int compare_json(const struct reading *r, struct rp_bytes a, struct rp_bytes b, bool *same)
{
    struct rp_buf left = {0}, right = {0};
    int rc = 0;
    *same = rp_bytes_equal(a, b);
    if (!*same) {
        rc = rp_json_compact(&left, a, r->err);
        if (rc == 0)
            rc = rp_json_compact(&right, b, r->err);
        *same = rc == 0 && rp_bytes_equal(rp_buf_bytes(&left), rp_buf_bytes(&right));
    }
    rp_buf_clear(&left);
    rp_buf_clear(&right);
    return rc;
}

/* On one line where the original is. */
static int read_json(const struct reading *r, struct rp_bytes text, struct rp_bytes original,
                     struct rp_bytes *out)
{
    struct rp_buf line = {0};
    int rc = 0;
    if (memchr(original.data, '\n', original.len) != NULL ||
        memchr(text.data, '\n', text.len) == NULL)
        return keep(r, text.data, text.len, out);
    rc = rp_json_compact(&line, text, r->err);
    if (rc == 0)
        rc = keep(r, line.data, line.len, out);
    rp_buf_clear(&line);
    return rc;
}

static int read_avro(const struct reading *r, const struct rp_document *d, struct rp_bytes text,
                     struct rp_bytes original, struct rp_bytes *out)
{
    struct rp_buf value = {0};
    int rc = d->prefix == 0 ? 0 : rp_buf_append(&value, original.data, d->prefix, r->err);
    if (rc == 0)
        rc = rp_avro_from_json(d->schema, text, &value, r->err);
    if (rc == 0)
        rc = keep(r, value.data, value.len, out);
    rp_buf_clear(&value);
    return rc;
}

static int read_payload(const struct reading *r, const struct rp_document *d, struct rp_bytes text,
                        const json_t *value, struct rp_bytes original, struct rp_bytes *out)
{
    bool same;
    *out = original;
    if (compare_json(r, d->payload, text, &same) != 0)
        return -1;
    if (same)
        return 0;
    if (d->form == RP_PAYLOAD_JSON)
        return read_json(r, text, original, out);
    if (d->form == RP_PAYLOAD_AVRO)
        return read_avro(r, d, text, original, out) != 0 ? rp_fail_in(r->err, "payload") : 0;
    return read_bytes(r, "payload", value, out);
}

static int check_task(const struct reading *r, const struct rp_document *d, struct rp_bytes text)
{
    struct rp_bytes was = rp_json_member(rp_buf_bytes(&d->text), "task");
    struct rp_bytes is = rp_json_member(text, "task");
    bool same = true;
    if (is.data != NULL && compare_json(r, was, is, &same) != 0)
        return -1;
    return same ? 0 : bad(r, "task", "can only be read");
}

static int read_members(const struct reading *r, const struct rp_document *d, struct rp_bytes text,
                        json_t *json, const struct rp_message *m, struct rp_message *out)
{
    static const char *const names[] = {"target", "key", "headers", "payload", "task", NULL};
    if (check_members(r, "the message", json, names) != 0 || check_task(r, d, text) != 0 ||
        read_target(r, json_object_get(json, "target"), out) != 0 ||
        read_bytes(r, "key", json_object_get(json, "key"), &out->key) != 0 ||
        read_headers(r, json_object_get(json, "headers"), out) != 0)
        return -1;
    struct rp_bytes payload = rp_json_member(text, "payload");
    if (payload.data == NULL)
        return bad(r, "the message", "has no 'payload'");
    return read_payload(r, d, payload, json_object_get(json, "payload"), m->payload, &out->payload);
}

int rp_document_read(const struct rp_document *d, struct rp_bytes text, const struct rp_message *m,
                     struct rp_arena *arena, struct rp_message *out, struct rp_error *err)
{
    const struct reading r = {arena, err};
    json_t *json = rp_json_skeleton(text, NULL, err);
    int rc = json == NULL ? -1 : read_members(&r, d, text, json, m, out);
    json_decref(json);
    return rc;
}

/* null, or {"base64": ...}, whatever the bytes are: a document in the database keeps them all. */
static int put_packed(struct rp_buf *out, struct rp_bytes bytes, struct rp_error *err)
{
    return bytes.data == NULL ? rp_json_put(out, "null", err) : rp_json_put_base64(out, bytes, err);
}

int rp_message_pack(const struct rp_message *m, struct rp_buf *out, struct rp_error *err)
{
    if (put_head(out, m, put_packed, err) != 0 || put_packed(out, m->payload, err) != 0)
        return -1;
    return rp_json_put(out, "}", err);
}

int rp_message_unpack(struct rp_bytes text, struct rp_arena *arena, struct rp_message *out,
                      struct rp_error *err)
{
    static const char *const names[] = {"target", "key", "headers", "payload", NULL};
    const struct reading r = {arena, err};
    json_t *json = rp_json_skeleton(text, NULL, err);
    int rc = -1;
    if (json != NULL && check_members(&r, "the message", json, names) == 0 &&
        read_target(&r, json_object_get(json, "target"), out) == 0 &&
        read_bytes(&r, "key", json_object_get(json, "key"), &out->key) == 0 &&
        read_headers(&r, json_object_get(json, "headers"), out) == 0)
        rc = read_bytes(&r, "payload", json_object_get(json, "payload"), &out->payload);
    json_decref(json);
    if (rc != 0 && err != NULL && err->code == RP_E_INVALID)
        err->code = RP_E_DECODE;
    return rc;
}
