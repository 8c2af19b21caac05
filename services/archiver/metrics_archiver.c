/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_archiver.h"

#include <inttypes.h>
#include <stdio.h>

static struct rp_series *counter(struct rp_metrics *metrics, const char *name, const char *help)
{
    return rp_family_series(rp_metrics_family(metrics, RP_COUNTER, name, help, "", 1, NULL, 0),
                            NULL);
}

static const char *const statuses[METRICS_STATUSES] = {"dead", "replaying", "replayed",
                                                       "discarded"};

static void init_contents(struct metrics_archiver *m, struct rp_metrics *metrics)
{
    struct rp_family *by_status =
        rp_metrics_family(metrics, RP_GAUGE, "reprise_archiver_dead_letters",
                          "Dead letters in the archive.", "status", METRICS_STATUSES, NULL, 0);
    for (size_t i = 0; i < METRICS_STATUSES; i++) {
        struct rp_bytes status = rp_str(statuses[i]);
        m->dead_letters[i] = rp_family_series(by_status, &status);
    }
    m->backlog = rp_metrics_family(metrics, RP_GAUGE, "reprise_archiver_backlog",
                                   "Dead letters that nobody has done anything about.",
                                   "type,reason,category", METRICS_BACKLOG_SERIES, NULL, 0);
    m->oldest_dead = rp_family_series(
        rp_metrics_family(metrics, RP_GAUGE, "reprise_archiver_oldest_dead_seconds",
                          "How long the oldest of the backlog is dead; 0: there is none.", "", 1,
                          NULL, 0),
        NULL);
}

void metrics_archiver_init(struct metrics_archiver *m, struct rp_metrics *metrics)
{
    struct rp_family *archived =
        rp_metrics_family(metrics, RP_COUNTER, "reprise_archiver_rows_total",
                          "Dead letters archived.", "reason", RP_N_REASONS, NULL, 0);
    for (int i = 0; i < RP_N_REASONS; i++) {
        struct rp_bytes reason = rp_str(rp_reason_name((enum rp_reason)i));
        m->archived[i] = rp_family_series(archived, &reason);
    }
    m->altered = counter(metrics, "reprise_archiver_altered_rows_total",
                         "Dead letters with a value that PostgreSQL cannot hold as it came.");
    m->known = counter(metrics, "reprise_archiver_known_rows_total",
                       "Records read again that the archive had already.");
    m->fenced = counter(metrics, "reprise_archiver_fenced_total",
                        "Partitions found to have a newer owner.");
    m->database_errors =
        counter(metrics, "reprise_archiver_database_errors_total",
                "Failures of the database, after each of which it is tried again.");
    m->days_dropped =
        counter(metrics, "reprise_archiver_days_dropped_total", "Days that retention dropped.");
    m->rows_dropped = counter(metrics, "reprise_archiver_rows_dropped_total",
                              "Dead letters that retention dropped.");
    m->retention_failures = counter(metrics, "reprise_archiver_retention_failures_total",
                                    "Runs of retention that failed, an export among them.");
    m->batch_seconds =
        rp_family_series(rp_metrics_family(metrics, RP_HISTOGRAM, "reprise_archiver_batch_seconds",
                                           "How long a batch takes to be committed.", "", 1,
                                           rp_seconds_bounds, rp_n_seconds_bounds),
                         NULL);
    m->lag = rp_metrics_family(metrics, RP_GAUGE, "reprise_archiver_lag_records",
                               "Offsets of the dead-letter topic that are still to be archived.",
                               "partition", 1024, NULL, 0);
    m->database_up = rp_metrics_family(metrics, RP_GAUGE, "reprise_archiver_database_up",
                                       "Whether the worker is connected to PostgreSQL.", "worker",
                                       1024, NULL, 0);
    init_contents(m, metrics);
}

static struct rp_series *numbered(struct rp_family *family, int64_t n)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, n);
    struct rp_bytes value = rp_str(text);
    return rp_family_series(family, &value);
}

struct rp_series *metrics_archiver_lag(struct metrics_archiver *m, int32_t partition)
{
    return numbered(m->lag, partition);
}

struct rp_series *metrics_archiver_database_up(struct metrics_archiver *m, int worker)
{
    return numbered(m->database_up, worker);
}

struct rp_series *metrics_archiver_backlog(struct metrics_archiver *m,
                                           const struct rp_bytes *labels)
{
    struct rp_series *series = rp_family_series(m->backlog, labels);
    size_t i = 0;
    while (i < m->n_backlog && m->backlog_seen[i] != series)
        i++;
    if (i == m->n_backlog && i < sizeof m->backlog_seen / sizeof *m->backlog_seen)
        m->backlog_seen[m->n_backlog++] = series;
    return series;
}

struct rp_series *metrics_archiver_status(struct metrics_archiver *m, struct rp_bytes status)
{
    size_t i = METRICS_STATUSES - 1;
    while (i > 0 && !rp_bytes_equal(status, rp_str(statuses[i])))
        i--;
    return m->dead_letters[i];
}
