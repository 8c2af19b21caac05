/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_GUARD_H
#define REPRISE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* A bounded memory of recent events. A handler that does not hand back the headers of a
 * re-invocation reports attempt 1 for ever, each time as the first failure, also where it was the
 * last try by the fallback handler; the guard goes on from what it knows. An exact repeat of an
 * event is found out. It may forget (the oldest events go first), and then judges nothing.
 *
 * It remembers which record taught it what, so that a record which is read again after an aborted
 * transaction gets the answer it got before. Not thread-safe. */
struct guard;

enum guard_verdict {
    GUARD_NEW,    /* go on with the attempt that the event states */
    GUARD_LOOP,   /* the attempt was not counted on: go on with the guard's */
    GUARD_REPEAT, /* the same event again: drop it */
};

struct guard_event {
    struct rp_bytes task_id;
    struct rp_bytes replay_id; /* a replay begins a new life; null: none */
    int32_t attempt;
    int64_t failed_at_ms;
    int32_t partition; /* the record that brought it */
    int64_t offset;
    int64_t append_ms;          /* of that record */
    int64_t first_failed_at_ms; /* as the event says, like the next one */
    bool was_fallback;
    bool handed_back; /* the handler handed the headers back, so that they say all of it */
};

/* What to go on with. */
struct guard_life {
    int32_t attempt;
    int64_t first_failed_at_ms; /* or up to 12 days before the failure */
    bool was_fallback;
};

/* Remembers the last `capacity` events that were let through, 80 to 96 bytes each, and of one task
 * its last three: a task that fails often takes more places than one. To keep a task of which
 * repeats come takes places, too, each `capacity` / 2 events at most. Of events whose ids were made
 * to share a place in its index it may remember fewer. By `clock_skew_ms` the brokers' clock, which
 * says when a record was appended, may differ from the one that says when a task runs again. */
RP_NODISCARD int guard_new(size_t capacity, int64_t clock_skew_ms, struct guard **out,
                           struct rp_error *err);
void guard_free(struct guard *g);

/* *out is not set for a repeat. */
enum guard_verdict guard_judge(struct guard *g, const struct guard_event *event,
                               struct guard_life *out);

/* The event that was judged last was let through, and its task runs again at `due_ms` or later,
 * perhaps by the fallback handler. Not said: it does not, so that whatever looks the same is a
 * repeat. Said of a record that was read before, too: the earlier time counts, since what was sent
 * then may be out. */
void guard_runs_again(struct guard *g, int64_t due_ms, bool as_fallback);
/* It does not run again after all, whatever was said of it. */
void guard_runs_no_more(struct guard *g);

/* Learns of an event that was let through before, by whomever; events of a partition come in order.
 * What is known of later ones stays. */
void guard_recall(struct guard *g, const struct guard_event *event);

/* The partition's log was cut at `offset`: what comes from there on are other records. The events
 * of those that were there stay known up to `answered`; the others may come again as new. */
void guard_log_cut(struct guard *g, int32_t partition, int64_t offset, int64_t answered);

#endif
