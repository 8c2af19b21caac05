/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 0);
}

void sim_run(struct sim_run *run)
{
    struct rp_rng rng;
    rp_rng_init_random(&rng);
    bool trace = getenv("REPRISE_SIM_TRACE") != NULL;
    run->first_seed = from_env("REPRISE_SIM_SEED", rp_rng_next(&rng) >> 16);
    run->histories = from_env("REPRISE_SIM_HISTORIES", 1000000);
    run->held = run->records = run->commits = 0;
    printf("first seed %" PRIu64 "\n", run->first_seed);
    for (; run->held < run->histories; run->held++) {
        if (!history_run(run->first_seed + run->held, trace, &run->last))
            return;
        for (int i = 0; i < run->last.n_tiers; i++)
            run->records += (uint64_t)run->last.tiers[i].n;
        run->commits += (uint64_t)run->last.n_commits;
    }
}
