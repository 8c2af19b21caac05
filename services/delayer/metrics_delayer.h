/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_METRICS_DELAYER_H
#define REPRISE_METRICS_DELAYER_H

#include "lane.h"
#include "metrics.h"
#include "settle.h"

/* The delayer's metrics; the workers of a process share the counters, gauges are by worker. */
struct delayer_metrics {
    struct rp_family *settled; /* by decision, tier, reason */
    struct rp_family *held, *lag, *due, *bytes;
    struct rp_series *lateness, *transactions, *failures;
    char worker[12];
    struct {
        enum settle_kind kind;
        const char *topic, *reason; /* compared as pointers */
        struct rp_series *series;
    } last; /* of `settled`: a batch has long runs of the same */
};

void delayer_metrics_init(struct delayer_metrics *m, struct rp_metrics *metrics, int worker);
void delayer_metrics_settled(struct delayer_metrics *m, enum settle_kind kind, const char *topic,
                             enum rp_reason reason);
/* A re-invocation could be read from now on. */
void delayer_metrics_late(struct delayer_metrics *m, int64_t late_us);
void delayer_metrics_committed(struct delayer_metrics *m, int64_t took_us);
void delayer_metrics_failed(struct delayer_metrics *m);
/* Sets the gauges; call about once a second. */
void delayer_metrics_gauge(struct delayer_metrics *m, const struct rp_config *config,
                           struct lane *const *lanes, size_t n_lanes, const struct hold *hold,
                           int64_t now_ms);

#endif
