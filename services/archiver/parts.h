/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTS_H
#define PARTS_H

#include "metrics_archiver.h"
#include "store.h"

/* The partitions that a worker has been assigned. One is `live` from the moment that PostgreSQL has
 * said where it is read on and the consumer stands there, to the next failure of the database;
 * what is polled of others is passed over. */
struct part {
    struct store_claim claim; /* claim.next_offset: all below is committed */
    int64_t position;         /* all below is in the batch or committed */
    int64_t end;              /* the log's end, where the consumer last met it */
    int64_t whole;            /* nothing is missing below, be it marks that expire; 0: not known */
    int32_t epoch, looked;    /* the leader's, of the last record; rp_kafka_look_back */
    int64_t claim_mono_ms;    /* not to be claimed before */
    bool claimed;             /* the epoch is ours, as far as we know */
    bool live, paused;
    struct rp_series *lag;
};

/* A zeroed one is empty and ready. */
struct parts {
    struct part *items;
    size_t n, cap;
    int64_t tell_mono_ms; /* of parts_tell_ends */
};

RP_NODISCARD int parts_add(struct parts *p, int32_t partition, struct metrics_archiver *metrics,
                           struct rp_error *err);
void parts_remove(struct parts *p, int32_t partition);
/* NULL where it is not assigned. */
struct part *parts_find(const struct parts *p, int32_t partition);
/* With nothing of a partition in hand, no dead letter lies between its next_offset and the log's
 * end: whoever waits for the archive is told. Cheap: does so once a second at most. A partition
 * that is no longer ours gets epoch 0, and `*out_lost` says that there is one. */
RP_NODISCARD int parts_tell_ends(struct parts *p, struct store *store, int64_t now_mono_ms,
                                 bool *out_lost, struct rp_error *err);
bool parts_all_live(const struct parts *p);
/* Makes `to` like `from`. */
RP_NODISCARD int parts_copy(struct parts *to, const struct parts *from, struct rp_error *err);
void parts_clear(struct parts *p);

#endif
