/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_delayer.h"

#include <stdio.h>

#define MAX_SERIES 500u

void delayer_metrics_init(struct delayer_metrics *m, struct rp_metrics *metrics, int worker)
{
    (void)snprintf(m->worker, sizeof m->worker, "%d", worker);
    m->settled = rp_metrics_family(metrics, RP_COUNTER, "reprise_delayer_settled_total",
                                   "Tier records settled, by decision, tier and reason",
                                   "decision,tier,reason", MAX_SERIES, NULL, 0);
    m->held = rp_metrics_family(metrics, RP_GAUGE, "reprise_delayer_held_tasks",
                                "Tasks that were read and wait for their due time", "worker,tier",
                                MAX_SERIES, NULL, 0);
    m->bytes = rp_metrics_family(metrics, RP_GAUGE, "reprise_delayer_held_bytes",
                                 "Bytes of the held tasks, in memory and in the spill file",
                                 "worker,where", MAX_SERIES, NULL, 0);
    m->due = rp_metrics_family(metrics, RP_GAUGE, "reprise_delayer_overdue_seconds",
                               "How long the task that is due the longest has been due",
                               "worker,tier", MAX_SERIES, NULL, 0);
    m->lag = rp_metrics_family(metrics, RP_GAUGE, "reprise_delayer_frontier_lag",
                               "Offsets between the lowest unsettled record and the next to read: "
                               "what a recovery reads again, summed over partitions",
                               "worker,tier", MAX_SERIES, NULL, 0);
    m->lateness = rp_family_series(
        rp_metrics_family(metrics, RP_HISTOGRAM, "reprise_delayer_lateness_seconds",
                          "From a task's due time to the commit of its re-invocation", "", 1,
                          rp_seconds_bounds, rp_n_seconds_bounds),
        NULL);
    m->transactions = rp_family_series(
        rp_metrics_family(metrics, RP_HISTOGRAM, "reprise_delayer_transaction_seconds",
                          "From the first record of a batch to its commit", "", 1,
                          rp_seconds_bounds, rp_n_seconds_bounds),
        NULL);
    m->failures = rp_family_series(
        rp_metrics_family(metrics, RP_COUNTER, "reprise_delayer_failed_batches_total",
                          "Batches that were aborted and settled again", "", 1, NULL, 0),
        NULL);
}

void delayer_metrics_settled(struct delayer_metrics *m, enum settle_kind kind, const char *topic,
                             enum rp_reason reason)
{
    const char *stated = kind == SETTLE_DEAD ? rp_reason_name(reason) : "";
    if (m->last.series == NULL || m->last.kind != kind || m->last.topic != topic ||
        m->last.reason != stated) {
        struct rp_bytes labels[] = {rp_str(settle_kind_name(kind)), rp_str(topic), rp_str(stated)};
        m->last.kind = kind;
        m->last.topic = topic;
        m->last.reason = stated;
        m->last.series = rp_family_series(m->settled, labels);
    }
    rp_series_add(m->last.series, 1);
}

void delayer_metrics_late(struct delayer_metrics *m, int64_t late_us)
{
    rp_series_observe(m->lateness, (double)late_us / 1e6);
}

void delayer_metrics_committed(struct delayer_metrics *m, int64_t took_us)
{
    rp_series_observe(m->transactions, (double)took_us / 1e6);
}

void delayer_metrics_failed(struct delayer_metrics *m)
{
    rp_series_add(m->failures, 1);
}

struct tier_sums {
    double held, lag, overdue_ms;
};

static void add_lane(struct tier_sums *sums, struct lane *lane, int64_t now_ms)
{
    struct frontier_entry head;
    const struct frontier *f = lane_frontier(lane);
    sums->held += (double)frontier_held(f);
    if (frontier_low(f) >= 0 && frontier_high(f) > frontier_low(f))
        sums->lag += (double)(frontier_high(f) - frontier_low(f));
    if (frontier_peek(f, &head) && (double)(now_ms - head.settle_ms) > sums->overdue_ms)
        sums->overdue_ms = (double)(now_ms - head.settle_ms);
}

static void set(struct rp_family *f, const char *worker, const char *label, double value)
{
    struct rp_bytes labels[] = {rp_str(worker), rp_str(label)};
    rp_series_set(rp_family_series(f, labels), value);
}

void delayer_metrics_gauge(struct delayer_metrics *m, const struct rp_config *config,
                           struct lane *const *lanes, size_t n_lanes, const struct hold *hold,
                           int64_t now_ms)
{
    for (size_t t = 0; t < config->n_tiers + config->n_retired; t++) {
        struct tier_sums sums = {0};
        for (size_t i = 0; i < n_lanes; i++)
            if (lane_tier(lanes[i]) == &config->tiers[t])
                add_lane(&sums, lanes[i], now_ms);
        set(m->held, m->worker, config->tiers[t].topic, sums.held);
        set(m->lag, m->worker, config->tiers[t].topic, sums.lag);
        set(m->due, m->worker, config->tiers[t].topic, sums.overdue_ms / 1000);
    }
    set(m->bytes, m->worker, "memory", (double)hold_memory_bytes(hold));
    set(m->bytes, m->worker, "spill", (double)hold_spilled_bytes(hold));
}
