/* SPDX-License-Identifier: Apache-2.0 */
#include "pulse.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"

#define EVERY_US  4000
#define STEPS     12000  /* some 20 us */
#define MOST      900000 /* an hour */
#define BEFORE_US 10000
#define AFTER_US  50000

struct beat {
    int64_t at_us; /* of the wall clock */
    double took_us;
    bool slow;
};

struct pulse {
    pthread_t thread;
    atomic_bool stop;
    struct beat *beats;
    size_t n;
};

static double thread_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + (double)t.tv_nsec / 1e3;
}

static void *beat(void *opaque)
{
    struct pulse *p = opaque;
    volatile unsigned result = 1;
    while (!atomic_load(&p->stop) && p->n < MOST) {
        double began_us = thread_us();
        unsigned x = result;
        for (int i = 0; i < STEPS; i++)
            x = x * 1664525u + 1013904223u;
        result = x;
        p->beats[p->n++] = (struct beat){rp_wall_us(), thread_us() - began_us, false};
        (void)usleep(EVERY_US);
    }
    return NULL;
}

struct pulse *pulse_start(void)
{
    struct pulse *p = calloc(1, sizeof *p);
    if (p == NULL || (p->beats = calloc(MOST, sizeof *p->beats)) == NULL)
        bench_die("pulse", "no memory");
    if (pthread_create(&p->thread, NULL, beat, p) != 0)
        bench_die("pulse", "no thread");
    return p;
}

static double median(const struct pulse *p)
{
    double *took_us = calloc(p->n + 1, sizeof *took_us);
    if (took_us == NULL)
        bench_die("pulse", "no memory");
    for (size_t i = 0; i < p->n; i++)
        took_us[i] = p->beats[i].took_us;
    bench_sort(took_us, p->n);
    double found = took_us[p->n / 2];
    free(took_us);
    return found;
}

void pulse_stop(struct pulse *p)
{
    atomic_store(&p->stop, true);
    (void)pthread_join(p->thread, NULL);
    double most_us = 2 * median(p);
    for (size_t i = 1; i < p->n; i++)
        if (p->beats[i - 1].took_us > most_us && p->beats[i].took_us > most_us)
            p->beats[i - 1].slow = p->beats[i].slow = true;
}

bool pulse_was_slow(const struct pulse *p, int64_t wall_us)
{
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->beats[middle].at_us < wall_us - AFTER_US)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < p->n && !p->beats[low].slow && p->beats[low].at_us <= wall_us + BEFORE_US)
        low++;
    return low < p->n && p->beats[low].at_us <= wall_us + BEFORE_US;
}

void pulse_free(struct pulse *p)
{
    if (p == NULL)
        return;
    free(p->beats);
    free(p);
}
