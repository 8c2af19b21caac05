/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_JOB_H
#define REPRISE_REPLAY_JOB_H

#include "db.h"
#include "replay_options.h"

/* The row of a job in PostgreSQL, as its runner changes it. Whoever claims a job raises its epoch,
 * and every change names the epoch, so one who lost the job changes nothing any more: such a call
 * fails with RP_E_FENCED. A call whose answer was lost may have been done; rp_replay_job_renew
 * tells. */

#define RP_REPLAY_ID_SIZE 16

/* A runner whose heart has not beaten for so long is taken for dead. If it is not, its epoch is old
 * all the same. In ms, and the same in SQL. */
#define RP_REPLAY_DEAD_AFTER_MS INT64_C(15000)
#define RP_REPLAY_DEAD_AFTER    "interval '15 seconds'"

struct rp_replay_job {
    char id[RP_REPLAY_ID_SIZE];
    char stamp[24]; /* when it was planned, in us: tells it from another of the same name */
    int64_t epoch;
    int64_t total, marked, refused;
    bool canary_out; /* the canaries were sent, and are being waited for or were */
    bool unsettled;  /* when it was claimed: what was sent before may not all be marked */
    char state[16];  /* when it was claimed; one who settles leaves it as it is */
    struct rp_replay_options options;
    struct rp_error unread; /* why the options cannot be read; RP_OK: they can */
};

/* How far the marks are when a runner lets go of its job. While they may be behind what was sent,
 * there is a heartbeat, which is or gets too old: so an archiver takes the job up, and settles it.
 */
enum rp_replay_marks {
    RP_REPLAY_MARKED,
    RP_REPLAY_UNMARKED,       /* somebody is to see to it at once */
    RP_REPLAY_UNMARKED_LATER, /* or after a while, since it has just failed */
};

/* Takes the job for `runner`, a name that is no other process's. Fails with RP_E_NOT_FOUND (there
 * is no such job), RP_E_INVALID (it has ended), RP_E_FENCED (somebody is at it, and alive); the
 * text says so for people. Clear the job after success. `settle`: it is not going to run, so its
 * state and why stay; what was handed over meanwhile is to run, so that fails with RP_E_FENCED. */
RP_NODISCARD int rp_replay_job_claim(struct rp_db *db, const char *id, const char *runner,
                                     bool settle, struct rp_replay_job *out, struct rp_error *err);
void rp_replay_job_clear(struct rp_replay_job *job);
/* Reads again what is ours to change, and shows that we live. */
RP_NODISCARD int rp_replay_job_renew(struct rp_db *db, struct rp_replay_job *job,
                                     struct rp_error *err);

/* Marks the items from job->marked up to `until`: those that are not refused as replayed, the
 * others as what they were. In two, so that the database can work meanwhile: between them the
 * connection is for nothing else. RETRIABLE where the marks are not where they were thought to be:
 * a call whose answer was lost had done it, or there is a new owner; rp_replay_job_renew tells. */
RP_NODISCARD int rp_replay_job_mark(struct rp_db *db, const struct rp_replay_job *job,
                                    int64_t until, struct rp_error *err);
RP_NODISCARD int rp_replay_job_marked(struct rp_db *db, struct rp_replay_job *job, int64_t until,
                                      struct rp_error *err);

/* Items that will not be sent: `json` is an array of {"n":, "why":}. Must be done before the cursor
 * passes them. */
RP_NODISCARD int rp_replay_job_refuse(struct rp_db *db, const struct rp_replay_job *job,
                                      const char *json, struct rp_error *err);

/* All canaries are out: from now on they are waited for. */
RP_NODISCARD int rp_replay_job_canaries_out(struct rp_db *db, struct rp_replay_job *job,
                                            struct rp_error *err);

/* Wishes that the job be cancelled, because of `why`: whoever has it then gives back what was not
 * sent, and it ends as stopped. */
RP_NODISCARD int rp_replay_job_stop(struct rp_db *db, const struct rp_replay_job *job,
                                    const char *why, struct rp_error *err);

/* Gives back items from `*from` on, some thousands, that were not sent; *from is behind them. */
RP_NODISCARD int rp_replay_job_release(struct rp_db *db, const struct rp_replay_job *job,
                                       int64_t *from, struct rp_error *err);

/* Ends the job: as done, or, after a wish to cancel, as stopped or cancelled. */
RP_NODISCARD int rp_replay_job_finish(struct rp_db *db, const struct rp_replay_job *job, bool done,
                                      struct rp_error *err);
/* Lets go of it: `state` is running (somebody is to take it), paused or failed (because of `why`);
 * NULL: what it was, and why. */
RP_NODISCARD int rp_replay_job_rest(struct rp_db *db, const struct rp_replay_job *job,
                                    const char *state, const char *why, enum rp_replay_marks marks,
                                    struct rp_error *err);
/* Its state under our epoch, which says how it ended: done, cancelled or stopped; "": somebody else
 * has it. So one whose answer was lost knows what it did. */
RP_NODISCARD int rp_replay_job_state(struct rp_db *db, struct rp_replay_job *job, char out[16],
                                     struct rp_error *err);

#endif
