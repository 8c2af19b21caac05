/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_METRICS_ROUTER_H
#define REPRISE_METRICS_ROUTER_H

#include "metrics.h"
#include "route.h"

/* The router's counters; the workers of a process share them. */
struct router_metrics {
    struct rp_family *events; /* by decision, type, reason */
    struct rp_series *loops, *transactions, *failures;
};

void router_metrics_init(struct router_metrics *m, struct rp_metrics *metrics);
void router_metrics_routed(struct router_metrics *m, const struct route *route);
void router_metrics_committed(struct router_metrics *m, int64_t took_us);
void router_metrics_failed(struct router_metrics *m);

#endif
