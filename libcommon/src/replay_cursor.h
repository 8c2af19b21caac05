/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_CURSOR_H
#define REPRISE_REPLAY_CURSOR_H

#include "config.h"
#include "kafka.h"

/* How far a job is, as Kafka knows it: the offset that the group reprise-replay-<job> has committed
 * for the dead-letter topic's partition 0, in the transactions that sent the tasks. `stamp` goes
 * into the commit's metadata and tells the job from another database's of the same name. */

#define RP_REPLAY_GROUP_SIZE 64
void rp_replay_group(const char *job, char out[RP_REPLAY_GROUP_SIZE]);

/* The list for rp_publisher_group_offsets; the caller's to destroy. NULL: there is no memory. */
rd_kafka_topic_partition_list_t *rp_replay_cursor_at(const struct rp_config *config, int64_t next,
                                                     const char *stamp);

/* The number of the next item to send; -1 where the group has none. Waits until no transaction is
 * under way that could move it: fence its producer before. RETRIABLE when the brokers do not say.
 */
RP_NODISCARD int rp_replay_cursor_read(const struct rp_config *config, const char *job,
                                       const char *stamp, int64_t *out_next, struct rp_error *err);

#endif
