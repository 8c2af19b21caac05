/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_STORY_H
#define REPRISE_CLI_STORY_H

#include "config.h"
#include "db.h"
#include "replay_message.h"

/* What became of a task: when it failed, who decided what and why, what was done about it since,
 * and what it would take to send it again. */

/* The columns that story_print reads beside those of the view `archive` AS d. */
extern const char story_columns[];

/* Who asks the brokers of targets, and is not asked again at once where they are silent; made when
 * it is wanted. Begin with {0}. */
struct story_targets {
    rd_kafka_t *client;
    struct rp_replay_maker *maker;
    struct rp_replay_options options;
};
void story_targets_clear(struct story_targets *targets);

/* Prints it of row `row` of the result. What cannot be asked is left out, and said. */
void story_print(const struct rp_config *config, struct rp_db *db, const PGresult *result, int row,
                 struct story_targets *targets);

#endif
