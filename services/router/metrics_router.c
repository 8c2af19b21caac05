/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_router.h"

#include <stdlib.h>
#include <xxhash.h>

#include "array.h"

#define MAX_TYPES 500u /* of (decision, type, reason) */

void router_metrics_init(struct router_metrics *m, struct rp_metrics *metrics)
{
    m->events = rp_metrics_family(metrics, RP_COUNTER, "reprise_router_events_total",
                                  "Events routed, by decision, task type and reason",
                                  "decision,type,reason", MAX_TYPES, NULL, 0);
    m->loops = rp_family_series(
        rp_metrics_family(metrics, RP_COUNTER, "reprise_router_loops_total",
                          "Events whose handler did not hand the attempt back", "", 1, NULL, 0),
        NULL);
    m->transactions =
        rp_family_series(rp_metrics_family(metrics, RP_HISTOGRAM, "reprise_router_commit_seconds",
                                           "From the end of a batch to its commit", "", 1,
                                           rp_seconds_bounds, rp_n_seconds_bounds),
                         NULL);
    m->failures = rp_family_series(
        rp_metrics_family(metrics, RP_COUNTER, "reprise_router_failed_batches_total",
                          "Batches that were aborted and read again", "", 1, NULL, 0),
        NULL);
}

static struct rp_series *series_of(struct router_metrics *m, enum route_kind kind,
                                   struct rp_bytes type, const char *reason)
{
    struct router_series *known = &m->known[XXH3_64bits(type.data, type.len) % ROUTER_SERIES];
    if (known->series != NULL && known->kind == kind && known->reason == reason &&
        rp_bytes_equal((struct rp_bytes){known->type, known->type_len}, type))
        return known->series;
    struct rp_bytes labels[] = {rp_str(route_kind_name(kind)), type, rp_str(reason)};
    struct rp_series *series = rp_family_series(m->events, labels);
    if (type.len > sizeof known->type)
        return series;
    *known = (struct router_series){
        .kind = kind, .reason = reason, .type_len = type.len, .series = series};
    if (type.len > 0)
        memcpy(known->type, type.data, type.len);
    return series;
}

void router_metrics_clear(struct router_metrics *m)
{
    free(m->uncommitted);
}

/* Without memory it counts now, and perhaps once more. */
static void count(struct router_metrics *m, struct rp_series *series)
{
    struct rp_series **grown = rp_array_grow(m->uncommitted, m->n_uncommitted, &m->cap_uncommitted,
                                             sizeof(struct rp_series *));
    if (grown == NULL) {
        rp_series_add(series, 1);
        return;
    }
    m->uncommitted = grown;
    m->uncommitted[m->n_uncommitted++] = series;
}

void router_metrics_routed(struct router_metrics *m, const struct route *route)
{
    bool stopped = route->kind == ROUTE_DEAD || route->kind == ROUTE_FALLBACK;
    struct rp_bytes type = route->task_type.data == NULL ? rp_str("") : route->task_type;
    const char *reason = stopped ? rp_reason_name(route->reason) : "";
    count(m, series_of(m, route->kind, type, reason));
    if (route->looped)
        count(m, m->loops);
}

void router_metrics_sent_off(struct router_metrics *m)
{
    m->n_sent_off = m->n_uncommitted;
}

void router_metrics_committed(struct router_metrics *m, int64_t took_us)
{
    for (size_t i = 0; i < m->n_sent_off; i++)
        rp_series_add(m->uncommitted[i], 1);
    for (size_t i = m->n_sent_off; i < m->n_uncommitted; i++)
        m->uncommitted[i - m->n_sent_off] = m->uncommitted[i];
    m->n_uncommitted -= m->n_sent_off;
    m->n_sent_off = 0;
    rp_series_observe(m->transactions, (double)took_us / 1e6);
}

void router_metrics_dropped(struct router_metrics *m)
{
    m->n_uncommitted = m->n_sent_off = 0;
}

void router_metrics_failed(struct router_metrics *m)
{
    rp_series_add(m->failures, 1);
}
