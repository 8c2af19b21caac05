/* SPDX-License-Identifier: Apache-2.0 */
#include "frontier.h"

#include <assert.h>
#include <stdlib.h>

#include "checkpoint.h"
#include "heap.h"
#include "reprise/task.h"
#include "slots.h"

#define MIN_SLOTS 16

/* Each slot in use stands in exactly one of `heap`, `late` and `in_flight`. */
struct frontier {
    int64_t length_ms, reach_ms;
    int64_t next; /* the next offset to read; -1: wherever the log begins */
    bool has_read;

    /* `high` is as it was recovered: nothing is given out until all below it was read again.
     * `settled` counts what is in flight. */
    struct checkpoint at;
    struct settle_key settled_before; /* `settled` without what is in flight, */
    struct settle_key sent_off;       /* and with that of it which was sent off: */
    size_t n_sent_off;                /* the first so many of `in_flight` */

    struct slots slots;
    uint32_t first_held;         /* the first in offset order that is not in flight */
    struct heap heap;            /* those after `settled` */
    struct slot_queue late;      /* those at or before it, in offset order */
    struct slot_queue in_flight; /* in the order they were taken */
};

static bool slot_before(const void *opaque, uint32_t a, uint32_t b)
{
    const struct slots *s = opaque;
    return settle_key_before(s->at[a].key, s->at[b].key);
}

int frontier_new(int64_t length_ms, int64_t reach_ms, int64_t low, struct rp_bytes metadata,
                 bool *out_lost_state, struct frontier **out, struct rp_error *err)
{
    struct frontier *f = calloc(1, sizeof *f);
    if (f == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a frontier");
    f->length_ms = length_ms;
    f->reach_ms = reach_ms;
    f->next = low < 0 ? -1 : low;
    *out_lost_state = low >= 0 && !checkpoint_read(metadata, low, &f->at);
    if (low < 0 || *out_lost_state)
        checkpoint_init(&f->at, f->next, reach_ms);
    else
        checkpoint_change_reach(&f->at, reach_ms);
    f->settled_before = f->at.settled;
    f->first_held = NO_SLOT;
    slots_init(&f->slots);
    heap_init(&f->heap, slot_before, &f->slots);
    *out = f;
    return 0;
}

void frontier_free(struct frontier *f, frontier_release_fn *release, void *opaque)
{
    if (f == NULL)
        return;
    for (uint32_t id = f->slots.first; id != NO_SLOT; id = f->slots.at[id].next)
        release(opaque, f->slots.at[id].handle);
    heap_clear(&f->heap);
    slots_clear(&f->slots);
    free(f);
}

static int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b < 0 ? INT64_MIN : INT64_MAX;
}

/* Depends on nothing but the record, the tier, and the reach that the checkpoint names for it: so
 * every owner of the partition comes to the same. */
static int64_t settle_ms(const struct frontier *f, int64_t offset, int64_t append_ms,
                         int64_t due_ms, bool *out_lap)
{
    int64_t one_length = add_saturated(append_ms, f->length_ms);
    *out_lap = false;
    if (due_ms == RP_NO_TIME)
        return one_length;
    if (due_ms <= add_saturated(append_ms, checkpoint_reach(&f->at, offset)))
        return due_ms;
    *out_lap = true;
    return one_length;
}

/* Puts a slot that is not in flight where it belongs by `settled`. */
static void place(struct frontier *f, uint32_t id)
{
    if (settle_key_before(f->at.settled, f->slots.at[id].key))
        heap_push(&f->heap, id);
    else
        slot_queue_put(&f->slots, &f->late, id);
}

/* Where all below the first late record are settled, there is nothing that `settled` could tell
 * apart, and it may begin anew. Without this, a `settled` that a wrong clock had driven far ahead
 * would make each further record late, one waiting for the other. */
static void forget_settled(struct frontier *f)
{
    if (f->heap.n > 0 || f->in_flight.n > 0 || frontier_recovering(f))
        return;
    f->at.settled = f->settled_before = SETTLED_NOTHING;
    while (f->late.n > 0)
        heap_push(&f->heap, slot_queue_take(&f->slots, &f->late));
}

/* A log that begins below the committed offset is another one: the topic was made anew. */
static void forget_log(struct frontier *f, int64_t offset)
{
    checkpoint_init(&f->at, offset, f->reach_ms);
    f->settled_before = f->at.settled;
}

static int make_room(struct frontier *f, struct rp_error *err)
{
    if (f->slots.n_used < f->slots.n)
        return 0;
    size_t n = f->slots.n == 0 ? MIN_SLOTS : 2 * f->slots.n;
    /* Each slot has its place in the heap, so that going back there cannot fail. */
    if (!heap_resize(&f->heap, n) || !slots_grow(&f->slots, n))
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu held records", n);
    return 0;
}

int frontier_add(struct frontier *f, int64_t offset, int64_t append_ms, int64_t due_ms,
                 uint64_t handle, bool *out_held, struct rp_error *err)
{
    assert(offset >= 0 && offset < INT64_MAX);
    *out_held = false;
    if (offset < f->next && f->has_read)
        return 0; /* it came before */
    if (offset < f->next)
        forget_log(f, offset);
    struct slot s = {.handle = handle};
    s.key = (struct settle_key){settle_ms(f, offset, append_ms, due_ms, &s.lap), offset};
    if (offset >= f->at.high || settle_key_before(f->at.settled, s.key)) {
        if (make_room(f, err) != 0)
            return -1;
        uint32_t id = slots_append(&f->slots, &s);
        if (f->first_held == NO_SLOT)
            f->first_held = id;
        place(f, id);
        *out_held = true;
    }
    f->has_read = true;
    f->next = offset + 1;
    forget_settled(f);
    return 0;
}

void frontier_read_to(struct frontier *f, int64_t offset)
{
    if (offset <= f->next)
        return;
    f->next = offset;
    forget_settled(f);
}

void frontier_log_cut(struct frontier *f, int64_t end)
{
    frontier_read_to(f, end);
    if (!frontier_recovering(f))
        return;
    checkpoint_cut(&f->at, f->next);
    f->settled_before = f->at.settled;
    forget_settled(f);
}

void frontier_forget_from(struct frontier *f, int64_t offset)
{
    assert(!f->has_read);
    checkpoint_cut(&f->at, offset);
    f->settled_before = f->at.settled;
}

bool frontier_peek(const struct frontier *f, struct frontier_entry *out)
{
    if ((f->late.n == 0 && f->heap.n == 0) || frontier_recovering(f))
        return false;
    const struct slot *s = &f->slots.at[f->late.n > 0 ? f->late.head : f->heap.ids[0]];
    *out = (struct frontier_entry){s->key.offset, s->key.ms, s->lap, s->handle};
    return true;
}

void frontier_take(struct frontier *f)
{
    assert(!frontier_recovering(f));
    uint32_t id;
    if (f->late.n > 0) {
        id = slot_queue_take(&f->slots, &f->late);
    } else {
        id = heap_pop(&f->heap);
        f->at.settled = f->slots.at[id].key;
    }
    f->slots.at[id].in_flight = true;
    slot_queue_put(&f->slots, &f->in_flight, id);
    while (f->first_held != NO_SLOT && f->slots.at[f->first_held].in_flight)
        f->first_held = f->slots.at[f->first_held].next;
}

void frontier_state(const struct frontier *f, int64_t *out_low,
                    char metadata[FRONTIER_METADATA_MAX])
{
    struct checkpoint c = f->at;
    if (f->late.n > 0)
        c.high = f->slots.at[f->late.head].key.offset;
    else if (!frontier_recovering(f))
        c.high = f->next;
    *out_low = f->first_held != NO_SLOT ? f->slots.at[f->first_held].key.offset : f->next;
    metadata[0] = '\0';
    if (*out_low >= 0)
        checkpoint_write(&c, *out_low, metadata, FRONTIER_METADATA_MAX);
}

static void give_back_memory(struct frontier *f)
{
    size_t n = f->slots.n / 2;
    /* With neither queue in use, the heap names all slots. */
    if (n < MIN_SLOTS || f->slots.n_used > n / 2 || f->late.n > 0 || f->in_flight.n > 0)
        return;
    while (n / 2 >= MIN_SLOTS && f->slots.n_used <= n / 4)
        n /= 2;
    if (!slots_shrink(&f->slots, n, f->heap.ids))
        return;
    f->first_held = f->slots.first;
    (void)heap_resize(&f->heap, n); /* where it fails, it is as large as before */
}

void frontier_send_off(struct frontier *f)
{
    assert(f->n_sent_off == 0);
    f->n_sent_off = f->in_flight.n;
    f->sent_off = f->at.settled;
}

void frontier_settled(struct frontier *f)
{
    if (f->n_sent_off == 0)
        return;
    for (; f->n_sent_off > 0; f->n_sent_off--)
        slots_free(&f->slots, slot_queue_take(&f->slots, &f->in_flight));
    f->settled_before = f->sent_off;
    forget_settled(f);
    give_back_memory(f);
}

void frontier_untake(struct frontier *f)
{
    struct slot_queue taken = f->in_flight, late = f->late;
    f->in_flight = f->late = (struct slot_queue){0};
    f->n_sent_off = 0;
    f->at.settled = f->settled_before;
    f->first_held = f->slots.first;
    /* Those of them that are late by the old `settled` too were taken and read in offset order. */
    while (taken.n > 0) {
        uint32_t id = slot_queue_take(&f->slots, &taken);
        f->slots.at[id].in_flight = false;
        place(f, id);
    }
    while (late.n > 0)
        place(f, slot_queue_take(&f->slots, &late));
    forget_settled(f);
}

int64_t frontier_low(const struct frontier *f)
{
    return f->slots.first != NO_SLOT ? f->slots.at[f->slots.first].key.offset : f->next;
}

int64_t frontier_high(const struct frontier *f)
{
    return f->next;
}

size_t frontier_held(const struct frontier *f)
{
    return f->slots.n_used - f->in_flight.n;
}

size_t frontier_in_flight(const struct frontier *f)
{
    return f->in_flight.n;
}

size_t frontier_sent_off(const struct frontier *f)
{
    return f->n_sent_off;
}

bool frontier_recovering(const struct frontier *f)
{
    return f->next < f->at.high;
}

size_t frontier_memory(const struct frontier *f)
{
    return sizeof *f + f->slots.n * sizeof *f->slots.at + f->heap.cap * sizeof *f->heap.ids;
}
