/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARCHIVE_IMPORT_H
#define REPRISE_ARCHIVE_IMPORT_H

#include "db.h"
#include "lines.h"

/* Reads exported dead letters back, into the same database or another one. Those that are there
 * already are passed over, so that it may be killed and run again; a line that is no dead letter is
 * told of, and the others go in all the same. */

struct rp_import_progress {
    int64_t lines; /* read so far; empty ones count */
    int64_t added;
    int64_t known; /* passed over */
    int64_t bad;
    int64_t renumbered; /* of the added: got another id, because theirs is taken */
};

struct rp_import {
    const char *actor, *reason, *file; /* for the audit; the reason may be NULL */
    /* A line that cannot be imported, and why. */
    void (*bad)(void *opaque, int64_t line, const char *why);
    /* Called after each batch. False: no more. */
    bool (*go_on)(void *opaque, const struct rp_import_progress *progress);
    void *opaque;
};

/* `*out` is what was done, also on failure. */
RP_NODISCARD int rp_import_run(struct rp_db *db, struct rp_lines *lines, const struct rp_import *p,
                               struct rp_import_progress *out, struct rp_error *err);

#endif
