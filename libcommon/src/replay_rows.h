/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_ROWS_H
#define REPRISE_REPLAY_ROWS_H

#include "arena.h"
#include "db.h"
#include "dead_letter.h"

/* The rows of a replay job, in the order of their numbers: read by windows, of which the next one
 * is on its way while one is worked through, and taken as it comes. A window is bounded in rows and
 * in bytes. Owns its connection. One thread. */
struct rp_replay_rows;

struct rp_replay_row {
    int64_t n;
    bool gone;               /* the archive has no such dead letter any more */
    struct rp_bytes refused; /* why it is not to be sent; null: it is */
    struct rp_bytes edited;  /* JSON: what is to be sent in its place; null: it is as it was */
    struct rp_bytes about;   /* JSON: the task, as transforms see it */
    struct rp_bytes record;  /* the record's own bytes, where the columns do not say it all */
    struct rp_bytes key;     /* of the dead letter's record */
    struct rp_dead_letter letter;
};

/* `about`: somebody reads that. */
RP_NODISCARD int rp_replay_rows_new(const char *dsn, const char *job, bool about,
                                    struct rp_replay_rows **out, struct rp_error *err);
void rp_replay_rows_free(struct rp_replay_rows *r);

/* Row number `n`, valid until the next call. Fastest when they ascend. Fails with RP_E_NOT_FOUND
 * where the job has no such item; after any other failure the connection is made anew. */
RP_NODISCARD int rp_replay_rows_at(struct rp_replay_rows *r, int64_t n, struct rp_replay_row *out,
                                   struct rp_error *err);
/* Whether row `n` can be had without a wait for PostgreSQL; waits for that until `until_mono_ms`
 * (rp_mono_ms). */
bool rp_replay_rows_come_by(struct rp_replay_rows *r, int64_t n, int64_t until_mono_ms);
/* Takes what comes of the window on its way, until all of it is there or `until_mono_ms`. Before
 * that PostgreSQL is not through with it, and holds its locks. */
void rp_replay_rows_read_ahead(struct rp_replay_rows *r, int64_t until_mono_ms);
/* Forgets what was read: something else is in the database now. */
void rp_replay_rows_forget(struct rp_replay_rows *r);

#endif
