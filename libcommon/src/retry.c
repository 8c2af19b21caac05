/* SPDX-License-Identifier: Apache-2.0 */
#include "retry.h"

#include <stdlib.h>

/* The first refusal decides for all_of; for any_of all must refuse, and the first is told. */
static const struct rp_retry_rule *refusal_of_terms(const struct rp_retry_rule *rule,
                                                    int32_t attempt, int64_t waited_ms)
{
    const struct rp_retry_rule *first = NULL;
    for (size_t i = 0; i < rule->n_terms; i++) {
        const struct rp_retry_rule *refusal = rp_retry_refusal(&rule->terms[i], attempt, waited_ms);
        if (first == NULL)
            first = refusal;
        if (refusal == NULL && rule->kind == RP_RETRY_ANY_OF)
            return NULL;
    }
    return first;
}

const struct rp_retry_rule *rp_retry_refusal(const struct rp_retry_rule *rule, int32_t attempt,
                                             int64_t waited_ms)
{
    switch (rule->kind) {
    case RP_RETRY_NEVER:
        return rule;
    case RP_RETRY_MAX_ATTEMPTS:
        return attempt >= rule->max_attempts ? rule : NULL;
    case RP_RETRY_DEADLINE:
        return waited_ms > rule->deadline_ms ? rule : NULL;
    case RP_RETRY_ALL_OF:
    case RP_RETRY_ANY_OF:
        return refusal_of_terms(rule, attempt, waited_ms);
    default:
        return NULL;
    }
}

void rp_retry_clear(struct rp_retry_rule *rule)
{
    for (size_t i = 0; i < rule->n_terms; i++)
        rp_retry_clear(&rule->terms[i]);
    free(rule->terms);
    rule->terms = NULL;
    rule->n_terms = 0;
}
