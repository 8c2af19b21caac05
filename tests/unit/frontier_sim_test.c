/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>

#include "clock.h"
#include "frontier_sim/run.h"

static void a_million_histories_keep_every_promise(void **state)
{
    (void)state;
    static struct sim_run run;
    int64_t start = rp_mono_ms();
    sim_run(&run);
    printf("%" PRIu64 " histories, %" PRIu64 " records, %" PRIu64 " commits in %" PRId64 " ms\n",
           run.held, run.records, run.commits, rp_mono_ms() - start);
    if (run.held < run.histories) {
        uint64_t seed = run.first_seed + run.held;
        (void)history_run(seed, true, &run.last);
        fail_msg("%s\nreplay: REPRISE_SIM_SEED=%" PRIu64 " REPRISE_SIM_HISTORIES=1", run.last.why,
                 seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_histories_keep_every_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
