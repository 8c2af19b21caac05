/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SIM_RUN_H
#define REPRISE_SIM_RUN_H

#include "sim.h"

/* Many histories, each with a seed of its own, counted on from the first. The environment may say
 * what to run: REPRISE_SIM_SEED (else a random one), REPRISE_SIM_HISTORIES (else a million) and
 * REPRISE_SIM_TRACE (any value) to see each step on stderr. */
struct sim_run {
    uint64_t first_seed, histories; /* to run */
    uint64_t held;                  /* how many kept every promise, before the first that did not */
    uint64_t records, commits;      /* in those */
    struct sim last;                /* the one that did not */
};

void sim_run(struct sim_run *run);

#endif
