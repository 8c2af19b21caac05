/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"

enum state { IDLE, GIVEN, WRITTEN, STOPPED };

struct writer {
    pthread_t thread;
    bool started;
    bool busy;            /* of who gives and takes */
    pthread_mutex_t lock; /* of `state` */
    pthread_cond_t changed;
    enum state state;
    /* The thread's, while `state` is GIVEN. */
    struct batch *batch;
    struct store *store;
    struct parts parts;
    int failed;
    struct rp_error err;
};

static void set_state(struct writer *w, enum state state)
{
    (void)pthread_mutex_lock(&w->lock);
    w->state = state;
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
}

static bool wait_until_given(struct writer *w)
{
    (void)pthread_mutex_lock(&w->lock);
    while (w->state != GIVEN && w->state != STOPPED)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    bool given = w->state == GIVEN;
    (void)pthread_mutex_unlock(&w->lock);
    return given;
}

static void *run(void *opaque)
{
    struct writer *w = opaque;
    while (wait_until_given(w)) {
        w->failed = batch_write(w->batch, w->store, &w->parts, &w->err);
        set_state(w, WRITTEN);
    }
    return NULL;
}

int writer_new(struct writer **out, struct rp_error *err)
{
    struct writer *w = calloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    if (w == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a writer");
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&w->lock, NULL);
    int failed = pthread_create(&w->thread, NULL, run, w);
    w->started = failed == 0;
    if (failed != 0) {
        writer_free(w);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no thread for a writer: %s", strerror(failed));
    }
    *out = w;
    return 0;
}

void writer_free(struct writer *w)
{
    if (w == NULL)
        return;
    writer_drop(w);
    set_state(w, STOPPED);
    if (w->started)
        (void)pthread_join(w->thread, NULL);
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_mutex_destroy(&w->lock);
    parts_clear(&w->parts);
    free(w);
}

int writer_give(struct writer *w, struct batch *b, struct store *store, const struct parts *parts,
                struct rp_error *err)
{
    if (parts_copy(&w->parts, parts, err) != 0)
        return -1;
    w->batch = b;
    w->store = store;
    w->busy = true;
    set_state(w, GIVEN);
    return 0;
}

bool writer_busy(const struct writer *w)
{
    return w->busy;
}

bool writer_wait(struct writer *w, int64_t until_mono_ms)
{
    const struct timespec until = {.tv_sec = until_mono_ms / 1000,
                                   .tv_nsec = until_mono_ms % 1000 * 1000000};
    int rc = 0;
    (void)pthread_mutex_lock(&w->lock);
    while (w->state == GIVEN && rc == 0 && until_mono_ms > 0)
        rc = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    bool written = w->state == WRITTEN;
    (void)pthread_mutex_unlock(&w->lock);
    return written;
}

void writer_drop(struct writer *w)
{
    if (w->busy)
        (void)writer_wait(w, INT64_MAX);
    w->busy = false;
}

int writer_take(struct writer *w, struct parts *parts, struct rp_error *err)
{
    writer_drop(w);
    if (w->failed != 0)
        return rp_fail_as(err, &w->err);
    for (size_t i = 0; i < w->parts.n; i++) {
        const struct store_claim *claim = &w->parts.items[i].claim;
        struct part *part = parts_find(parts, claim->partition);
        if (part != NULL)
            part->claim = *claim;
    }
    return 0;
}
