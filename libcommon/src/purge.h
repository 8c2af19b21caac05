/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PURGE_H
#define REPRISE_PURGE_H

#include <stdio.h>

#include "query.h"

/* Deletes dead letters for good, in small batches, so that nobody waits long for one. What is being
 * replayed stays. With an export, each goes into the file before the first is deleted, and none is
 * deleted that is not in it, or was replayed or discarded since; if the export fails, nothing is.
 * An entry of the audit says how many went, and is right at any moment, also when this process
 * dies. */

struct rp_purge_progress {
    int64_t matched;  /* how many there were to go, at the start */
    int64_t exported; /* in the file, as long as it is written */
    int64_t done;     /* of them, deleted or passed over */
    int64_t deleted;
};

struct rp_purge {
    const char *action; /* for the audit: "purge" */
    const char *actor, *reason;
    const char *filter; /* as text, for the audit */
    /* A condition over the view archive AS d, as rp_filter_sql gives it. Looked at again before
     * each row is deleted: what does not match any more stays. */
    const struct rp_query *where;
    int64_t limit;           /* the oldest so many; 0: no limit */
    int64_t shown;           /* see rp_query_check_shown */
    const char *export_path; /* see archive_export.h; NULL: no export */
    int batch;               /* rows a transaction; 0: 1000 */
    /* Prints the first column of a row as a line, where the export goes to stdout and may not go
     * there as it is. NULL: it may. */
    void (*print)(FILE *out, const PGresult *rows, int row);
    /* Called before the first and after each batch, of the export too: the place to wait, and to
     * show progress. False: no more. May be NULL. */
    bool (*go_on)(void *opaque, const struct rp_purge_progress *progress);
    void *opaque;
    /* While they are listed, or exported alone (db.h): then nothing is done. May be NULL. */
    bool (*given_up)(void);
};

/* `*out` is what was done, also on failure. A call may take as long as the connection's timeout
 * allows one statement to. An export that was finished stays, unless certainly nothing was deleted.
 */
RP_NODISCARD int rp_purge_run(struct rp_db *db, const struct rp_purge *p,
                              struct rp_purge_progress *out, struct rp_error *err);

/* The export alone, of all that matches, oldest first; `matched` and `done` stay 0. Where nothing
 * does, there is no file. Reads on and on, so that what comes or changes meanwhile may be in it or
 * not. */
RP_NODISCARD int rp_purge_export(struct rp_db *db, const struct rp_purge *p,
                                 struct rp_purge_progress *out, struct rp_error *err);

#endif
