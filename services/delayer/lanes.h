/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LANES_H
#define REPRISE_LANES_H

#include "inquiry.h"
#include "lane.h"

/* The partitions that a worker owns. Those whose committed state is not known yet come last in
 * `items`, and nothing is done with them. Not thread-safe. */
struct lanes {
    const struct rp_config *config;
    rd_kafka_t *consumer;
    struct hold *hold;
    struct rp_inquiry *inquiry;
    int wake_fd;
    struct lane **items;
    size_t n;   /* those that were taken over */
    size_t all; /* those that wait for their state, too */
    size_t cap;
    uint64_t epoch;          /* counts the changes of ownership: an older answer means nothing */
    struct rp_arena headers; /* of the record that is read */
};

/* Partitions come, held (rp_kafka_hold); their state is asked for by lanes_take_over. Fails
 * RETRIABLE for want of memory. */
RP_NODISCARD int lanes_add(struct lanes *l, const rd_kafka_topic_partition_list_t *parts,
                           struct rp_error *err);
void lanes_remove(struct lanes *l, const rd_kafka_topic_partition_list_t *parts);
/* Drops what is held of all of them; their states are to be found out anew. */
void lanes_let_go(struct lanes *l);
void lanes_clear(struct lanes *l);

/* Asks for the states that are not known, and takes over the partitions whose state has come. Does
 * not wait; call it often. */
void lanes_take_over(struct lanes *l);

/* Reads on in each of them what comes due soon, as far as there is room for it. `behind`: more is
 * due than a batch takes, so a lane is left alone that has its share of what is. Where memory is
 * scarce no more is read of what is overdue than a batch takes. */
RP_NODISCARD int lanes_read(struct lanes *l, bool behind, struct rp_error *err);

/* Those that have read all that was fetched, each with the offset up to which it came (see
 * stall.h); the caller's to destroy. */
rd_kafka_topic_partition_list_t *lanes_emptied(const struct lanes *l);

/* The states to commit of those with something in flight that was not sent off, or (`all`) of all
 * that changed since their last commit. The caller's to destroy. */
rd_kafka_topic_partition_list_t *lanes_states(const struct lanes *l, bool all);
/* Of those that were cut, and whose state does not say so yet. */
rd_kafka_topic_partition_list_t *lanes_cut_states(const struct lanes *l);

/* As frontier.h has them: what is in flight goes with these states; that is settled; or all that is
 * in flight is held again. */
void lanes_send_off(struct lanes *l);
void lanes_settled(struct lanes *l);
void lanes_untake(struct lanes *l);

/* What can be deleted of each log (lane_trim_to). The caller's to destroy. */
rd_kafka_topic_partition_list_t *lanes_trimmable(struct lanes *l, bool again);

/* As many are held as `max_held`, or hold_is_over. */
bool lanes_full(const struct lanes *l);

#endif
