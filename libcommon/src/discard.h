/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_DISCARD_H
#define REPRISE_DISCARD_H

#include "filter.h"

/* Sets dead letters aside that nobody wants to replay, or takes that back: status `dead` becomes
 * `discarded`, or the other way round; of any other status nothing changes. First all of them are
 * listed, which may take as long as the connection's timeouts allow one statement to. Then it goes
 * in small batches, each with its part of the audit in one transaction, so that it may be stopped
 * or killed at any moment, run again for the rest, and run twice at once. */

struct rp_discard_progress {
    int64_t changed;
};

struct rp_discard {
    const char *actor, *reason, *filter_text; /* for the audit */
    const struct rp_filter *filter;
    const char *archived_until; /* as PostgreSQL reads it: what was archived later stays as it is */
    int64_t shown;              /* see rp_query_check_shown */
    bool undo;
    int batch; /* rows a transaction; 0: 1000 */
    /* Called before the first and after each batch. False: no more. May be NULL. */
    bool (*go_on)(void *opaque, const struct rp_discard_progress *progress);
    void *opaque;
    bool (*given_up)(void); /* while they are listed (db.h): then nothing is done. May be NULL */
};

/* `*out` is what was done, also on failure. */
RP_NODISCARD int rp_discard_run(struct rp_db *db, const struct rp_discard *p,
                                struct rp_discard_progress *out, struct rp_error *err);

#endif
