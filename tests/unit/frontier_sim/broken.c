/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "run.h"

/* Linked with a frontier that was broken on purpose: succeeds when the simulation notices. */
int main(void)
{
    static struct sim_run run;
    sim_run(&run);
    if (run.held == run.histories) {
        printf("not caught in %" PRIu64 " histories\n", run.histories);
        return 1;
    }
    printf("caught in history %" PRIu64 ": %s\n", run.held + 1, run.last.why);
    return 0;
}
