/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_METRICS_H
#define REPRISE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* Counters, gauges and histograms in Prometheus' text format. A family is defined once, at start;
 * its series come into being at first use and stay. A family holds at most `max_series`: label
 * values beyond that are counted under "other", so that no input can make them grow. Values change
 * atomically from any thread; finding a series takes the family's lock, so hold on to the pointer
 * where it is hot. */
struct rp_metrics;
struct rp_family;
struct rp_series;

enum rp_metric_type { RP_COUNTER, RP_GAUGE, RP_HISTOGRAM };

struct rp_metrics *rp_metrics_new(void); /* NULL when there is no memory */
void rp_metrics_free(struct rp_metrics *m);

/* `labels` is a comma-separated list of names ("type,reason"), "" for none. For a histogram,
 * `bounds` are the upper bounds of its buckets, ascending, in the unit of the name; they are
 * copied. A name that is defined already gives the family it has, so that each of several workers
 * may define its own. Never NULL: without memory, a family that is not shown. Lives as long as
 * `m`. */
struct rp_family *rp_metrics_family(struct rp_metrics *m, enum rp_metric_type type,
                                    const char *name, const char *help, const char *labels,
                                    size_t max_series, const double *bounds, size_t n_bounds);

/* The series of these label values, one per label, in their order. Never NULL. */
struct rp_series *rp_family_series(struct rp_family *f, const struct rp_bytes *values);

void rp_series_add(struct rp_series *s, double n);         /* counter or gauge */
void rp_series_set(struct rp_series *s, double n);         /* gauge */
void rp_series_observe(struct rp_series *s, double value); /* histogram */
double rp_series_value(struct rp_series *s); /* counter or gauge; a histogram's count */

/* Buckets in seconds for lateness and transaction times: 1 ms to 60 s. */
extern const double rp_seconds_bounds[];
extern const size_t rp_n_seconds_bounds;

/* Appends the whole exposition. */
RP_NODISCARD int rp_metrics_write(struct rp_metrics *m, struct rp_buf *out, struct rp_error *err);

#endif
