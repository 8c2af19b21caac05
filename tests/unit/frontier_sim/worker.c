/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

static int64_t clock_of(const struct sim_worker *w)
{
    return w->sim->now_ms + w->skew_ms;
}

static int number_of(const struct sim_worker *w)
{
    return (int)(w->tier - w->sim->tiers);
}

void worker_start(struct sim_worker *w, struct sim *s, struct sim_tier *t)
{
    static const int64_t skews[] = {0, 3, -3, 100};
    bool lost;
    *w = (struct sim_worker){.sim = s, .tier = t, .generation = ++t->generation};
    if (!s->clocks_agree && !s->draining)
        w->skew_ms = skews[sim_pick(s, 4)];
    w->lead_ms = sim_pick(s, 3);
    if (frontier_new(t->length_ms, t->reach_ms, t->low, rp_str(t->metadata), &lost, &w->frontier,
                     NULL) != 0)
        sim_fail(s, "no memory");
    else if (lost)
        sim_fail(s, "state is lost: low %" PRId64 " %s", t->low, t->metadata);
    while (w->next < t->n &&
           (t->records[w->next].offset < t->low || t->records[w->next].offset < t->start))
        w->next++;
    sim_trace(s,
              "tier %d: an owner with reach %" PRId64 " skew %" PRId64 " begins at %" PRId64 " %s",
              number_of(w), t->reach_ms, w->skew_ms, t->low, t->metadata);
}

static void released(void *opaque, uint64_t handle)
{
    (void)handle;
    ++*(size_t *)opaque;
}

void worker_stop(struct sim_worker *w)
{
    if (w->frontier == NULL)
        return;
    size_t n = 0;
    size_t held = frontier_held(w->frontier) + frontier_in_flight(w->frontier);
    frontier_free(w->frontier, released, &n);
    w->frontier = NULL;
    if (n != held)
        sim_fail(w->sim, "%zu handles of %zu are given back", n, held);
    sim_trace(w->sim, "tier %d: owner %d is gone", number_of(w), w->generation);
}

/* Whether a record may be held: this owner must take what is not settled, and nothing else. A
 * fenced one cannot know what its successor settles. */
static void check_held(struct sim_worker *w, const struct sim_record *r, bool held)
{
    if (w->generation != w->tier->generation || held == !r->settled)
        return;
    if (held)
        sim_fail(w->sim, "offset %" PRId64 " is held and was settled", r->offset);
    else
        sim_fail(w->sim, "offset %" PRId64 " is dropped and was not settled", r->offset);
}

void worker_read(struct sim_worker *w, int n)
{
    struct sim_tier *t = w->tier;
    bool held;
    for (; n > 0 && w->next < t->n; n--) {
        const struct sim_record *r = &t->records[w->next];
        if (frontier_add(w->frontier, r->offset, r->append_ms, r->due_ms, (uint64_t)w->next, &held,
                         NULL) != 0)
            sim_fail(w->sim, "no memory");
        sim_trace(w->sim, "tier %d: read %" PRId64 "%s", number_of(w), r->offset,
                  held ? "" : ", settled");
        check_held(w, r, held);
        w->next++;
    }
    if (n > 0 && t->end > frontier_high(w->frontier) && t->end > t->start)
        frontier_read_to(w->frontier, t->end);
}

void worker_take(struct sim_worker *w, int n)
{
    struct frontier_entry e;
    while (n-- > 0 && w->batch.n_taken < SIM_MAX_TAKEN && frontier_peek(w->frontier, &e) &&
           e.settle_ms <= clock_of(w) + w->lead_ms) {
        frontier_take(w->frontier);
        sim_trace(w->sim, "tier %d: take %" PRId64 " settles at %" PRId64 "%s", number_of(w),
                  e.offset, e.settle_ms, e.lap ? ", lap" : "");
        if (w->tier->records[e.handle].offset != e.offset)
            sim_fail(w->sim, "the handle of offset %" PRId64 " is another's", e.offset);
        w->batch.taken[w->batch.n_taken++] = e;
    }
}

static void wait_until_due(struct sim_worker *w, const struct sim_batch *b)
{
    for (int i = 0; i < b->n_taken; i++) {
        if (b->taken[i].settle_ms > clock_of(w))
            w->sim->now_ms += b->taken[i].settle_ms - clock_of(w);
    }
}

static bool is_fenced(struct sim_worker *w)
{
    if (w->generation == w->tier->generation)
        return false;
    sim_trace(w->sim, "tier %d: owner %d is fenced", number_of(w), w->generation);
    worker_stop(w);
    return true;
}

static void state_of(struct sim_worker *w, struct sim_batch *b)
{
    frontier_state(w->frontier, &b->low, b->metadata);
    if (frontier_low(w->frontier) > b->low || b->low > frontier_high(w->frontier))
        sim_fail(w->sim, "low %" PRId64 " of the state is out of order", b->low);
}

bool worker_end(struct sim_worker *w, bool crash)
{
    if (!w->under_way)
        return true;
    wait_until_due(w, &w->sent_off);
    if (is_fenced(w))
        return false;
    if (!w->sim->draining)
        worker_read(w, sim_pick(w->sim, 3)); /* while the transaction is under way */
    if (w->sent_off.low >= 0)
        sim_publish(w->sim, w, &w->sent_off);
    if (crash) {
        worker_stop(w);
        return true;
    }
    frontier_settled(w->frontier);
    w->under_way = false;
    return true;
}

bool worker_send_off(struct sim_worker *w, bool crash)
{
    state_of(w, &w->batch);
    if (is_fenced(w))
        return false;
    if (!worker_end(w, crash))
        return false;
    if (w->frontier == NULL)
        return true;
    sim_trace(w->sim, "tier %d: send off %d", number_of(w), w->batch.n_taken);
    frontier_send_off(w->frontier);
    w->sent_off = w->batch;
    w->under_way = true;
    w->batch.n_taken = 0;
    return true;
}

bool worker_commit(struct sim_worker *w, bool crash)
{
    if (!worker_send_off(w, false))
        return false;
    return worker_end(w, crash);
}

void worker_abort(struct sim_worker *w)
{
    sim_trace(w->sim, "tier %d: abort of %d", number_of(w),
              w->batch.n_taken + (w->under_way ? w->sent_off.n_taken : 0));
    frontier_untake(w->frontier);
    w->batch.n_taken = 0;
    w->under_way = false;
}

/* What keeps high - low bounded: with all that is due settled, what remains was appended no longer
 * ago than a reach. */
static void check_nothing_is_overdue(struct sim_worker *w)
{
    const struct sim_tier *t = w->tier;
    if (!w->sim->clocks_agree)
        return;
    for (int i = t->below_low; i < t->n; i++) {
        if (!t->records[i].settled && sim_latest_settle_ms(t, &t->records[i]) <= w->sim->now_ms)
            sim_fail(w->sim, "offset %" PRId64 " is overdue", t->records[i].offset);
    }
}

void worker_catch_up(struct sim_worker *w)
{
    struct frontier_entry e;
    int before = w->tier->n;
    worker_read(w, SIM_MAX_RECORDS);
    do {
        worker_take(w, SIM_MAX_TAKEN);
        if (!worker_commit(w, false))
            return;
    } while (frontier_peek(w->frontier, &e) && e.settle_ms <= clock_of(w) && !w->sim->failed);
    if (w->tier->n == before)
        check_nothing_is_overdue(w);
}
