/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RETENTION_H
#define RETENTION_H

#include <stdatomic.h>

#include "config.h"
#include "db.h"
#include "metrics_archiver.h"

/* Makes the partitions of the days to come, drops whole days once all that is in them is older than
 * retention.keep, and deletes what retention.by_type keeps for less, and old replay jobs: at the
 * start, for a run that was missed, and then daily at the scheduled minute. What goes is exported
 * before, where there is a folder for it. Of all archivers on a database one does it at a time. */
struct retention {
    const struct rp_config *config;
    struct metrics_archiver *metrics;
    const atomic_bool *stop; /* set: no more after the batch in hand */
    int64_t next_ms;         /* when to look again; 0: at once */
};

/* Does all that is due. Fails where the database or the export does, and is then tried again in a
 * minute. */
RP_NODISCARD int retention_serve(struct retention *r, struct rp_db *db, int64_t now_ms,
                                 struct rp_error *err);

#endif
