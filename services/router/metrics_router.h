/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_METRICS_ROUTER_H
#define REPRISE_METRICS_ROUTER_H

#include "metrics.h"
#include "route.h"

#define ROUTER_SERIES      64u
#define ROUTER_SERIES_TYPE 48u /* longer types are looked up each time */

/* A worker's view of the router's counters, which the workers of a process share. */
struct router_metrics {
    struct rp_family *events; /* by decision, type, reason */
    /* Of `events`, by a hash of the type: to find a series by its labels takes longer than most of
     * what is decided of an event. */
    struct router_series {
        enum route_kind kind;
        const char *reason; /* compared as a pointer */
        char type[ROUTER_SERIES_TYPE];
        size_t type_len;
        struct rp_series *series; /* NULL: nothing is known here */
    } known[ROUTER_SERIES];
    struct rp_series *loops, *transactions, *failures;
    struct rp_series **uncommitted; /* one more in each, once the batch is committed */
    size_t n_uncommitted, cap_uncommitted;
    size_t n_sent_off; /* the first so many of them are of a batch that was sent off */
};

/* A zeroed one. */
void router_metrics_init(struct router_metrics *m, struct rp_metrics *metrics);
void router_metrics_clear(struct router_metrics *m);
/* It is in the batch, and counts when that is committed. */
void router_metrics_routed(struct router_metrics *m, const struct route *route);
/* What was routed is sent off, and more may be routed before that is committed. */
void router_metrics_sent_off(struct router_metrics *m);
/* The batch that was sent off is committed. */
void router_metrics_committed(struct router_metrics *m, int64_t took_us);
/* Nothing is committed, for all that is known; what comes again counts then. */
void router_metrics_dropped(struct router_metrics *m);
void router_metrics_failed(struct router_metrics *m);

#endif
