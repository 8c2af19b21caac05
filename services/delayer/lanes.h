/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LANES_H
#define REPRISE_LANES_H

#include "lane.h"

/* The partitions that a worker owns, and the state that each is taken over with. Not thread-safe. */
struct lanes {
    const struct rp_config *config;
    rd_kafka_t *consumer;
    struct hold *hold;
    int wake_fd;
    struct lane **items;
    size_t n, cap;
};

/* Reads the committed state of `parts` (offset and metadata). Blocks for seconds at most; RETRIABLE
 * while it cannot be told, as when a predecessor's transaction is still under way. */
RP_NODISCARD int lanes_read_state(const struct lanes *l, rd_kafka_topic_partition_list_t *parts,
                                  struct rp_error *err);

/* Takes over `parts`, whose state was read; sets each one's offset to where reading begins. */
RP_NODISCARD int lanes_add(struct lanes *l, rd_kafka_topic_partition_list_t *parts,
                           struct rp_error *err);
void lanes_remove(struct lanes *l, const rd_kafka_topic_partition_list_t *parts);
void lanes_clear(struct lanes *l);

/* All of them; the caller's to destroy. */
rd_kafka_topic_partition_list_t *lanes_list(const struct lanes *l);

/* The states to commit of those with something in flight, or (`all`) of all that changed since
 * their last commit. The caller's to destroy. */
rd_kafka_topic_partition_list_t *lanes_states(const struct lanes *l, bool all);

/* What is in flight was settled, its state being committed; or it was not. */
void lanes_settled(struct lanes *l);
void lanes_untake(struct lanes *l);

/* What can be deleted of each log. The caller's to destroy. */
rd_kafka_topic_partition_list_t *lanes_trimmable(struct lanes *l);

size_t lanes_held(const struct lanes *l);

#endif
