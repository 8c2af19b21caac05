/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_RECORD_SIZE_H
#define REPRISE_RECORD_SIZE_H

#include "publisher.h"

/* The bytes of a record batch that holds this record alone and is not compressed. Brokers compare
 * it with the topic's max.message.bytes. The formula is that of Kafka's record batch, magic 2
 * (https://kafka.apache.org/documentation/#recordbatch): 61 bytes of the batch, then the record:
 *
 *     length varint, attributes int8, timestampDelta varlong, offsetDelta varint,
 *     keyLength varint, key, valueLength varint, value,
 *     headers varint, each: keyLength varint, key, valueLength varint, value
 *
 * The deltas of the first record are 0, a byte each; a null has the length -1. Behind others in its
 * batch a record takes less than this, since 61 bytes are more than any deltas. */
int64_t rp_record_batch_bytes(const struct rp_outgoing *record);

/* What librdkafka takes of memory for a header beside its name and value (2.14, 64 bits). */
#define RP_HEADER_MEMORY 72

#endif
