/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_JQ_PREVIEW_H
#define REPRISE_CLI_JQ_PREVIEW_H

#include "config.h"
#include "db.h"
#include "replay_message.h"

/* Prints what the options' jq program makes of these dead letters, as differences, or why they
 * would be refused: by it, or where it sends them by `maker`. `letters`: their ids, and their
 * tasks' types. Nothing where there is no program. Returns an exit code. */
int jq_preview(const struct rp_config *config, struct rp_db *db,
               const struct rp_replay_options *options, struct rp_replay_maker *maker,
               const PGresult *letters);

#endif
