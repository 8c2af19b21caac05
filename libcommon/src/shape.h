/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SHAPE_H
#define REPRISE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Where the fields of our Avro records are in our structs. One table for the encoder, the decoder's
 * plans and the JSON reader; a test holds it against the .avsc files. */
enum rp_shape_type {
    RP_SHAPE_STRING, /* struct rp_bytes */
    RP_SHAPE_BYTES,  /* struct rp_bytes */
    RP_SHAPE_INT,    /* int32_t */
    RP_SHAPE_LONG,   /* int64_t */
    RP_SHAPE_TIME,   /* int64_t, timestamp-millis; null is RP_NO_TIME */
    RP_SHAPE_REASON, /* enum rp_reason */
    RP_SHAPE_RECORD, /* embedded; where nullable, `count_at` is its bool */
    RP_SHAPE_ARRAY,  /* a pointer to items, and `count_at` is its size_t */
};

struct rp_shape_field {
    const char *name;
    enum rp_shape_type type;
    bool nullable; /* then the default is null; an array's is []; nothing else has one */
    size_t at;     /* from the start of the struct that the shape describes */
    size_t count_at;
    const struct rp_shape *of; /* the record, or the array's item */
};

struct rp_shape {
    const char *name; /* in namespace reprise.v1 */
    size_t size;      /* of the struct */
    size_t n_fields;
    const struct rp_shape_field *fields; /* in the schema's order */
};

static inline bool rp_shape_has_default(const struct rp_shape_field *field)
{
    return field->nullable || field->type == RP_SHAPE_ARRAY;
}

extern const struct rp_shape rp_failed_task_shape; /* of struct rp_failed_task */
extern const struct rp_shape rp_dead_letter_shape; /* of struct rp_dead_letter */

#endif
