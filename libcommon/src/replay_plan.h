/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_PLAN_H
#define REPRISE_REPLAY_PLAN_H

#include "filter.h"
#include "replay_job.h"

/* What is asked for. */
struct rp_replay_request {
    const struct rp_filter *filter;
    const struct rp_replay_options *options;
    double rate; /* tasks/s; 0: no limit */
    const char *actor, *reason;
    bool detached;      /* the archiver is to run it */
    const char *edited; /* rp_message_pack's, in place of the one task that is meant; or NULL */
    const char *archived_by; /* what was archived later is left out; or NULL */
    int64_t shown;           /* see rp_query_check_shown */
};

/* Claims the dead letters that the filter means, numbers them in the job's order and puts the job
 * on record and into the audit: all of it, or nothing. What another job has, was replayed too
 * often, or is not `dead` (unless the filter names the status) is left out. *total may be 0: then
 * there is no job. `job` is filled in before anything is done: where the connection is lost,
 * rp_replay_is_planned says on a new one whether there is such a job. POISON: the filter was
 * refused. */
RP_NODISCARD int rp_replay_plan(struct rp_db *db, const struct rp_replay_request *r,
                                char job[RP_REPLAY_ID_SIZE], int64_t *out_total,
                                struct rp_error *err);
RP_NODISCARD int rp_replay_is_planned(struct rp_db *db, const char *job, int64_t *out_total,
                                      struct rp_error *err);

/* Fills the temporary table replay_preview (dead_at, id, task_id, task_type, target, status,
 * reason, fingerprint, size, bytes, shrunk) with what would be claimed, in a transaction that is
 * left open: roll it back. `bytes` are those of the payload, or of what could not be decoded; null:
 * neither is there. *held_back: so many were replayed too often. */
RP_NODISCARD int rp_replay_preview(struct rp_db *db, const struct rp_replay_request *r,
                                   int64_t *held_back, struct rp_error *err);

#endif
