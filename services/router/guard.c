/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <xxhash.h>

#include "reinvoke.h"

/* Events remembered of one task, to know a repeat that comes late. */
#define PAST 3u
/* How far a chain is walked: events that share one by chance are few, but ids may be chosen. */
#define MOST_STEPS   64
#define MOST_WAITED  ((1 << 30) - 1) /* 12 days */
#define NO_PARTITION (-1)            /* its record is gone */

/* An event that was let through, in a cache line of its own. */
struct seen {
    alignas(64) XXH128_hash_t id; /* of task and replay */
    uint64_t before;              /* the number of the one before it in its chain; 0: none */
    int64_t failed_at_ms, offset;
    int64_t due_ms; /* when its task runs again at the earliest */
    int32_t partition;
    int32_t attempt; /* as the event stated it */
    int32_t counted; /* as it was answered, like the next two */
    uint32_t waited_ms : 30, was_fallback : 1;
    uint32_t to_fallback : 1; /* its task runs again as a fallback */
};

/* Events are numbered from 1, and each takes the place of the oldest. Those whose ids end alike are
 * a chain, which ends where one is not there any more. No cache holds the whole: so of a new task
 * hardly more is looked at than where its chain begins, and its event is written behind the last.
 */
struct guard {
    size_t capacity;
    int64_t clock_skew_ms;
    uint64_t newest;     /* number */
    struct seen *judged; /* the last that was let through */
    struct seen *ring;
    uint64_t *chains; /* the number of the newest of each */
    uint64_t mask;    /* the end of an id, which says its chain */
};

/* What is known of a task, newest first. */
struct past {
    size_t n;
    uint64_t newest; /* number */
    struct seen *events[PAST];
};

static bool make_room(struct guard *g, size_t capacity)
{
    size_t n_chains = 1;
    while (n_chains < 2 * capacity)
        n_chains *= 2;
    g->capacity = capacity;
    g->mask = n_chains - 1;
    g->ring = aligned_alloc(alignof(struct seen), capacity * sizeof *g->ring);
    g->chains = calloc(n_chains, sizeof *g->chains);
    return g->ring != NULL && g->chains != NULL;
}

int guard_new(size_t capacity, int64_t clock_skew_ms, struct guard **out, struct rp_error *err)
{
    bool fits = capacity > 0 && capacity <= SIZE_MAX / (4 * sizeof(struct seen));
    struct guard *g = fits ? calloc(1, sizeof *g) : NULL;
    if (g == NULL || !make_room(g, capacity)) {
        guard_free(g);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory to guard %zu events", capacity);
    }
    g->clock_skew_ms = clock_skew_ms;
    *out = g;
    return 0;
}

void guard_free(struct guard *g)
{
    if (g == NULL)
        return;
    free(g->ring);
    free(g->chains);
    free(g);
}

static XXH128_hash_t identity(const struct guard_event *e)
{
    uint64_t seed =
        e->replay_id.data == NULL ? 0 : XXH3_64bits(e->replay_id.data, e->replay_id.len);
    return XXH3_128bits_withSeed(e->task_id.data, e->task_id.len, seed);
}

/* xxHash's own is a call. */
static bool is_same(XXH128_hash_t a, XXH128_hash_t b)
{
    return a.low64 == b.low64 && a.high64 == b.high64;
}

static struct past look_up(const struct guard *g, XXH128_hash_t id)
{
    struct past past = {0};
    uint64_t number = g->chains[id.low64 & g->mask];
    for (int steps = 0; steps < MOST_STEPS && past.n < PAST; steps++) {
        if (number == 0 || g->newest - number >= g->capacity)
            break;
        struct seen *s = &g->ring[number % g->capacity];
        if (is_same(s->id, id)) {
            if (past.n == 0)
                past.newest = number;
            past.events[past.n++] = s;
        }
        number = s->before;
    }
    return past;
}

static struct seen *append(struct guard *g, const struct seen *event)
{
    uint64_t *chain = &g->chains[event->id.low64 & g->mask];
    struct seen *s = &g->ring[++g->newest % g->capacity];
    *s = *event;
    s->before = *chain;
    *chain = g->newest;
    return s;
}

/* Repeats are not remembered, but their task is not to be forgotten while they come. */
static void renew(struct guard *g, const struct past *past)
{
    struct seen copies[PAST];
    if (g->newest - past->newest < g->capacity / 2)
        return;
    for (size_t i = 0; i < past->n; i++) {
        copies[i] = *past->events[i];
        past->events[i]->id = (XXH128_hash_t){0};
    }
    for (size_t i = past->n; i-- > 0;)
        (void)append(g, &copies[i]);
}

/* The same record, read again after an aborted transaction. */
static struct seen *same_record(const struct past *past, const struct guard_event *e)
{
    for (size_t i = 0; i < past->n; i++)
        if (past->events[i]->partition == e->partition && past->events[i]->offset == e->offset)
            return past->events[i];
    return NULL;
}

/* Who tells the time in whole seconds, and hands no attempt back, says the same of two failures
 * within one. The second comes once the task may have run again, by clocks that may differ. A
 * repeat that comes so late is taken for one, too: to run a task twice is better than to lose it.
 */
static bool may_have_run_again(const struct guard *g, const struct seen *s,
                               const struct guard_event *e)
{
    return e->failed_at_ms % 1000 == 0 && e->append_ms >= s->due_ms - g->clock_skew_ms;
}

static bool is_repeat(const struct guard *g, const struct past *past, const struct guard_event *e)
{
    for (size_t i = 0; i < past->n; i++)
        if (past->events[i]->attempt == e->attempt &&
            past->events[i]->failed_at_ms == e->failed_at_ms &&
            !may_have_run_again(g, past->events[i], e))
            return true;
    return false;
}

/* The event before this one; NULL: none is known. One that is read again, but so old that it is
 * forgotten, comes after none of what is known. */
static const struct seen *find_last(const struct past *past, const struct guard_event *e)
{
    const struct seen *last = past->n == 0 ? NULL : past->events[0];
    if (last == NULL || (last->partition == e->partition && e->offset < last->offset) ||
        (last->partition == NO_PARTITION && e->failed_at_ms < last->failed_at_ms))
        return NULL;
    return last;
}

static int64_t first_failure(const struct seen *s, const struct guard_event *e)
{
    int64_t known_ms = s->failed_at_ms - s->waited_ms;
    return known_ms < e->first_failed_at_ms ? known_ms : e->first_failed_at_ms;
}

/* What the handler did not hand back is taken from what is known. */
static struct guard_life go_on(const struct seen *last, const struct guard_event *e)
{
    if (last == NULL)
        return (struct guard_life){e->attempt, e->first_failed_at_ms, e->was_fallback};
    int32_t next = rp_next_attempt(last->counted);
    return (struct guard_life){.attempt = e->attempt > last->counted ? e->attempt : next,
                               .first_failed_at_ms = first_failure(last, e),
                               .was_fallback =
                                   e->was_fallback || (last->to_fallback && !e->handed_back)};
}

static uint32_t waited_ms(int64_t failed_at_ms, int64_t first_failed_at_ms)
{
    int64_t ms;
    if (failed_at_ms <= first_failed_at_ms)
        return 0;
    bool fits = !__builtin_sub_overflow(failed_at_ms, first_failed_at_ms, &ms) && ms < MOST_WAITED;
    return fits ? (uint32_t)ms : MOST_WAITED;
}

enum guard_verdict guard_judge(struct guard *g, const struct guard_event *e, struct guard_life *out)
{
    XXH128_hash_t id = identity(e);
    struct past past = look_up(g, id);
    struct seen *again = same_record(&past, e);
    if (again == NULL && is_repeat(g, &past, e)) {
        renew(g, &past);
        return GUARD_REPEAT;
    }
    if (again != NULL) {
        *out = (struct guard_life){again->counted, first_failure(again, e), again->was_fallback};
        g->judged = again;
    } else {
        *out = go_on(find_last(&past, e), e);
        const struct seen event = {.id = id,
                                   .failed_at_ms = e->failed_at_ms,
                                   .offset = e->offset,
                                   .due_ms = INT64_MAX,
                                   .partition = e->partition,
                                   .attempt = e->attempt,
                                   .counted = out->attempt,
                                   .waited_ms = MOST_WAITED &
                                                waited_ms(e->failed_at_ms, out->first_failed_at_ms),
                                   .was_fallback = out->was_fallback};
        g->judged = append(g, &event);
    }
    return out->attempt == e->attempt ? GUARD_NEW : GUARD_LOOP;
}

static void due_by(struct seen *s, int64_t due_ms)
{
    if (due_ms < s->due_ms)
        s->due_ms = due_ms;
}

void guard_runs_again(struct guard *g, int64_t due_ms, bool as_fallback)
{
    g->judged->to_fallback = as_fallback;
    due_by(g->judged, due_ms);
}

void guard_runs_no_more(struct guard *g)
{
    g->judged->due_ms = INT64_MAX;
}

void guard_recall(struct guard *g, const struct guard_event *e)
{
    const struct past past = look_up(g, identity(e));
    struct guard_life unused;
    bool known = past.n > 0 && past.events[0]->partition == e->partition &&
                 past.events[0]->offset >= e->offset;
    /* What was decided is not known any more: at once, perhaps. */
    if (!known && guard_judge(g, e, &unused) != GUARD_REPEAT)
        due_by(g->judged, e->append_ms);
}

void guard_log_cut(struct guard *g, int32_t partition, int64_t offset, int64_t answered)
{
    uint64_t n = g->newest < g->capacity ? g->newest : g->capacity;
    for (uint64_t number = g->newest; number > g->newest - n; number--) {
        struct seen *s = &g->ring[number % g->capacity];
        if (s->partition != partition || s->offset < offset)
            continue;
        if (s->offset < answered)
            s->partition = NO_PARTITION;
        else
            s->id = (XXH128_hash_t){0};
    }
}
