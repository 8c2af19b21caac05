/* SPDX-License-Identifier: Apache-2.0 */
#include "jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "replay_run.h"

#define AT_ONCE    4
#define LOOK_MS    INT64_C(1000)
#define NAP_MS     50
#define TIMEOUT_MS 10000
#define TELL_MS    INT64_C(30000)

/* What nobody runs, though somebody should: what was handed over; of the others, those of which
 * what was sent may not all be marked (their runner died, or let go of them in the middle); and
 * what is to be cancelled. The third column: its runner did not let go of it, and may be alive. */
static const char look_sql[] =
    "SELECT job, NOT is_ours, NOT is_ours AND heartbeat_at > to_timestamp(0)"
    " FROM replay_job, LATERAL (VALUES"
    "  (detached AND state IN ('planned', 'running'))) AS x (is_ours) WHERE finished_at IS NULL"
    " AND (heartbeat_at IS NULL"
    "  OR heartbeat_at < clock_timestamp() - " RP_REPLAY_DEAD_AFTER ")"
    " AND (heartbeat_at IS NOT NULL OR wish = 'cancel' OR is_ours)"
    " ORDER BY created_at LIMIT 20";

struct slot {
    struct jobs *jobs;
    pthread_t thread;
    bool started;
    atomic_bool ended;
    bool settle;
    char job[RP_REPLAY_ID_SIZE];
    char trouble[320];
    int64_t told_mono_ms;
    struct rp_policies *policies; /* as they were when it began */
};

struct jobs {
    struct rp_worker *service;
    pthread_t thread;
    atomic_bool stop;
    struct slot slots[AT_ONCE];
    int64_t opened_mono_ms; /* when the connection was */
    int64_t full_mono_ms;   /* when it was last said that a replay waits for a slot; 0: never */
    int64_t failed_mono_ms; /* the same of that there was no looking for them */
};

static const char *end_name(enum rp_replay_end end)
{
    static const char *const names[] = {"done",   "paused", "cancelled", "stopped",
                                        "let go", "left",   "lost",      "failed"};
    return names[end];
}

static void progress(void *opaque, const struct rp_replay_progress *p)
{
    struct slot *s = opaque;
    int64_t now_mono_ms = rp_mono_ms();
    if (p->trouble != NULL && strcmp(p->trouble, s->trouble) != 0)
        rp_log(RP_LOG_WARN, "replay-waits", rp_f_str("job", p->job), rp_f_str("error", p->trouble));
    (void)snprintf(s->trouble, sizeof s->trouble, "%s", p->trouble == NULL ? "" : p->trouble);
    if (now_mono_ms - s->told_mono_ms < TELL_MS)
        return;
    s->told_mono_ms = now_mono_ms;
    rp_log(RP_LOG_INFO, "replay-goes", rp_f_str("job", p->job), rp_f_int("total", p->total),
           rp_f_int("done", p->done), rp_f_int("refused", p->refused),
           rp_f_int("came_back", p->came_back), rp_f_str("what", p->what));
}

static void *run_job(void *opaque)
{
    struct slot *s = opaque;
    struct jobs *jobs = s->jobs;
    struct rp_replay_result result;
    struct rp_error err;
    char runner[160];
    (void)snprintf(runner, sizeof runner, "%s/%" PRId64, jobs->service->instance, rp_wall_us());
    struct rp_config config = *jobs->service->config;
    config.policies = s->policies;
    const struct rp_replay_run run = {
        .config = &config,
        .runner = runner,
        .stop = &jobs->stop,
        .settle = s->settle,
        .progress = progress,
        .opaque = s,
    };
    if (rp_replay_run(&run, s->job, &result, &err) == 0)
        rp_log(result.end == RP_REPLAY_FAILED ? RP_LOG_ERROR : RP_LOG_INFO, "replay-ended",
               rp_f_str("job", s->job), rp_f_str("how", end_name(result.end)),
               rp_f_int("total", result.total), rp_f_int("done", result.done),
               rp_f_int("refused", result.refused), rp_f_int("unmarked", result.unmarked),
               rp_f_str("error", result.end == RP_REPLAY_FAILED ? err.text : ""));
    else if (err.code != RP_E_FENCED && err.code != RP_E_INVALID) /* else somebody was faster */
        rp_log(RP_LOG_WARN, "replay-not-begun", rp_f_str("job", s->job),
               rp_f_str("error", err.text));
    atomic_store(&s->ended, true);
    return NULL;
}

static void end_slot(struct slot *s)
{
    (void)pthread_join(s->thread, NULL);
    rp_policies_unref(s->policies);
    s->started = false;
}

static bool is_under_way(const struct jobs *jobs, const char *job)
{
    for (int i = 0; i < AT_ONCE; i++)
        if (jobs->slots[i].started && strcmp(jobs->slots[i].job, job) == 0)
            return true;
    return false;
}

static void tell_full(struct jobs *jobs, const char *job)
{
    int64_t now_mono_ms = rp_mono_ms();
    if (jobs->full_mono_ms != 0 && now_mono_ms - jobs->full_mono_ms < TELL_MS)
        return;
    jobs->full_mono_ms = now_mono_ms;
    rp_log(RP_LOG_WARN, "replay-waits-its-turn", rp_f_str("job", job),
           rp_f_int("at_once", AT_ONCE));
}

static void begin(struct jobs *jobs, const char *job, bool settle)
{
    struct slot *s = NULL;
    if (is_under_way(jobs, job))
        return;
    for (int i = 0; i < AT_ONCE && s == NULL; i++)
        s = jobs->slots[i].started ? NULL : &jobs->slots[i];
    if (s == NULL) {
        tell_full(jobs, job);
        return;
    }
    (void)rp_worker_policies(jobs->service);
    *s = (struct slot){.jobs = jobs,
                       .settle = settle,
                       .told_mono_ms = rp_mono_ms(),
                       .policies = rp_policies_ref(jobs->service->policies)};
    (void)snprintf(s->job, sizeof s->job, "%s", job);
    s->started = pthread_create(&s->thread, NULL, run_job, s) == 0;
    if (!s->started)
        rp_policies_unref(s->policies);
    else
        rp_log(RP_LOG_INFO, settle ? "replay-settled" : "replay-begun", rp_f_str("job", job));
}

/* While the database is away nobody's heart beats. When it is back, whoever lives has as long as
 * ever to show it, before it is taken for dead. */
static bool is_grace(const struct jobs *jobs)
{
    return rp_mono_ms() - jobs->opened_mono_ms < RP_REPLAY_DEAD_AFTER_MS;
}

static int look(struct jobs *jobs, struct rp_db *db, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(db, look_sql, 0, NULL, &result, err) != 0)
        return -1;
    for (int i = 0; i < PQntuples(result); i++)
        if (PQgetvalue(result, i, 2)[0] != 't' || !is_grace(jobs))
            begin(jobs, PQgetvalue(result, i, 0), PQgetvalue(result, i, 1)[0] == 't');
    PQclear(result);
    return 0;
}

static int open_db(struct jobs *jobs, struct rp_db **db, struct rp_error *err)
{
    if (rp_db_open(jobs->service->config->postgres.dsn, "reprise-archiver jobs", TIMEOUT_MS, db,
                   err) != 0) {
        *db = NULL;
        return -1;
    }
    jobs->opened_mono_ms = rp_mono_ms();
    return 0;
}

/* The archive's worker may have its connections where there are too many for more. */
static void tell_failed(struct jobs *jobs, const struct rp_error *err)
{
    int64_t now_mono_ms = rp_mono_ms();
    if (jobs->failed_mono_ms != 0 && now_mono_ms - jobs->failed_mono_ms < TELL_MS)
        return;
    jobs->failed_mono_ms = now_mono_ms;
    rp_log(RP_LOG_WARN, "replays-not-looked-for", rp_f_str("error", err->text));
}

static void serve(struct jobs *jobs, struct rp_db **db)
{
    struct rp_error err;
    for (int i = 0; i < AT_ONCE; i++)
        if (jobs->slots[i].started && atomic_load(&jobs->slots[i].ended))
            end_slot(&jobs->slots[i]);
    if ((*db != NULL || open_db(jobs, db, &err) == 0) && look(jobs, *db, &err) == 0)
        return;
    tell_failed(jobs, &err);
    rp_db_close(*db);
    *db = NULL;
}

static void *run(void *opaque)
{
    struct jobs *jobs = opaque;
    struct rp_db *db = NULL;
    while (!atomic_load(&jobs->stop)) {
        serve(jobs, &db);
        int64_t next_mono_ms = rp_mono_ms() + LOOK_MS;
        while (!atomic_load(&jobs->stop) && rp_mono_ms() < next_mono_ms)
            (void)usleep(NAP_MS * 1000);
    }
    rp_db_close(db);
    for (int i = 0; i < AT_ONCE; i++)
        if (jobs->slots[i].started)
            end_slot(&jobs->slots[i]);
    return NULL;
}

int jobs_start(struct rp_worker *service, struct jobs **out, struct rp_error *err)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for replays");
    jobs->service = service;
    if (pthread_create(&jobs->thread, NULL, run, jobs) == 0) {
        *out = jobs;
        return 0;
    }
    free(jobs);
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no thread for replays");
}

void jobs_stop(struct jobs *jobs)
{
    if (jobs == NULL)
        return;
    atomic_store(&jobs->stop, true);
    while (pthread_tryjoin_np(jobs->thread, NULL) == EBUSY) { /* to end a job may take minutes */
        (void)rp_worker_stopping(jobs->service);
        (void)usleep(NAP_MS * 1000);
    }
    free(jobs);
}
