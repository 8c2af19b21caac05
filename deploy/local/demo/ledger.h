/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_LEDGER_H
#define DEMO_LEDGER_H

#include "lateness.h"
#include "workload.h"

/* What happened to each of the demo's tasks, told by those who saw it: the handlers, a reader of
 * the tiers, and the dead_letter table. Tasks are known by number.
 * Thread-safe. */
struct ledger;

#define LEDGER_TIERS 16
#define LEDGER_SOON  10 /* seconds ahead that are counted one by one */

/* Makes `total` tasks, in the shares of their kinds; without `limits`, none of those that need a
 * broker which refuses large records. NULL when there is no memory. */
struct ledger *ledger_new(int total, bool limits);
void ledger_free(struct ledger *l);

/* How many tasks there are: about `total`. */
int ledger_size(const struct ledger *l);
const struct kind *ledger_kind(const struct ledger *l, int task);
/* The task's number among those of its kind. */
int ledger_nth(const struct ledger *l, int task);

/* What the ids of this run's tasks, and of no others, begin with. */
const char *ledger_prefix(const struct ledger *l);
#define LEDGER_ID_SIZE 40
void ledger_id(const struct ledger *l, int task, char out[LEDGER_ID_SIZE]);
/* The task whose id is (or is in) `text`; -1: somebody else's. */
int ledger_find(const struct ledger *l, struct rp_bytes text);

/* What happened. */
void ledger_sent(struct ledger *l, int task);
void ledger_delivered(struct ledger *l, int task, int32_t attempt, int64_t due_ms,
                      int64_t received_us);
void ledger_executed(struct ledger *l, int task, int32_t attempt, bool succeeded);
void ledger_waits(struct ledger *l, int task, int32_t attempt, int tier, int64_t due_ms);
void ledger_died(struct ledger *l, int task, const char *reason);

/* How many tasks have no end yet. */
int ledger_unfinished(struct ledger *l);

struct ledger_counts {
    int tasks, sent;
    int succeeded_first, succeeded_later, dead;
    int open;    /* sent, and neither succeeded nor dead */
    int waiting; /* of the open ones: in a tier */
    int in_tier[LEDGER_TIERS];
    int due_in[LEDGER_SOON + 1]; /* by second: 0 to 1 s, 1 to 2 s, ...; later ones at the end */
    int64_t failures;            /* events of failure, of handlers and producers */
    int64_t reinvocations;
    int64_t dead_letters; /* rows */
    int64_t doubled;      /* deliveries of one attempt beyond the first, rows beyond the first */
    int64_t early;
    double p50_ms, p99_ms, max_ms;
};
void ledger_count(struct ledger *l, int64_t now_ms, struct ledger_counts *out);

/* How the tasks of a kind ended. */
struct ledger_ending {
    int tasks;
    int as_expected;
    int lost;          /* no end at all */
    int other;         /* an end, but not the one that was expected */
    int most_attempts; /* executions that the longest took */
};
void ledger_ending(struct ledger *l, const struct kind *kind, struct ledger_ending *out);

#endif
