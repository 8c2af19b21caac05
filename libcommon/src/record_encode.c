/* SPDX-License-Identifier: Apache-2.0 */
#include "record_encode.h"

#include "dead_letter.h"
#include "utf8.h"

int rp_avro_put_long(struct rp_buf *out, int64_t value, struct rp_error *err)
{
    if (rp_buf_reserve(out, 10, err) != 0)
        return -1;
    uint64_t n = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; n > 0x7f; n >>= 7)
        out->data[out->len++] = (uint8_t)(n | 0x80);
    out->data[out->len++] = (uint8_t)n;
    return 0;
}

static int put_bytes(struct rp_buf *out, struct rp_bytes b, struct rp_error *err)
{
    return rp_avro_put_long(out, (int64_t)b.len, err) != 0 ? -1
                                                           : rp_buf_append(out, b.data, b.len, err);
}

static int put_string(struct rp_buf *out, struct rp_bytes s, struct rp_error *err)
{
    if (rp_utf8_valid(s))
        return put_bytes(out, s, err);
    size_t len = rp_utf8_repair(s, NULL);
    if (rp_avro_put_long(out, (int64_t)len, err) != 0 || rp_buf_reserve(out, len, err) != 0)
        return -1;
    out->len += rp_utf8_repair(s, out->data + out->len);
    return 0;
}

/* A number that is no symbol would make the whole record unreadable. */
static int put_reason(struct rp_buf *out, enum rp_reason reason, struct rp_error *err)
{
    return rp_avro_put_long(out, (unsigned)reason < RP_N_REASONS ? (int64_t)reason : RP_OTHER, err);
}

static int put_array(struct rp_buf *out, const struct rp_shape_field *field, const char *record,
                     struct rp_error *err)
{
    const char *items = *(const char *const *)(const void *)(record + field->at);
    size_t n = *(const size_t *)(const void *)(record + field->count_at);
    if (n > 0 && rp_avro_put_long(out, (int64_t)n, err) != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (rp_record_encode(field->of, items + i * field->of->size, out, err) != 0)
            return -1;
    return rp_avro_put_long(out, 0, err);
}

static bool is_null(const struct rp_shape_field *field, const char *record)
{
    const void *at = record + field->at;
    switch (field->type) {
    case RP_SHAPE_STRING:
    case RP_SHAPE_BYTES:
        return ((const struct rp_bytes *)at)->data == NULL;
    case RP_SHAPE_TIME:
        return *(const int64_t *)at == RP_NO_TIME;
    case RP_SHAPE_RECORD:
        return !*(const bool *)(const void *)(record + field->count_at);
    default:
        return false;
    }
}

static int put_field(struct rp_buf *out, const struct rp_shape_field *field, const char *record,
                     struct rp_error *err)
{
    const void *at = record + field->at;
    if (field->nullable) {
        bool null = is_null(field, record);
        if (rp_avro_put_long(out, null ? 0 : 1, err) != 0)
            return -1;
        if (null)
            return 0;
    }
    switch (field->type) {
    case RP_SHAPE_STRING:
        return put_string(out, *(const struct rp_bytes *)at, err);
    case RP_SHAPE_BYTES:
        return put_bytes(out, *(const struct rp_bytes *)at, err);
    case RP_SHAPE_INT:
        return rp_avro_put_long(out, *(const int32_t *)at, err);
    case RP_SHAPE_LONG:
    case RP_SHAPE_TIME:
        return rp_avro_put_long(out, *(const int64_t *)at, err);
    case RP_SHAPE_REASON:
        return put_reason(out, *(const enum rp_reason *)at, err);
    case RP_SHAPE_RECORD:
        return rp_record_encode(field->of, at, out, err);
    default:
        return put_array(out, field, record, err);
    }
}

int rp_record_encode(const struct rp_shape *shape, const void *record, struct rp_buf *out,
                     struct rp_error *err)
{
    for (size_t i = 0; i < shape->n_fields; i++)
        if (put_field(out, &shape->fields[i], record, err) != 0)
            return -1;
    return 0;
}

int rp_single_object_encode(const struct rp_shape *shape, uint64_t fingerprint, const void *record,
                            struct rp_buf *out, struct rp_error *err)
{
    size_t before = out->len;
    uint8_t head[10] = {0xC3, 0x01};
    for (int i = 0; i < 8; i++)
        head[2 + i] = (uint8_t)(fingerprint >> (8 * i));
    if (rp_buf_append(out, head, sizeof head, err) == 0 &&
        rp_record_encode(shape, record, out, err) == 0)
        return 0;
    out->len = before;
    return -1;
}
