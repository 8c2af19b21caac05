/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CONSUMER_H
#define REPRISE_CONSUMER_H

#include "kafka.h"

/* A static member of a consumer group, with rebalances handed to its owner in order. A process that
 * was killed and comes back with the same `instance` takes up its partitions at once; one that
 * leaves by rp_consumer_close gives them to the others at once. One thread. */
struct rp_consumer;

struct rp_consumer_owner {
    void *opaque;
    /* Partitions came, and are held until their owner begins with them (rp_kafka_begin). Called
     * inside rp_consumer_poll. */
    void (*assigned)(void *opaque, const rd_kafka_topic_partition_list_t *parts);
    /* Partitions go. What is under way for them must be finished or dropped before this returns.
     * `lost`: they may have another owner already, so nothing can be committed any more. */
    void (*revoked)(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost);
};

struct rp_consumer_options {
    const char *group;
    const char *instance; /* the static member's name */
    char *const *topics;
    size_t n_topics;
    bool eof; /* ask for RD_KAFKA_RESP_ERR__PARTITION_EOF */
    /* Properties that the configuration file may override. */
    const struct rp_property *defaults;
    size_t n_defaults;
};

/* Joins the group. All of `options` is copied. */
RP_NODISCARD int rp_consumer_new(const struct rp_config *config,
                                 const struct rp_consumer_options *options,
                                 const struct rp_consumer_owner *owner, struct rp_consumer **out,
                                 struct rp_error *err);

/* The next message or consumer error (message->err), or NULL when nothing came in `timeout_ms`.
 * The caller destroys it. Serves rebalances; call it at least every max.poll.interval.ms. Rejoins
 * where the group has partitions that are nobody's (unassigned.h). */
rd_kafka_message_t *rp_consumer_poll(struct rp_consumer *c, int timeout_ms);

/* Leaves the group and joins it again, in the polls that follow: the group gives all partitions to
 * somebody then. */
void rp_consumer_rejoin(struct rp_consumer *c);

/* What a message's error means; returns -1. FATAL: the consumer is of no use any more; then
 * RP_E_FENCED where a new one may be. */
int rp_consumer_fail(struct rp_consumer *c, const rd_kafka_message_t *message,
                     struct rp_error *err);

rd_kafka_t *rp_consumer_handle(struct rp_consumer *c);

/* By what right it commits offsets: as the member that its partitions came to. The caller destroys
 * it. NULL: RETRIABLE where it is not in the group now; FATAL and RP_E_FENCED where it is in it as
 * somebody else. Then its group had forgotten it, others may have had the partitions, and what it
 * knows of them is old; but librdkafka (2.14), where a broker says so as it joins again, keeps the
 * partitions and tells nobody, and to the coordinator the new member is as good as the old. */
rd_kafka_consumer_group_metadata_t *rp_consumer_membership(struct rp_consumer *c,
                                                           struct rp_error *err);

/* Commits offsets by that right, or fails as it does. It lapses at worst between the question and
 * the request, which librdkafka's thread sends. `async`: without waiting, and nobody is told
 * what came of it. */
RP_NODISCARD int rp_consumer_commit(struct rp_consumer *c,
                                    const rd_kafka_topic_partition_list_t *offsets, bool async,
                                    struct rp_error *err);

/* librdkafka's; where a commit failed for some partitions only, `code` does not tell. */
typedef void rp_committed_fn(rd_kafka_t *consumer, rd_kafka_resp_err_t code,
                             rd_kafka_topic_partition_list_t *offsets, void *opaque);
/* The same without waiting: what came of it is told inside rp_consumer_poll. */
RP_NODISCARD int rp_consumer_commit_told(struct rp_consumer *c,
                                         const rd_kafka_topic_partition_list_t *offsets,
                                         rp_committed_fn *committed, void *opaque,
                                         struct rp_error *err);

/* Leaves the group, which calls revoked(), and frees. NULL is fine. */
void rp_consumer_close(struct rp_consumer *c);

#endif
