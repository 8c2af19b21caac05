/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_DLQ_ACT_H
#define REPRISE_CLI_DLQ_ACT_H

#include "dlq.h"

/* What comes before something is done to many dead letters: a filter that says which, a reason, a
 * look at them, and a question. */
struct dlq_act {
    int64_t count;
    char now[64]; /* the database's time before they were counted: what came later was not seen */
    char *filter; /* as text */
    const char *actor, *reason;
    const char *file; /* of --export, which is not written twice; NULL: there is none */
};

struct dlq_act_kind {
    const char *verb; /* as in "discard 3 dead letters?" */
    const char *only; /* put to the filter: an expression */
    bool for_good;    /* also says how many nobody has seen to yet */
};

/* Prints what there is, and asks. CLI_OK to go on; else an exit code, and *done when nothing is
 * wrong (--dry-run). Ends with dlq_act_clear in any case. */
int dlq_act_begin(struct dlq *d, const struct dlq_act_kind *kind, struct dlq_act *out, bool *done);
void dlq_act_clear(struct dlq_act *a);

/* How it ended: prints "discarded 3 dead letters", and the rest where it is not all. */
int dlq_act_end(const struct dlq_act *a, const char *did, int64_t n, int failed,
                const struct rp_error *err);

#endif
