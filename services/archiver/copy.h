/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_COPY_H
#define REPRISE_COPY_H

#include "reprise/bytes.h"

/* Writes rows in PostgreSQL's binary COPY format (the manual, "COPY", "Binary Format"). Want of
 * memory is remembered and the rest then ignored, so that it needs a look once a row. */
struct copy {
    struct rp_buf buf;
    bool failed;
};

/* What goes before the first and after the last row. */
extern const struct rp_bytes copy_header, copy_trailer;

void copy_row(struct copy *c, int n_columns);
void copy_null(struct copy *c);
void copy_int32(struct copy *c, int32_t n);
void copy_int64(struct copy *c, int64_t n);
/* A timestamptz. Needs a time of the years 1 to 9999. */
void copy_time(struct copy *c, int64_t ms);
/* A text or a bytea; null is null. */
void copy_bytes(struct copy *c, struct rp_bytes bytes);

/* An array's fields follow one by one, `n` of them, as copy_bytes. */
enum copy_element { COPY_BYTEA = 17, COPY_TEXT = 25 };
/* Returns what copy_array_end needs. */
size_t copy_array(struct copy *c, enum copy_element type, size_t n);
void copy_array_end(struct copy *c, size_t begin);

#endif
