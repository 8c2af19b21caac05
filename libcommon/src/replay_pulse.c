/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_pulse.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "units.h"

#define BEAT_MS    1000
#define TIMEOUT_MS 10000

struct rp_replay_pulse {
    char *dsn;
    char job[RP_REPLAY_ID_SIZE];
    int64_t epoch;
    struct rp_db *db;
    int64_t came_back, canary_age_ms; /* by the last count, */
    bool archived;                    /* as is this */
    int64_t count_mono_ms;            /* counted anew from then on */
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    bool stop;
    struct rp_replay_news news;
    char *topic, *ends; /* the ends that are awaited, or NULL; they stay as they are */
};

static enum rp_replay_wish wish_of(const char *text)
{
    return strcmp(text, "cancel") == 0  ? RP_REPLAY_CANCEL
           : strcmp(text, "pause") == 0 ? RP_REPLAY_PAUSE
                                        : RP_REPLAY_RUN;
}

static void disconnect(struct rp_replay_pulse *p)
{
    rp_db_close(p->db);
    p->db = NULL;
}

static int connect_to(struct rp_replay_pulse *p, struct rp_error *err)
{
    return p->db != NULL ? 0 : rp_db_open(p->dsn, "reprise replay pulse", TIMEOUT_MS, &p->db, err);
}

/* What came back died after the job was planned, clocks aside. How old the canaries are goes with
 * it, and how far the archive is: that they had their time says nothing where nobody has looked
 * since, or where what became of them still lies in Kafka. Rows and the offset behind them are
 * committed at once, and one statement sees both. Millions take PostgreSQL seconds, in which the
 * job's row must not be locked, and an eleventh of its time at most. */
static void count_back(struct rp_replay_pulse *p)
{
    const char *values[] = {p->job, NULL, NULL};
    struct rp_error err;
    PGresult *result;
    int64_t begin_mono_ms = rp_mono_ms();
    if (begin_mono_ms < p->count_mono_ms || connect_to(p, &err) != 0)
        return; /* the next beat says why */
    (void)pthread_mutex_lock(&p->lock);
    values[1] = p->topic;
    values[2] = p->ends;
    (void)pthread_mutex_unlock(&p->lock);
    if (rp_db_query(p->db,
                    "SELECT count(*), (SELECT coalesce((extract(epoch FROM now() - canary_at)"
                    "  * 1000)::bigint, -1) FROM replay_job WHERE job = $1),"
                    " $3::bigint[] IS NOT NULL AND NOT EXISTS (SELECT FROM unnest($3::bigint[])"
                    "  WITH ORDINALITY AS e (at, n) LEFT JOIN archive_offset AS o ON o.topic = $2"
                    "  AND o.partition = n - 1 WHERE greatest(o.next_offset, o.seen_end, 0) < at)"
                    " FROM dead_letter AS d WHERE d.replay_job = $1 AND d.dead_at >"
                    " (SELECT created_at - interval '1 hour' FROM replay_job WHERE job = $1)",
                    3, values, &result, &err) == 0) {
        p->came_back = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        p->canary_age_ms = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
        p->archived = PQgetvalue(result, 0, 2)[0] == 't';
        PQclear(result);
    } else {
        rp_log(RP_LOG_WARN, "replay-came-back-unknown", rp_f_str("job", p->job),
               rp_f_str("error", err.text));
        disconnect(p);
    }
    int64_t end_mono_ms = rp_mono_ms();
    p->count_mono_ms = end_mono_ms + 10 * (end_mono_ms - begin_mono_ms);
}

static int beat(struct rp_replay_pulse *p, struct rp_replay_news *out, struct rp_error *err)
{
    char epoch[RP_UNIT_TEXT];
    const char *values[] = {p->job, rp_format_int(p->epoch, epoch)};
    PGresult *result;
    if (connect_to(p, err) != 0)
        return -1;
    /* A runner that has just let go of the job has no pulse to show any more. */
    if (rp_db_query(
            p->db,
            "UPDATE replay_job AS j SET heartbeat_at = CASE WHEN heartbeat_at > to_timestamp(0)"
            "  THEN clock_timestamp() ELSE heartbeat_at END"
            " WHERE job = $1 AND epoch = $2 AND finished_at IS NULL"
            " RETURNING wish, coalesce(rate, 0)",
            2, values, &result, err) != 0)
        return rp_db_needs_mending(p->db, err);
    *out = (struct rp_replay_news){
        .known = true, .lost = PQntuples(result) == 0, .read_mono_ms = rp_mono_ms()};
    if (!out->lost) {
        out->wish = wish_of(PQgetvalue(result, 0, 0));
        out->rate = strtod(PQgetvalue(result, 0, 1), NULL);
        out->came_back = p->came_back;
        out->canary_age_ms = p->canary_age_ms;
        out->archived = p->archived;
    }
    PQclear(result);
    return 0;
}

/* Returns whether to go on. */
static bool wait_for_next(struct rp_replay_pulse *p, const struct rp_replay_news *fresh,
                          const struct rp_error *trouble)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += BEAT_MS / 1000;
    (void)pthread_mutex_lock(&p->lock);
    if (fresh != NULL)
        p->news = *fresh;
    else
        p->news.trouble = *trouble;
    while (!p->stop && pthread_cond_timedwait(&p->wake, &p->lock, &until) == 0)
        ;
    bool stop = p->stop || p->news.lost;
    (void)pthread_mutex_unlock(&p->lock);
    return !stop;
}

static void *run(void *opaque)
{
    struct rp_replay_pulse *p = opaque;
    struct rp_replay_news fresh;
    struct rp_error err;
    bool got;
    do {
        count_back(p);
        got = beat(p, &fresh, &err) == 0;
        if (!got)
            disconnect(p);
    } while (wait_for_next(p, got ? &fresh : NULL, &err));
    return NULL;
}

static void destroy(struct rp_replay_pulse *p)
{
    rp_db_close(p->db);
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    free(p->topic);
    free(p->ends);
    free(p->dsn);
    free(p);
}

int rp_replay_pulse_start(const char *dsn, const struct rp_replay_job *job,
                          struct rp_replay_pulse **out, struct rp_error *err)
{
    pthread_condattr_t attr;
    struct rp_replay_pulse *p = calloc(1, sizeof *p);
    if (p == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a replay's pulse");
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    p->dsn = strdup(dsn);
    p->canary_age_ms = -1;
    p->epoch = job->epoch;
    memcpy(p->job, job->id, sizeof p->job);
    if (p->dsn != NULL && pthread_create(&p->thread, NULL, run, p) == 0) {
        *out = p;
        return 0;
    }
    destroy(p);
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no thread for a replay's pulse");
}

void rp_replay_pulse_stop(struct rp_replay_pulse *p)
{
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    p->stop = true;
    (void)pthread_cond_signal(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_join(p->thread, NULL);
    destroy(p);
}

int rp_replay_pulse_await(struct rp_replay_pulse *p, const char *topic, const char *ends,
                          struct rp_error *err)
{
    char *own_topic = strdup(topic), *own_ends = strdup(ends);
    if (own_topic == NULL || own_ends == NULL) {
        free(own_topic);
        free(own_ends);
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a replay's pulse");
    }
    (void)pthread_mutex_lock(&p->lock);
    p->topic = own_topic;
    p->ends = own_ends;
    (void)pthread_mutex_unlock(&p->lock);
    return 0;
}

struct rp_replay_news rp_replay_pulse_news(struct rp_replay_pulse *p)
{
    (void)pthread_mutex_lock(&p->lock);
    struct rp_replay_news news = p->news;
    (void)pthread_mutex_unlock(&p->lock);
    return news;
}
