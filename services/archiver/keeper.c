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

#define TIMEOUT_MS   20000
#define LOOK_MS      200
#define CONNECT_MS   INT64_C(5000)
#define LOG_AGAIN_MS INT64_C(60000)

struct keeper {
    pthread_t thread;
    atomic_bool stop;
    const struct rp_config *config;
    const char *name;
    struct rp_db *db;
    struct retention retention;
    struct statistics statistics;
    int64_t connect_mono_ms; /* not before */
    int64_t log_mono_ms;     /* statistics that fail are told of so often only */
};

static void disconnect(struct keeper *k)
{
    rp_db_close(k->db);
    k->db = NULL;
    k->connect_mono_ms = rp_mono_ms() + CONNECT_MS;
}

/* The worker says that the database is away. */
static bool connected(struct keeper *k)
{
    struct rp_error err;
    if (k->db != NULL)
        return true;
    if (rp_mono_ms() < k->connect_mono_ms)
        return false;
    if (rp_db_open(k->config->postgres.dsn, k->name, TIMEOUT_MS, &k->db, &err) == 0)
        return true;
    k->db = NULL;
    k->connect_mono_ms = rp_mono_ms() + CONNECT_MS;
    return false;
}

static void keep_once(struct keeper *k)
{
    struct rp_error err;
    if (statistics_serve(&k->statistics, k->db, rp_wall_ms(), &err) != 0 &&
        rp_mono_ms() >= k->log_mono_ms) {
        rp_log(RP_LOG_WARN, "statistics-failed", rp_f_str("error", err.text));
        k->log_mono_ms = rp_mono_ms() + LOG_AGAIN_MS;
    }
    if (rp_db_alive(k->db) && retention_serve(&k->retention, k->db, rp_wall_ms(), &err) != 0)
        rp_log(RP_LOG_WARN, "retention-failed", rp_f_str("error", err.text));
    if (!rp_db_alive(k->db))
        disconnect(k);
}

static void *keep(void *opaque)
{
    struct keeper *k = opaque;
    const struct timespec nap = {.tv_nsec = LOOK_MS * 1000000L};
    while (!atomic_load(&k->stop)) {
        if (connected(k))
            keep_once(k);
        (void)nanosleep(&nap, NULL);
    }
    rp_db_close(k->db);
    return NULL;
}

int keeper_start(const struct rp_config *config, struct metrics_archiver *metrics, const char *name,
                 struct keeper **out, struct rp_error *err)
{
    struct keeper *k = calloc(1, sizeof *k);
    if (k == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the keeper");
    k->config = config;
    k->name = name;
    k->retention = (struct retention){.config = config, .metrics = metrics, .stop = &k->stop};
    k->statistics = (struct statistics){.config = config, .metrics = metrics};
    int failed = pthread_create(&k->thread, NULL, keep, k);
    if (failed != 0) {
        free(k);
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no thread for the keeper: %s",
                       strerror(failed));
    }
    *out = k;
    return 0;
}

void keeper_stop(struct keeper *k)
{
    if (k == NULL)
        return;
    atomic_store(&k->stop, true);
    (void)pthread_join(k->thread, NULL);
    free(k);
}
