/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_DISPATCH_H
#define REPRISE_DISPATCH_H

#include "lanes.h"
#include "metrics_delayer.h"
#include "outbox.h"
#include "settle.h"

/* Settles what is due, batch by batch: takes it from the lanes in turn, publishes what follows from
 * it together with the lanes' states, and puts it back where that fails. One thread. */
struct dispatch {
    const struct rp_config *config;
    struct rp_outbox outbox;
    struct settle_context settle;
    struct delayer_metrics metrics;
    struct lanes *lanes;          /* borrowed */
    struct rp_consumer *consumer; /* borrowed; theirs */
    struct dispatch_batch {
        struct taken *taken; /* beside the outbox's items */
        size_t n;
        int64_t began_mono_us;
        int64_t last_ms; /* when the last of it is due */
        bool acknowledged;
    } batch, sent_off;
    size_t first_lane; /* where the next batch begins, so that none is always last */
    bool behind;       /* the last batch was full: more may be due than it took */
    int64_t until_us;  /* else it took what is due until then */
    int64_t began_ms;  /* the batch under way */
    int64_t took_us;   /* from the first record of a batch until it could be committed, averaged */
    struct rp_buf scratch;
};

/* `id` becomes the producer's. On failure clear it. */
RP_NODISCARD int dispatch_init(struct dispatch *d, struct rp_worker *worker, const char *id,
                               struct lanes *lanes, struct rp_registry *registry,
                               struct rp_error *err);
/* Comes after the consumer is closed. */
void dispatch_clear(struct dispatch *d);

/* Sends off a batch of what is due, and commits it, unless more is due before the brokers have
 * acknowledged it: then call this again, and that is filled beside it. False: nothing is due. */
bool dispatch_due(struct dispatch *d);
/* Commits what was sent off. */
void dispatch_finish(struct dispatch *d);
/* Drops it. */
void dispatch_abort(struct dispatch *d);

/* How much before its due time a batch is begun. */
int64_t dispatch_lead_us(const struct dispatch *d);

#endif
