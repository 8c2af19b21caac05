/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_POLICY_H
#define REPRISE_POLICY_H

#include "reprise/bytes.h"
#include "reprise/rng.h"
#include "reprise/task.h"

/* The policies of a configuration: categories, classification rules, and who retries what, how
 * often and after how long. Immutable once loaded, so that any number of threads may read them;
 * reference-counted, so that a reload can replace them under a running worker. */
struct rp_policies;
struct rp_policy;

/* Another reference to the same policies. Thread-safe. */
struct rp_policies *rp_policies_ref(struct rp_policies *p);
/* Drops a reference; the last one frees. NULL is fine. Thread-safe. */
void rp_policies_unref(struct rp_policies *p);

struct rp_category {
    const char *name; /* as in the configuration and in the dead letter: "TIMEOUT" */
    bool persistent;  /* not retried unless a policy says otherwise */
};

/* Classifies an error: what the event itself says, else rules over the class (exact or glob), then
 * over its causes' classes, outermost first, then over the message. Looks at no more than 32
 * causes, 512 bytes of a class and 4 KiB of the message. Never NULL: UNKNOWN at the least. Valid as
 * long as the policies. */
const struct rp_category *rp_classify(const struct rp_policies *p,
                                      const struct rp_failed_task *task);

/* The policy of a task type: exact, then the most specific glob, then `default`. Never NULL. */
const struct rp_policy *rp_policies_match(const struct rp_policies *p, struct rp_bytes task_type);

const char *rp_policy_name(const struct rp_policy *policy);
/* The topic that the policy re-invokes where the event names none; NULL where it names none. */
const char *rp_policy_target(const struct rp_policy *policy);
/* The topic of the last try, by the policy's fallback handler; NULL where there is none. */
const char *rp_policy_fallback(const struct rp_policy *policy);

/* What the decision is made from, beside the policy and the category. */
struct rp_failure {
    const struct rp_failed_task *task;
    int32_t attempt;            /* executions so far, as the router counts them; >= 1 */
    int64_t first_failed_at_ms; /* the deadline counts from here */
    int64_t failed_at_ms;       /* the delay counts from here; already made safe against skew */
    int64_t now_ms;             /* the decision's own moment */
    bool was_fallback;          /* it was the fallback handler that failed */
};

enum rp_verdict {
    RP_RETRY,    /* at due_ms */
    RP_FALLBACK, /* at once, by the fallback handler; the next failure is a dead letter */
    RP_DEAD,     /* for `reason` */
};

struct rp_decision {
    enum rp_verdict verdict;
    int reason;       /* enum rp_reason, for RP_FALLBACK and RP_DEAD */
    int64_t delay_ms; /* for RP_RETRY: what was drawn */
    int64_t due_ms;   /* for RP_RETRY: failed_at + delay, never before now */
    char why[160];    /* for people: which rule decided */
};

/* Decides what becomes of a failed execution. Pure but for `rng`: thread-safe when each thread has
 * its own. */
void rp_decide(const struct rp_policy *policy, const struct rp_category *category,
               const struct rp_failure *failure, struct rp_rng *rng, struct rp_decision *out);

#endif
