/* SPDX-License-Identifier: Apache-2.0 */
#include "record_size.h"

#define BATCH_BYTES 61
#define FIXED_BYTES 3 /* attributes and two deltas of 0 */

/* Of a length, as a zigzag varint: seven bits a byte, the lowest of all being the sign. */
static int64_t varint_bytes(uint64_t length)
{
    int64_t n = 1;
    for (length *= 2; length >= 0x80; length >>= 7)
        n++;
    return n;
}

/* With its length in front; -1 is as short as 0. */
static int64_t field_bytes(struct rp_bytes field)
{
    return field.data == NULL ? 1 : varint_bytes(field.len) + (int64_t)field.len;
}

int64_t rp_record_batch_bytes(const struct rp_outgoing *record)
{
    int64_t bytes = FIXED_BYTES + field_bytes(record->key) + field_bytes(record->value) +
                    varint_bytes(record->n_headers);
    for (size_t i = 0; i < record->n_headers; i++)
        bytes += field_bytes(record->headers[i].key) + field_bytes(record->headers[i].value);
    return BATCH_BYTES + varint_bytes((uint64_t)bytes) + bytes;
}
