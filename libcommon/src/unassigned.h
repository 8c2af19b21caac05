/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_UNASSIGNED_H
#define REPRISE_UNASSIGNED_H

#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

/* Finds partitions that a consumer group has given to none of its members. A cooperative rebalance
 * takes a partition from one member and leaves it to the next rebalance, which that member asks
 * for, to give it to another. But one that is killed before it asks, and comes back by its static
 * name, is given what it was to keep, without a rebalance: then nobody reads the partition until
 * members come or go. A zeroed one is ready; one thread. */
struct rp_unassigned {
    int64_t look_mono_ms; /* the next look */
    int64_t asked_mono_ms;
    int64_t since_mono_ms;            /* some partition has been nobody's since then; 0: none is */
    unsigned tries;                   /* how often it rejoined since all were somebody's */
    unsigned undescribed;             /* how many looks in a row told nothing of the group */
    rd_kafka_queue_t *answers;        /* where brokers describe group and topics; NULL: not asked */
    int n_answers;                    /* that are to come */
    rd_kafka_event_t *group, *topics; /* those that came; NULL: not yet, or it was an error */
};

/* Time for a look. */
bool rp_unassigned_due(const struct rp_unassigned *u);
/* Asks, or takes up what was answered. How many partitions of what `consumer` subscribes to are
 * nobody's and have been for long, for it to bring about a rebalance by leaving `group`; 0: none,
 * or it is not its turn. Of the members the one with the fewest partitions comes first, after 10 s,
 * and each other 10 s after the one before; after a rebalance that did not help, twice as long. */
size_t rp_unassigned_look(struct rp_unassigned *u, rd_kafka_t *consumer, const char *group);
/* Forgets what was asked and answered: there was a rebalance, or the consumer is to be destroyed.
 */
void rp_unassigned_reset(struct rp_unassigned *u);

#endif
