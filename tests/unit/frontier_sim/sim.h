/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SIM_H
#define REPRISE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "frontier.h"
#include "reprise/rng.h"

/* A simulated pipeline of one or two tiers, a partition each: logs, offset commits, a clock, and
 * the workers that use a frontier. A history is a random run of it. The world knows which records
 * are settled, since it publishes a transaction's effects and its offset commit in one step; the
 * frontier knows only what Kafka would tell it. All that contradicts the promises fails the
 * history. */

#define SIM_TIERS       2
#define SIM_MAX_RECORDS 512
#define SIM_MAX_TASKS   64
#define SIM_MAX_TAKEN   16

struct sim_record {
    int64_t offset, append_ms, due_ms;
    int task;
    bool settled;
};

struct sim_tier {
    int64_t length_ms, reach_ms; /* the reach as the configuration has it now */
    struct sim_record records[SIM_MAX_RECORDS];
    int n, n_settled;
    int64_t start, end; /* trimmed below `start`; the next append is at or after `end` */
    int64_t low, high;  /* committed; -1: none */
    char metadata[FRONTIER_METADATA_MAX];
    int below_low;  /* records below the committed offset */
    int generation; /* of the owner; an older one is fenced */
};

struct sim_task {
    int64_t due_ms;
    int delivered;
};

struct sim {
    uint64_t seed;
    struct rp_rng rng;
    bool trace;
    bool draining; /* no more faults; only what is there is settled */
    int64_t now_ms;
    bool clocks_agree; /* in this history */
    int n_tiers;
    struct sim_tier tiers[SIM_TIERS];
    struct sim_task tasks[SIM_MAX_TASKS];
    int n_tasks, n_commits;
    bool failed;
    char why[256];
};

/* What one transaction settles. */
struct sim_batch {
    struct frontier_entry taken[SIM_MAX_TAKEN];
    int n_taken;
    int64_t low; /* the state that it commits; -1: none */
    char metadata[FRONTIER_METADATA_MAX];
};

/* One owner of one partition. After a rebalance an old one may live on and not know. */
struct sim_worker {
    struct sim *sim;
    struct sim_tier *tier;
    struct frontier *frontier; /* NULL: it does not run */
    int generation;
    int64_t skew_ms; /* of its clock */
    int64_t lead_ms; /* it takes that much ahead of the due time, and commits when due */
    int next;        /* the next record to read */
    struct sim_batch batch, sent_off;
    bool under_way; /* there is one that was sent off */
};

/* world.c */
void sim_init(struct sim *s, uint64_t seed, bool trace);
RP_PRINTF(2, 3) void sim_trace(struct sim *s, const char *fmt, ...);
/* Keeps the first reason. */
RP_PRINTF(2, 3) void sim_fail(struct sim *s, const char *fmt, ...);
int sim_pick(struct sim *s, int n); /* 0 to n - 1 */
void sim_produce(struct sim *s);
/* Some offsets are taken by aborted records and by the markers of transactions. */
void sim_leave_gap(struct sim *s, struct sim_tier *t);
void sim_change_reach(struct sim *s, struct sim_tier *t);
void sim_trim(struct sim *s, struct sim_tier *t);
/* A transaction: all of `b`, which `w` took, is settled, and the offset is committed. */
void sim_publish(struct sim *s, struct sim_worker *w, const struct sim_batch *b);
/* The latest time at which a record settles under any reach that was ever configured. */
int64_t sim_latest_settle_ms(const struct sim_tier *t, const struct sim_record *r);
bool sim_all_settled(const struct sim *s);

/* worker.c */
void worker_start(struct sim_worker *w, struct sim *s, struct sim_tier *t);
void worker_stop(struct sim_worker *w); /* at once: a crash */
void worker_read(struct sim_worker *w, int n);
void worker_take(struct sim_worker *w, int n);
/* Adds the state to the transaction of what was taken, and commits the one before, if it is under
 * way: more may be taken beside it now. False: it was fenced, and stopped. With `crash`, it stops
 * before it knows what came of that one. */
bool worker_send_off(struct sim_worker *w, bool crash);
/* Commits what is under way. As above. */
bool worker_end(struct sim_worker *w, bool crash);
/* Both. */
bool worker_commit(struct sim_worker *w, bool crash);
void worker_abort(struct sim_worker *w);
/* Reads to the end of the log, and settles all that is due. */
void worker_catch_up(struct sim_worker *w);

/* history.c: runs one; false, with the reason in `out`, where it breaks a promise. */
bool history_run(uint64_t seed, bool trace, struct sim *out);

#endif
