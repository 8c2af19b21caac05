/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "log.h"
#include "retention.h"
#include "statistics.h"

/* Not an archiver's: whoever looks for what those have under way does not mean us. */
#define NAME         "reprise-archiver keeper"
#define LOOK_MS      200
#define CONNECT_MS   INT64_C(5000)
#define LOG_AGAIN_MS INT64_C(60000)

/* A statement of retention may look through all of the archive. The server ends it before we give
 * it up, and soon where we are gone, so that it works on for nobody; nobody waits for locks so
 * long.
 */
#define STATISTICS_TIMEOUT_MS 20000
#define RETENTION_TIMEOUT_MS  3600000
#define RETENTION_SETTINGS                                                                         \
    "SET statement_timeout = '59min'; SET lock_timeout = '10s';" RP_DB_NOTICE_WE_ARE_GONE

/* One of the things that are kept, on a thread with a connection of its own. */
struct chore {
    struct keeper *k;
    pthread_t thread;
    bool started;
    int64_t timeout_ms;
    const char *settings, *failed;
    void (*serve)(struct chore *c);
    struct rp_db *db;
    int64_t connect_mono_ms; /* not before */
    int64_t log_mono_ms;     /* what fails again and again is told of so often only */
};

struct keeper {
    atomic_bool stop;
    const struct rp_config *config;
    struct retention retention;
    struct statistics statistics;
    struct chore chores[2];
};

static void disconnect(struct chore *c)
{
    rp_db_close(c->db);
    c->db = NULL;
    c->connect_mono_ms = rp_mono_ms() + CONNECT_MS;
}

static void tell(struct chore *c, const struct rp_error *err)
{
    if (rp_mono_ms() < c->log_mono_ms)
        return;
    rp_log(RP_LOG_WARN, c->failed, rp_f_str("error", err->text));
    c->log_mono_ms = rp_mono_ms() + LOG_AGAIN_MS;
}

/* The worker may have its connections where there are too many for more. */
static bool connected(struct chore *c)
{
    const struct keeper *k = c->k;
    struct rp_error err;
    if (c->db != NULL)
        return true;
    if (rp_mono_ms() < c->connect_mono_ms)
        return false;
    if (rp_db_open(k->config->postgres.dsn, NAME, c->timeout_ms, &c->db, &err) == 0) {
        rp_db_heed(c->db, &k->stop);
        if (rp_db_script(c->db, c->settings, &err) == 0)
            return true;
    } else {
        c->db = NULL;
    }
    tell(c, &err);
    disconnect(c);
    return false;
}

static void keep_statistics(struct chore *c)
{
    struct rp_error err;
    if (statistics_serve(&c->k->statistics, c->db, rp_wall_ms(), &err) != 0)
        tell(c, &err);
}

static void keep_retention(struct chore *c)
{
    struct rp_error err;
    if (retention_serve(&c->k->retention, c->db, rp_wall_ms(), &err) != 0)
        rp_log(RP_LOG_WARN, c->failed, rp_f_str("error", err.text));
}

static void *keep(void *opaque)
{
    struct chore *c = opaque;
    const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000L};
    while (!atomic_load(&c->k->stop)) {
        if (connected(c))
            c->serve(c);
        if (c->db != NULL && !rp_db_alive(c->db))
            disconnect(c);
        (void)nanosleep(&nap, NULL);
    }
    rp_db_close(c->db);
    return NULL;
}

static int start(struct keeper *k, struct rp_error *err)
{
    for (size_t i = 0; i < sizeof k->chores / sizeof *k->chores; i++) {
        struct chore *c = &k->chores[i];
        int failed = pthread_create(&c->thread, NULL, keep, c);
        if (failed != 0)
            return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no thread for the keeper: %s",
                           strerror(failed));
        c->started = true;
    }
    return 0;
}

int keeper_start(const struct rp_config *config, struct metrics_archiver *metrics,
                 struct keeper **out, struct rp_error *err)
{
    struct keeper *k = calloc(1, sizeof *k);
    if (k == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the keeper");
    k->config = config;
    k->retention = (struct retention){.config = config, .metrics = metrics, .stop = &k->stop};
    k->statistics = (struct statistics){.config = config, .metrics = metrics};
    k->chores[0] = (struct chore){.k = k,
                                  .timeout_ms = STATISTICS_TIMEOUT_MS,
                                  .settings = "SET statement_timeout = '19s'",
                                  .failed = "statistics-failed",
                                  .serve = keep_statistics};
    k->chores[1] = (struct chore){.k = k,
                                  .timeout_ms = RETENTION_TIMEOUT_MS,
                                  .settings = RETENTION_SETTINGS,
                                  .failed = "retention-failed",
                                  .serve = keep_retention};
    if (start(k, err) != 0) {
        keeper_stop(k, false);
        return -1;
    }
    *out = k;
    return 0;
}

void keeper_stop(struct keeper *k, bool begins_again)
{
    if (k == NULL)
        return;
    atomic_store(&k->stop, true);
    for (size_t i = 0; i < sizeof k->chores / sizeof *k->chores; i++)
        if (k->chores[i].started)
            (void)pthread_join(k->chores[i].thread, NULL);
    if (begins_again)
        statistics_forget(&k->statistics);
    free(k);
}
