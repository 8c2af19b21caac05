/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "sim.h"

#define MAX_STEPS       96
#define MAX_DRAIN_STEPS 2000

/* The owner of each tier, and the one before it, which may live on for a while. */
struct cast {
    struct sim *sim;
    struct sim_worker owners[SIM_TIERS], zombies[SIM_TIERS];
};

static void new_owner(struct cast *c, int i)
{
    struct sim *s = c->sim;
    worker_stop(&c->zombies[i]);
    if (c->owners[i].frontier != NULL && sim_pick(s, 3) == 0)
        c->zombies[i] = c->owners[i];
    else
        worker_stop(&c->owners[i]);
    if (sim_pick(s, 3) == 0)
        sim_change_reach(s, &s->tiers[i]);
    worker_start(&c->owners[i], s, &s->tiers[i]);
}

static void commit(struct cast *c, int i)
{
    static bool (*const ways[])(struct sim_worker *, bool) = {worker_commit, worker_send_off,
                                                              worker_send_off, worker_end};
    bool crash = sim_pick(c->sim, 6) == 0;
    (void)ways[sim_pick(c->sim, 4)](&c->owners[i], crash);
    if (c->owners[i].frontier == NULL)
        new_owner(c, i);
}

static void zombie_step(struct cast *c, int i)
{
    struct sim_worker *z = &c->zombies[i];
    if (z->frontier == NULL)
        return;
    worker_read(z, sim_pick(c->sim, 4));
    worker_take(z, sim_pick(c->sim, 4));
    if (sim_pick(c->sim, 2) == 0)
        (void)worker_commit(z, false);
}

static void step(struct cast *c)
{
    struct sim *s = c->sim;
    int i = sim_pick(s, s->n_tiers);
    switch (sim_pick(s, 28)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        sim_produce(s);
        break;
    case 6:
    case 7:
    case 8:
    case 9:
        worker_read(&c->owners[i], 1 + sim_pick(s, 4));
        break;
    case 10:
    case 11:
    case 12:
        s->now_ms += sim_pick(s, 8);
        break;
    case 13:
    case 14:
    case 15:
    case 16:
    case 17:
        worker_take(&c->owners[i], 1 + sim_pick(s, 4));
        break;
    case 18:
    case 19:
    case 20:
    case 21:
        commit(c, i);
        break;
    case 22:
        worker_abort(&c->owners[i]);
        break;
    case 23:
        new_owner(c, i);
        break;
    case 24:
        sim_trim(s, &s->tiers[i]);
        break;
    case 25:
        zombie_step(c, i);
        break;
    case 26:
        sim_leave_gap(s, &s->tiers[i]);
        break;
    default:
        worker_catch_up(&c->owners[i]);
        break;
    }
}

/* Lets the time go on to where the next record settles. */
static void wait_for_next(struct sim *s, const struct cast *c)
{
    int64_t next = INT64_MAX;
    struct frontier_entry e;
    for (int i = 0; i < s->n_tiers; i++) {
        if (frontier_peek(c->owners[i].frontier, &e) && e.settle_ms < next)
            next = e.settle_ms;
    }
    if (next != INT64_MAX && next > s->now_ms)
        s->now_ms = next;
}

static void drain(struct cast *c)
{
    struct sim *s = c->sim;
    s->draining = true;
    for (int i = 0; i < s->n_tiers; i++)
        new_owner(c, i);
    for (int steps = 0; !s->failed; steps++) {
        for (int i = 0; i < s->n_tiers; i++)
            worker_catch_up(&c->owners[i]);
        if (sim_all_settled(s))
            break;
        if (steps == MAX_DRAIN_STEPS)
            sim_fail(s, "records are never settled");
        wait_for_next(s, c);
    }
}

static void check_end(struct cast *c)
{
    struct sim *s = c->sim;
    for (int i = 0; i < s->n_tasks && !s->failed; i++) {
        if (s->tasks[i].delivered != 1)
            sim_fail(s, "task %d is delivered %d times", i, s->tasks[i].delivered);
    }
    for (int i = 0; i < s->n_tiers && !s->failed; i++) {
        struct sim_tier *t = &s->tiers[i];
        worker_read(&c->owners[i], 1);
        (void)worker_commit(&c->owners[i], false);
        if (t->n > 0 && t->below_low != t->n)
            sim_fail(s, "low is %" PRId64 " and the log ends at %" PRId64, t->low, t->end);
        if (frontier_held(c->owners[i].frontier) > 0)
            sim_fail(s, "records are held and all are settled");
    }
}

bool history_run(uint64_t seed, bool trace, struct sim *out)
{
    struct cast c = {.sim = out};
    sim_init(out, seed, trace);
    for (int i = 0; i < out->n_tiers; i++)
        worker_start(&c.owners[i], out, &out->tiers[i]);
    int n_steps = 4 + sim_pick(out, MAX_STEPS);
    for (int i = 0; i < n_steps && !out->failed; i++)
        step(&c);
    if (!out->failed)
        drain(&c);
    check_end(&c);
    for (int i = 0; i < out->n_tiers; i++) {
        worker_stop(&c.owners[i]);
        worker_stop(&c.zombies[i]);
    }
    return !out->failed;
}
