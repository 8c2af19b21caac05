/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_REPLAY_PREVIEW_H
#define REPRISE_CLI_REPLAY_PREVIEW_H

#include "cli.h"
#include "config.h"
#include "replay_plan.h"

/* Prints what a replay would do: how many, which groups, how large, how long it takes, what would
 * be held back or refused and why, and samples. Changes nothing. *out_total: so many would be
 * claimed. Returns an exit code. */
int replay_preview(const struct rp_config *config, struct rp_db *db,
                   const struct rp_replay_request *request, int64_t *out_total);

#endif
