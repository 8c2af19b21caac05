/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"

/* More executions than any policy of the demo allows; later ones share the last place. */
#define MOST_ATTEMPTS 64

struct task {
    const struct kind *kind;
    int nth;
    double place; /* where it comes in the order of sending, from 0 to 1 */
    bool sent, succeeded;
    uint8_t deliveries[MOST_ATTEMPTS]; /* by attempt */
    int attempts;                      /* the highest that was executed */
    int rows;                          /* dead letters */
    char reason[24];                   /* of the first one */
    int waits_for;                     /* the attempt it waits for in a tier; 0: none */
    int tier;
    int64_t due_ms;
};

struct ledger {
    char prefix[LEDGER_ID_SIZE - 12];
    struct task *tasks;
    int n;
    pthread_mutex_t lock; /* of all that follows, and of the tasks' states */
    int64_t failures, reinvocations, dead_letters, doubled;
    struct lateness lateness;
};

static int by_place(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

static int count_of(const struct kind *k, int total, bool limits)
{
    return k->padding > 0 && !limits ? 0 : workload_count(k, total);
}

struct ledger *ledger_new(int total, bool limits)
{
    struct ledger *l = calloc(1, sizeof *l);
    int n = 0;
    for (size_t k = 0; k < workload_n_kinds; k++)
        n += count_of(&workload_kinds[k], total, limits);
    if (l == NULL || (l->tasks = calloc((size_t)n, sizeof *l->tasks)) == NULL ||
        pthread_mutex_init(&l->lock, NULL) != 0) {
        ledger_free(l);
        return NULL;
    }
    (void)snprintf(l->prefix, sizeof l->prefix, "demo-%" PRIx64 "-", rp_wall_ms() / 1000);
    for (size_t k = 0; k < workload_n_kinds; k++) {
        int of_kind = count_of(&workload_kinds[k], total, limits);
        for (int i = 0; i < of_kind; i++)
            l->tasks[l->n++] =
                (struct task){.kind = &workload_kinds[k], .nth = i, .place = (i + 0.5) / of_kind};
    }
    /* Kinds are sent side by side, each at its own even pace. */
    qsort(l->tasks, (size_t)l->n, sizeof *l->tasks, by_place);
    return l;
}

void ledger_free(struct ledger *l)
{
    if (l == NULL)
        return;
    if (l->n > 0)
        (void)pthread_mutex_destroy(&l->lock);
    free(l->tasks);
    free(l);
}

int ledger_size(const struct ledger *l)
{
    return l->n;
}

const struct kind *ledger_kind(const struct ledger *l, int task)
{
    return l->tasks[task].kind;
}

int ledger_nth(const struct ledger *l, int task)
{
    return l->tasks[task].nth;
}

const char *ledger_prefix(const struct ledger *l)
{
    return l->prefix;
}

void ledger_id(const struct ledger *l, int task, char out[LEDGER_ID_SIZE])
{
    (void)snprintf(out, LEDGER_ID_SIZE, "%s%06d", l->prefix, task);
}

int ledger_find(const struct ledger *l, struct rp_bytes text)
{
    const size_t prefix = strlen(l->prefix);
    const char *found = text.len == 0 ? NULL : memmem(text.data, text.len, l->prefix, prefix);
    int task = 0;
    if (found == NULL)
        return -1;
    const char *p = found + prefix, *end = (const char *)text.data + text.len;
    for (; p < end && *p >= '0' && *p <= '9' && task < l->n; p++)
        task = 10 * task + (*p - '0');
    return p - found == (ptrdiff_t)prefix + 6 && task < l->n ? task : -1;
}

static int slot(int32_t attempt)
{
    return attempt < 0 ? 0 : attempt < MOST_ATTEMPTS ? attempt : MOST_ATTEMPTS - 1;
}

void ledger_sent(struct ledger *l, int task)
{
    (void)pthread_mutex_lock(&l->lock);
    l->tasks[task].sent = true;
    if (l->tasks[task].kind->origin != FROM_HANDLER)
        l->failures++;
    (void)pthread_mutex_unlock(&l->lock);
}

void ledger_delivered(struct ledger *l, int task, int32_t attempt, int64_t due_ms,
                      int64_t received_us)
{
    struct task *t = &l->tasks[task];
    (void)pthread_mutex_lock(&l->lock);
    if (due_ms != RP_NO_TIME) {
        lateness_add(&l->lateness, received_us - 1000 * due_ms);
        l->reinvocations++;
    }
    if (t->deliveries[slot(attempt)] > 0)
        l->doubled++;
    if (t->deliveries[slot(attempt)] < UINT8_MAX)
        t->deliveries[slot(attempt)]++;
    if (t->waits_for <= attempt)
        t->waits_for = 0;
    (void)pthread_mutex_unlock(&l->lock);
}

void ledger_executed(struct ledger *l, int task, int32_t attempt, bool succeeded)
{
    struct task *t = &l->tasks[task];
    (void)pthread_mutex_lock(&l->lock);
    if (!succeeded)
        l->failures++;
    t->succeeded = t->succeeded || succeeded;
    if (attempt > t->attempts)
        t->attempts = attempt;
    (void)pthread_mutex_unlock(&l->lock);
}

void ledger_waits(struct ledger *l, int task, int32_t attempt, int tier, int64_t due_ms)
{
    (void)pthread_mutex_lock(&l->lock);
    struct task *t = &l->tasks[task];
    /* The reader of the tiers may come later than the handler. */
    if (t->deliveries[slot(attempt)] == 0 && attempt >= t->waits_for) {
        t->waits_for = attempt;
        t->tier = tier < LEDGER_TIERS ? tier : LEDGER_TIERS - 1;
        t->due_ms = due_ms;
    }
    (void)pthread_mutex_unlock(&l->lock);
}

void ledger_died(struct ledger *l, int task, const char *reason)
{
    struct task *t = &l->tasks[task];
    (void)pthread_mutex_lock(&l->lock);
    l->dead_letters++;
    if (t->rows++ == 0)
        (void)snprintf(t->reason, sizeof t->reason, "%s", reason);
    else
        l->doubled++;
    (void)pthread_mutex_unlock(&l->lock);
}

int ledger_unfinished(struct ledger *l)
{
    int n = 0;
    (void)pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->n; i++)
        n += !l->tasks[i].succeeded && l->tasks[i].rows == 0;
    (void)pthread_mutex_unlock(&l->lock);
    return n;
}

static void count_waiting(const struct task *t, int64_t now_ms, struct ledger_counts *out)
{
    int64_t seconds = t->due_ms <= now_ms ? 0 : (t->due_ms - now_ms) / 1000;
    out->waiting++;
    out->in_tier[t->tier]++;
    out->due_in[seconds < LEDGER_SOON ? seconds : LEDGER_SOON]++;
}

static void count_task(const struct task *t, int64_t now_ms, struct ledger_counts *out)
{
    out->sent += t->sent;
    if (t->succeeded && t->attempts <= 1)
        out->succeeded_first++;
    else if (t->succeeded)
        out->succeeded_later++;
    else if (t->rows > 0)
        out->dead++;
    else if (t->sent)
        out->open++;
    if (!t->succeeded && t->rows == 0 && t->waits_for > 0)
        count_waiting(t, now_ms, out);
}

void ledger_count(struct ledger *l, int64_t now_ms, struct ledger_counts *out)
{
    (void)pthread_mutex_lock(&l->lock);
    *out = (struct ledger_counts){
        .tasks = l->n,
        .failures = l->failures,
        .reinvocations = l->reinvocations,
        .dead_letters = l->dead_letters,
        .doubled = l->doubled,
        .early = (int64_t)l->lateness.early,
        .p50_ms = lateness_quantile_ms(&l->lateness, 0.5),
        .p99_ms = lateness_quantile_ms(&l->lateness, 0.99),
        .max_ms = (double)l->lateness.max_us / 1000,
    };
    for (int i = 0; i < l->n; i++)
        count_task(&l->tasks[i], now_ms, out);
    (void)pthread_mutex_unlock(&l->lock);
}

/* Every attempt up to the last came once, and none was left out. */
static bool attempts_are_whole(const struct task *t)
{
    for (int a = 1; a <= t->attempts && a < MOST_ATTEMPTS; a++)
        if (t->deliveries[a] != 1)
            return false;
    return true;
}

static bool ended_as_expected(const struct task *t)
{
    const struct kind *k = t->kind;
    if (!attempts_are_whole(t))
        return false;
    if (k->reason != NULL)
        return !t->succeeded && t->rows == 1 && strcmp(t->reason, k->reason) == 0;
    return t->succeeded && t->rows == 0 &&
           (k->outage_ms > 0 || t->attempts == workload_fails(k, t->nth) + 1);
}

void ledger_ending(struct ledger *l, const struct kind *kind, struct ledger_ending *out)
{
    *out = (struct ledger_ending){0};
    (void)pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->n; i++) {
        const struct task *t = &l->tasks[i];
        if (t->kind != kind)
            continue;
        out->tasks++;
        if (t->attempts > out->most_attempts)
            out->most_attempts = t->attempts;
        if (ended_as_expected(t))
            out->as_expected++;
        else if (!t->succeeded && t->rows == 0)
            out->lost++;
        else
            out->other++;
    }
    (void)pthread_mutex_unlock(&l->lock);
}
