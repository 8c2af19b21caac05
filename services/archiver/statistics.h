/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATISTICS_H
#define STATISTICS_H

#include "config.h"
#include "db.h"
#include "metrics_archiver.h"

/* What there is in the archive, over time in the table dead_letter_stat, which one archiver writes
 * each time, and as it is now in the metrics of each. */
struct statistics {
    const struct rp_config *config;
    struct metrics_archiver *metrics;
    int64_t taken;         /* the last interval that was seen to, counted from 1970 */
    int64_t gauge_mono_ms; /* when the gauges are to be set again */
    int64_t again_mono_ms; /* what failed is not taken before */
};

/* Does what is due. Fails where the database does; it is tried again after a while. */
RP_NODISCARD int statistics_serve(struct statistics *s, struct rp_db *db, int64_t now_ms,
                                  struct rp_error *err);

/* No dead letter is counted in the gauges any more. */
void statistics_forget(struct statistics *s);

#endif
