/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include <stdlib.h>
#include <xxhash.h>

/* Places that a task may have. The oldest of them makes room. */
#define WAYS 8u
/* Events remembered of one task, to know a repeat that comes late. */
#define PAST 3u

/* An event that was let through. */
struct seen {
    int64_t failed_at_ms, offset;
    int64_t due_ms; /* when its task runs again at the earliest */
    int32_t partition;
    int32_t attempt; /* as the event stated it */
    int32_t counted; /* as it was answered */
};

/* Tasks that share their places. Little of the whole is in a cache, so what is looked at for each
 * event lies together, and nothing is read of the past of a task that is new. */
struct bucket {
    XXH128_hash_t ids[WAYS]; /* of task and replay */
    uint64_t used[WAYS];     /* when each was last touched, in calls; 0: free */
    size_t n_past[WAYS];     /* all that were ever seen; the last PAST of them are in `past` */
    struct seen past[WAYS][PAST];
};

/* A task in its bucket. */
struct entry {
    size_t *n_past;
    struct seen *past;
};

struct guard {
    size_t n_buckets;
    int64_t clock_skew_ms;
    uint64_t calls;
    struct seen *judged; /* the last that was let through */
    struct bucket buckets[];
};

int guard_new(size_t capacity, int64_t clock_skew_ms, struct guard **out, struct rp_error *err)
{
    size_t n = (capacity + WAYS - 1) / WAYS;
    struct guard *g = n == 0 || n > SIZE_MAX / (2 * sizeof(struct bucket))
                          ? NULL
                          : calloc(1, sizeof *g + n * sizeof(struct bucket));
    if (g == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory to guard %zu tasks", capacity);
    g->n_buckets = n;
    g->clock_skew_ms = clock_skew_ms;
    *out = g;
    return 0;
}

void guard_free(struct guard *g)
{
    free(g);
}

static XXH128_hash_t identity(const struct guard_event *e)
{
    uint64_t seed =
        e->replay_id.data == NULL ? 0 : XXH3_64bits(e->replay_id.data, e->replay_id.len);
    return XXH3_128bits_withSeed(e->task_id.data, e->task_id.len, seed);
}

/* xxHash's own is a call, and eight of them are made for each event. */
static bool is_same(XXH128_hash_t a, XXH128_hash_t b)
{
    return a.low64 == b.low64 && a.high64 == b.high64;
}

/* The task's entry, or the one that makes room for it, emptied. */
static struct entry find(struct guard *g, const struct guard_event *e)
{
    XXH128_hash_t id = identity(e);
    struct bucket *b = &g->buckets[id.low64 % g->n_buckets];
    size_t at = 0, oldest = 0;
    for (; at < WAYS && !is_same(b->ids[at], id); at++)
        if (b->used[at] < b->used[oldest])
            oldest = at;
    if (at == WAYS) {
        at = oldest;
        b->ids[at] = id;
        b->n_past[at] = 0;
    }
    b->used[at] = ++g->calls;
    return (struct entry){&b->n_past[at], b->past[at]};
}

static const struct seen *newest(const struct entry *n)
{
    return &n->past[(*n->n_past - 1) % PAST];
}

/* The same record, read again after an aborted transaction. */
static struct seen *same_record(const struct entry *n, const struct guard_event *e)
{
    for (size_t i = 0; i < PAST && i < *n->n_past; i++)
        if (n->past[i].partition == e->partition && n->past[i].offset == e->offset)
            return &n->past[i];
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

static bool is_repeat(const struct guard *g, const struct entry *n, const struct guard_event *e)
{
    for (size_t i = 0; i < PAST && i < *n->n_past; i++)
        if (n->past[i].attempt == e->attempt && n->past[i].failed_at_ms == e->failed_at_ms &&
            !may_have_run_again(g, &n->past[i], e))
            return true;
    return false;
}

/* How the attempt is counted on from what is known. */
static int32_t count(const struct entry *n, const struct guard_event *e)
{
    if (*n->n_past == 0)
        return e->attempt;
    const struct seen *last = newest(n);
    /* Read again, but so old that it is forgotten: it was let through as it was. */
    if (e->partition == last->partition && e->offset < last->offset)
        return e->attempt;
    if (e->attempt > last->counted)
        return e->attempt;
    return last->counted == INT32_MAX ? INT32_MAX : last->counted + 1;
}

enum guard_verdict guard_judge(struct guard *g, const struct guard_event *e, int32_t *out_attempt)
{
    struct entry n = find(g, e);
    struct seen *again = same_record(&n, e);
    if (again == NULL && is_repeat(g, &n, e))
        return GUARD_REPEAT;
    if (again != NULL) {
        *out_attempt = again->counted;
        g->judged = again;
    } else {
        *out_attempt = count(&n, e);
        g->judged = &n.past[(*n.n_past)++ % PAST];
        *g->judged = (struct seen){.failed_at_ms = e->failed_at_ms,
                                   .offset = e->offset,
                                   .due_ms = INT64_MAX,
                                   .partition = e->partition,
                                   .attempt = e->attempt,
                                   .counted = *out_attempt};
    }
    return *out_attempt == e->attempt ? GUARD_NEW : GUARD_LOOP;
}

void guard_runs_again(struct guard *g, int64_t due_ms)
{
    if (due_ms < g->judged->due_ms)
        g->judged->due_ms = due_ms;
}

void guard_runs_no_more(struct guard *g)
{
    g->judged->due_ms = INT64_MAX;
}

void guard_recall(struct guard *g, const struct guard_event *e)
{
    const struct entry n = find(g, e);
    int32_t unused;
    bool known =
        *n.n_past > 0 && newest(&n)->partition == e->partition && newest(&n)->offset >= e->offset;
    /* What was decided is not known any more: at once, perhaps. */
    if (!known && guard_judge(g, e, &unused) != GUARD_REPEAT)
        guard_runs_again(g, e->append_ms);
}
