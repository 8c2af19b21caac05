/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint.h"
#include "reprise/task.h"
#include "sim.h"

static const int64_t lengths[SIM_TIERS] = {10, 30};
static const int64_t reaches[SIM_TIERS][4] = {{30, 12, 20, 45}, {60, 40, 90, 33}};

void sim_init(struct sim *s, uint64_t seed, bool trace)
{
    /* The records are written before they are read: no need to clear them for each history. */
    s->seed = seed;
    s->trace = trace;
    rp_rng_init(&s->rng, seed);
    s->draining = s->failed = false;
    s->why[0] = '\0';
    s->now_ms = 1000;
    s->clocks_agree = sim_pick(s, 3) > 0;
    s->n_tasks = s->n_commits = 0;
    s->n_tiers = 1 + sim_pick(s, SIM_TIERS);
    for (int i = 0; i < s->n_tiers; i++) {
        struct sim_tier *t = &s->tiers[i];
        t->length_ms = lengths[i];
        t->reach_ms = reaches[i][0];
        t->n = t->n_settled = t->below_low = t->generation = 0;
        t->start = t->end = sim_pick(s, 3) * 100;
        t->low = t->high = -1;
        t->metadata[0] = '\0';
    }
}

void sim_trace(struct sim *s, const char *fmt, ...)
{
    if (!s->trace)
        return;
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "  %5" PRId64 "  ", s->now_ms);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
    if (s->failed)
        return;
    s->failed = true;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(s->why, sizeof s->why, fmt, args);
    va_end(args);
    sim_trace(s, "BROKEN: %s", s->why);
}

int sim_pick(struct sim *s, int n)
{
    return (int)rp_rng_between(&s->rng, 0, n - 1);
}

static int tier_number(const struct sim *s, const struct sim_tier *t)
{
    return (int)(t - s->tiers);
}

static void append(struct sim *s, struct sim_tier *t, int task, int64_t due)
{
    if (t->n == SIM_MAX_RECORDS) {
        sim_fail(s, "the log grows without end");
        return;
    }
    struct sim_record *r = &t->records[t->n++];
    *r = (struct sim_record){t->end++, s->now_ms, due, task, false};
    int odd = sim_pick(s, 20);
    if (odd == 0)
        r->append_ms = -1;
    else if (odd <= 2)
        r->append_ms -= sim_pick(s, 4);
    sim_trace(s, "tier %d: append at %" PRId64 " task %d append %" PRId64 " due %" PRId64,
              tier_number(s, t), r->offset, task, r->append_ms, due);
}

static int64_t pick_due(struct sim *s, const struct sim_tier *t)
{
    static const int64_t absurd[] = {INT64_MAX, INT64_MIN + 1, -5, 0};
    switch (sim_pick(s, 12)) {
    case 0:
        return RP_NO_TIME;
    case 1:
        return sim_pick(s, 4) > 0 ? s->now_ms : absurd[sim_pick(s, 4)];
    case 2:
        return s->now_ms - sim_pick(s, 30);
    case 3:
        return s->now_ms + t->reach_ms - 2 + sim_pick(s, 5);
    case 4:
        return s->now_ms + t->reach_ms + sim_pick(s, 60);
    case 5:
    case 6:
        return (s->now_ms / 8 + 1) * 8; /* so that many are due at once */
    default:
        return s->now_ms + sim_pick(s, 2 * (int)t->length_ms);
    }
}

void sim_produce(struct sim *s)
{
    if (s->n_tasks == SIM_MAX_TASKS)
        return;
    struct sim_tier *t = &s->tiers[sim_pick(s, s->n_tiers)];
    int64_t due = pick_due(s, t);
    s->tasks[s->n_tasks] = (struct sim_task){due, 0};
    append(s, t, s->n_tasks++, due);
}

void sim_leave_gap(struct sim *s, struct sim_tier *t)
{
    t->end += 1 + sim_pick(s, 3);
    sim_trace(s, "tier %d: nothing below %" PRId64, tier_number(s, t), t->end);
}

void sim_change_reach(struct sim *s, struct sim_tier *t)
{
    t->reach_ms = reaches[tier_number(s, t)][sim_pick(s, 4)];
    sim_trace(s, "tier %d: reach %" PRId64, tier_number(s, t), t->reach_ms);
}

void sim_trim(struct sim *s, struct sim_tier *t)
{
    if (t->low > t->start)
        t->start = t->low;
    sim_trace(s, "tier %d: trimmed below %" PRId64, tier_number(s, t), t->start);
}

static struct sim_tier *tier_for(struct sim *s, int64_t left)
{
    return s->n_tiers > 1 && left >= s->tiers[1].length_ms ? &s->tiers[1] : &s->tiers[0];
}

static void settle(struct sim *s, struct sim_worker *w, const struct frontier_entry *e)
{
    struct sim_record *r = &w->tier->records[e->handle];
    struct sim_task *task = &s->tasks[r->task];
    int64_t clock = s->now_ms + w->skew_ms;
    if (r->settled)
        sim_fail(s, "offset %" PRId64 " is settled twice", r->offset);
    r->settled = true;
    w->tier->n_settled++;
    int64_t one_length = r->append_ms + w->tier->length_ms;
    int64_t earliest = e->lap || r->due_ms == RP_NO_TIME ? one_length : r->due_ms;
    if (clock < earliest)
        sim_fail(s, "offset %" PRId64 " is settled %" PRId64 " ms early", r->offset,
                 earliest - clock);
    bool absurd = r->due_ms == INT64_MAX; /* would take laps for ever */
    if (e->lap && !(absurd && s->draining))
        append(s, tier_for(s, r->due_ms - s->now_ms), r->task, r->due_ms);
    else if (task->delivered++ > 0)
        sim_fail(s, "task %d is delivered twice", r->task);
}

static void commit_offset(struct sim *s, struct sim_tier *t, int64_t low, const char *metadata)
{
    if (low < t->low)
        sim_fail(s, "low goes back from %" PRId64 " to %" PRId64, t->low, low);
    for (; t->below_low < t->n && t->records[t->below_low].offset < low; t->below_low++) {
        if (!t->records[t->below_low].settled)
            sim_fail(s, "offset %" PRId64 " is lost: low is %" PRId64,
                     t->records[t->below_low].offset, low);
    }
    struct checkpoint c;
    if (!checkpoint_read(rp_str(metadata), low, &c))
        sim_fail(s, "what is committed cannot be read: %" PRId64 " %s", low, metadata);
    else if (c.high < t->high)
        sim_fail(s, "high goes back from %" PRId64 " to %" PRId64, t->high, c.high);
    else
        t->high = c.high;
    t->low = low;
    (void)snprintf(t->metadata, sizeof t->metadata, "%s", metadata);
}

void sim_publish(struct sim *s, struct sim_worker *w, const struct sim_batch *b)
{
    sim_trace(s, "tier %d: commit of %d: %" PRId64 " %s", tier_number(s, w->tier), b->n_taken,
              b->low, b->metadata);
    s->n_commits++;
    for (int i = 0; i < b->n_taken; i++)
        settle(s, w, &b->taken[i]);
    commit_offset(s, w->tier, b->low, b->metadata);
}

int64_t sim_latest_settle_ms(const struct sim_tier *t, const struct sim_record *r)
{
    int64_t one_length = r->append_ms + t->length_ms;
    bool may_settle_when_due = r->due_ms != RP_NO_TIME && r->due_ms <= r->append_ms + 90;
    return may_settle_when_due && r->due_ms > one_length ? r->due_ms : one_length;
}

bool sim_all_settled(const struct sim *s)
{
    for (int i = 0; i < s->n_tiers; i++) {
        if (s->tiers[i].n_settled < s->tiers[i].n)
            return false;
    }
    return true;
}
