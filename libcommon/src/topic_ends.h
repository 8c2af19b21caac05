/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TOPIC_ENDS_H
#define REPRISE_TOPIC_ENDS_H

#include <librdkafka/rdkafka.h>

#include <reprise/bytes.h>

/* Where the logs of a topic's partitions end now, by partition, as PostgreSQL writes an array, with
 * a NUL: "{12,0,7}". What transactions under way have written counts: it may hide what others have
 * committed behind it. Appends to `out`; waits for the brokers' answers. Fails RETRIABLE where the
 * brokers refuse: metadata may be old, and rights may be given. */
RP_NODISCARD int rp_topic_ends(rd_kafka_t *client, const char *topic, struct rp_buf *out,
                               struct rp_error *err);

#endif
