/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_JQ_PREVIEW_H
#define REPRISE_CLI_JQ_PREVIEW_H

#include "config.h"
#include "db.h"
#include "replay_options.h"

/* Prints what the options' jq program makes of these dead letters (ids, a column of the result), as
 * differences; or why it would refuse them. Nothing where there is no program. Returns an exit
 * code. */
int jq_preview(const struct rp_config *config, struct rp_db *db,
               const struct rp_replay_options *options, const PGresult *ids);

#endif
