/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_REPLAY_JOBS_H
#define REPRISE_CLI_REPLAY_JOBS_H

#include "cli.h"
#include "config.h"
#include "db.h"
#include "replay_job.h"

/* What the commands of `reprise replay` share. */

/* Conditions and columns of replay_job. */
#define ALIVE                                                                                      \
    "(heartbeat_at IS NOT NULL AND heartbeat_at > clock_timestamp() - " RP_REPLAY_DEAD_AFTER ")"
/* A job's state to people: one that nobody runs is not running. */
#define STATE                                                                                      \
    "CASE WHEN finished_at IS NOT NULL OR state IN ('paused', 'failed') THEN state"                \
    " WHEN " ALIVE " THEN 'running' WHEN detached THEN 'waiting' ELSE 'abandoned' END"

struct jobs {
    const struct cli_args *args;
    struct rp_config *config;
    struct rp_db *db;
};

/* Runs it with the configuration and the database; returns the exit code. */
int jobs_with(const struct cli_args *args, int (*run)(struct jobs *j));

/* The row that `sql` gives for the job that the arguments name, which is its only parameter. NULL:
 * there is none, why is printed, and *code is the exit code. */
PGresult *jobs_ask(struct jobs *j, const char *sql, int *code);

#endif
