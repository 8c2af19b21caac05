/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METRICS_ARCHIVER_H
#define METRICS_ARCHIVER_H

#include "dead_letter.h"
#include "metrics.h"

/* What the archiver counts. Workers share the series. */
struct metrics_archiver {
    struct rp_series *archived[RP_N_REASONS];
    struct rp_series *altered, *known, *fenced, *database_errors;
    struct rp_series *batch_seconds;
    struct rp_series *days_dropped, *rows_dropped;
    struct rp_family *lag, *database_up;
};

void metrics_archiver_init(struct metrics_archiver *m, struct rp_metrics *metrics);
struct rp_series *metrics_archiver_lag(struct metrics_archiver *m, int32_t partition);
struct rp_series *metrics_archiver_database_up(struct metrics_archiver *m, int worker);

#endif
