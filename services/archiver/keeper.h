/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEPER_H
#define KEEPER_H

#include "config.h"
#include "metrics_archiver.h"

/* What is done beside the archiving: retention and statistics. Each has a thread with a
 * connection of its own, so that neither waits for the other, and archiving for none. One a
 * process; those of several processes agree in the database on who does what. */
struct keeper;

/* All are borrowed. */
RP_NODISCARD int keeper_start(const struct rp_config *config, struct metrics_archiver *metrics,
                              struct keeper **out, struct rp_error *err);
/* Waits until what is in hand is done, or is given up: a batch, or 5 s of a statement. NULL is
 * fine. `begins_again`: another one comes, which knows nothing of what this one has counted. */
void keeper_stop(struct keeper *k, bool begins_again);

#endif
