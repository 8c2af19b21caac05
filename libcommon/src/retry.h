/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_RETRY_H
#define REPRISE_RETRY_H

#include <stddef.h>
#include <stdint.h>

/* How often a task is executed. In the order of the configuration's words and fields. */
enum rp_retry_kind {
    RP_RETRY_NEVER,
    RP_RETRY_ALWAYS,
    RP_RETRY_MAX_ATTEMPTS,
    RP_RETRY_DEADLINE,
    RP_RETRY_ALL_OF,
    RP_RETRY_ANY_OF,
};

struct rp_retry_rule {
    int kind;            /* enum rp_retry_kind; -1: not stated */
    int max_attempts;    /* executions in all, the first one included */
    int64_t deadline_ms; /* from the first failure to the due time of a retry */
    struct rp_retry_rule *terms;
    size_t n_terms;
};

/* Whether execution number `attempt` may be followed by one that is due `waited_ms` after the first
 * failure: NULL if so, else the part of the rule that refuses (never, max_attempts or deadline). */
const struct rp_retry_rule *rp_retry_refusal(const struct rp_retry_rule *rule, int32_t attempt,
                                             int64_t waited_ms);

void rp_retry_clear(struct rp_retry_rule *rule);

#endif
