/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_EXPLAIN_H
#define REPRISE_CLI_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "backoff.h"
#include "config.h"
#include "policies.h"

/* What a policy comes to: each execution that it allows an error of one kind, with the wait before
 * it. The executions themselves are taken to need no time. */
#define EXPLAIN_MAX_ROWS 100
/* Where a policy has no end, this is far enough to see. */
#define EXPLAIN_MAX_EXECUTIONS 10000

struct explain_row {
    int execution;
    struct rp_delay_range delay, total; /* before it; from the first failure */
    bool perhaps; /* only where the delays drawn are short enough for the deadline */
};

struct explain_course {
    struct explain_row rows[EXPLAIN_MAX_ROWS]; /* the first ones */
    int n_rows;
    int executions; /* in all, at most */
    struct rp_delay_range total;
    const char *end; /* the reason of the dead letter; NULL: no end in sight */
};

void explain_course(const struct rp_policy_plan *plan, struct explain_course *out);

/* How many times a tier is passed through until a delay is over: 0 when there is none. */
int64_t explain_laps(const struct rp_config *config, int64_t delay_ms);

/* "1.1s", "1m 30s": rounded to what matters. */
#define EXPLAIN_TIME_TEXT 32
char *explain_time(int64_t ms, char out[EXPLAIN_TIME_TEXT]);

/* Prints which policy applies to a task and why, and its course. `success`: the chance of one
 * execution, below 0: not given. */
void explain_print(FILE *out, const struct rp_config *config, const struct rp_failed_task *task,
                   double success);

#endif
