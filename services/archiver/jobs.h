/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JOBS_H
#define REPRISE_JOBS_H

#include "service.h"

/* Runs the replays that people hand over (--detach), some at a time, each in a thread and on
 * connections of its own, and takes over those whose runner has died, wherever it ran. Of replays
 * that ran at somebody's terminal, or failed, it marks what was sent and leaves them at rest. */
struct jobs;

/* Takes what comes into the worker's mailbox of policies: a replay has those of its begin. */
RP_NODISCARD int jobs_start(struct rp_worker *service, struct jobs **out, struct rp_error *err);
/* Lets go of what is under way, so that another archiver can go on with it at once. NULL is fine.
 */
void jobs_stop(struct jobs *jobs);

#endif
