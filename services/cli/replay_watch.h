/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_REPLAY_WATCH_H
#define REPRISE_CLI_REPLAY_WATCH_H

#include "cli.h"
#include "config.h"
#include "db.h"

/* The connection `lost` went while the job was being put on record: asks on a new one, for some
 * seconds, since the server may have been about to. Not 0: it was not found; where the connection
 * had gone indeed, what to do should it come up is printed. */
int replay_find_planned(const struct rp_config *config, const struct rp_db *lost, const char *job,
                        int64_t *total);

/* Runs a job here and shows how it goes: a bar on a terminal, a line now and then elsewhere. Ctrl-C
 * pauses it. Prints what came of it; returns the exit code. */
int replay_run_here(const struct rp_config *config, const char *job);

/* Carries out what was wished of a job that nobody runs: marks what it sent, then cancels or pauses
 * it. CLI_NOTHING: somebody does run it. CLI_PARTLY: it cannot be done now, which is printed. */
int replay_settle_here(const struct rp_config *config, const char *job);

/* Prints why tasks were refused, and how many for each reason. */
void replay_print_refusals(FILE *out, struct rp_db *db, const char *job);

#endif
