/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RETENTION_H
#define RETENTION_H

#include "db.h"
#include "metrics_archiver.h"

/* Makes the partitions of the days to come, and drops whole days once all that is in them is older
 * than `keep_ms`: at the start, for a run that was missed, and then daily at the scheduled minute.
 * Of all archivers on a database one does it at a time. */
struct retention {
    int64_t keep_ms;
    int minute; /* of the day, UTC */
    struct metrics_archiver *metrics;
    int64_t next_ms; /* when to look again; 0: at once */
    bool running;    /* days are being dropped, and the lock is ours */
};

/* Does what is due, one day a call, so that archiving goes on between them. Holds readers and
 * writers up for the moment of a drop alone. Fails where the database does, and is then tried again
 * later. */
RP_NODISCARD int retention_serve(struct retention *r, struct rp_db *db, int64_t now_ms,
                                 struct rp_error *err);

#endif
