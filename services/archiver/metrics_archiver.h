/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METRICS_ARCHIVER_H
#define METRICS_ARCHIVER_H

#include "dead_letter.h"
#include "metrics.h"

/* Types, reasons and categories that have a series of their own; what is beyond is "other". */
#define METRICS_BACKLOG_SERIES 200
#define METRICS_STATUSES       4

/* What the archiver counts. Workers share the series. */
struct metrics_archiver {
    struct rp_series *archived[RP_N_REASONS];
    struct rp_series *altered, *known, *fenced, *database_errors;
    struct rp_series *batch_seconds;
    struct rp_series *days_dropped, *rows_dropped, *retention_failures;
    struct rp_family *lag, *database_up;
    /* The archive's contents, for the keeper alone. */
    struct rp_family *backlog;
    struct rp_series *backlog_seen[METRICS_BACKLOG_SERIES + 1];
    size_t n_backlog;
    struct rp_series *dead_letters[METRICS_STATUSES], *oldest_dead;
};

void metrics_archiver_init(struct metrics_archiver *m, struct rp_metrics *metrics);
struct rp_series *metrics_archiver_lag(struct metrics_archiver *m, int32_t partition);
struct rp_series *metrics_archiver_database_up(struct metrics_archiver *m, int worker);
/* Of a type, a reason and a category. */
struct rp_series *metrics_archiver_backlog(struct metrics_archiver *m,
                                           const struct rp_bytes *labels);
struct rp_series *metrics_archiver_status(struct metrics_archiver *m, struct rp_bytes status);

#endif
