/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_windows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"

#define AHEAD        2
#define WINDOW_ROWS  "4000"
#define WINDOW_BYTES "8388608"
#define TIMEOUT_MS   60000

#define AS_COLUMN(name) ", d." #name

/* OFFSET 0 keeps the subquery what it is: a look at one row by its key. Joined freely, the planner
 * may read whole days for it. */
static const char window_sql[] =
    "SELECT i.n, i.refused, i.edited::text, CASE WHEN $3::boolean THEN json_build_object('id', "
    "d.task_id, 'type', d.task_type,"
    " 'attempts', coalesce(d.attempts, d.attempt), 'reason', d.reason, 'category', d.category,"
    " 'error', json_build_object('class', d.error_class, 'message', d.error_message,"
    "  'category', d.error_category))::text END" RP_REPLAY_COLUMNS(
        AS_COLUMN) " FROM (SELECT *, sum(size) OVER (ORDER BY n) - size AS before FROM replay_item"
                   "  WHERE job = $1 AND n >= $2 AND n < $2::bigint + " WINDOW_ROWS ") AS i"
                   " LEFT JOIN LATERAL (SELECT * FROM dead_letter AS l WHERE l.dead_at = i.dead_at "
                   "AND l.id = i.id"
                   "  OFFSET 0) AS d ON true"
                   " WHERE i.before < " WINDOW_BYTES " ORDER BY i.n";

struct rp_replay_windows {
    char *dsn, *job;
    bool about;
    struct rp_db *db; /* the thread's */
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int64_t first;     /* where the first begins that nobody took yet; -1: none is wanted */
    int64_t next;      /* where the next begins that is to be read; -1: none is */
    uint64_t restarts; /* what is read meanwhile is not wanted any more */
    PGresult *ready[AHEAD];
    size_t n_ready;
    struct rp_error failure; /* of what is to be read behind them; RP_OK: none */
};

static int fetch(struct rp_replay_windows *w, int64_t n, PGresult **out, struct rp_error *err)
{
    char number[RP_UNIT_TEXT];
    const char *values[] = {w->job, rp_format_int(n, number), w->about ? "true" : "false"};
    if (w->db == NULL) {
        if (rp_db_open(w->dsn, "reprise replay rows", TIMEOUT_MS, &w->db, err) != 0)
            return -1;
        rp_db_heed(w->db, &w->stop);
    }
    if (rp_db_send(w->db, window_sql, 3, values, true, err) == 0 &&
        rp_db_receive(w->db, out, err) == 0)
        return 0;
    (void)rp_db_needs_mending(w->db, err);
    rp_db_close(w->db);
    w->db = NULL;
    return -1;
}

/* Under the lock, which it gives up meanwhile. */
static void read_next(struct rp_replay_windows *w)
{
    PGresult *window = NULL;
    struct rp_error err = {0};
    int64_t n = w->next;
    uint64_t restarts = w->restarts;
    (void)pthread_mutex_unlock(&w->lock);
    int failed = fetch(w, n, &window, &err);
    (void)pthread_mutex_lock(&w->lock);
    if (restarts != w->restarts) {
        PQclear(window);
        return;
    }
    if (failed != 0)
        w->failure = err;
    else
        w->ready[w->n_ready++] = window;
    w->next = failed != 0 || PQntuples(window) == 0 ? -1 : n + PQntuples(window);
    (void)pthread_cond_broadcast(&w->changed);
}

static void *run(void *opaque)
{
    struct rp_replay_windows *w = opaque;
    (void)pthread_mutex_lock(&w->lock);
    while (!atomic_load(&w->stop))
        if (w->next < 0 || w->n_ready == AHEAD)
            (void)pthread_cond_wait(&w->changed, &w->lock);
        else
            read_next(w);
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Under the lock. */
static void restart(struct rp_replay_windows *w, int64_t n)
{
    while (w->n_ready > 0)
        PQclear(w->ready[--w->n_ready]);
    w->restarts++;
    w->first = w->next = n;
    w->failure.code = RP_OK;
    (void)pthread_cond_broadcast(&w->changed);
}

static void destroy(struct rp_replay_windows *w)
{
    restart(w, -1);
    rp_db_close(w->db);
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_mutex_destroy(&w->lock);
    free(w->dsn);
    free(w->job);
    free(w);
}

int rp_replay_windows_new(const char *dsn, const char *job, bool about,
                          struct rp_replay_windows **out, struct rp_error *err)
{
    struct rp_replay_windows *w = calloc(1, sizeof *w);
    if (w == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a job's rows");
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->changed, NULL);
    w->dsn = strdup(dsn);
    w->job = strdup(job);
    w->about = about;
    w->first = w->next = -1;
    if (w->dsn != NULL && w->job != NULL && pthread_create(&w->thread, NULL, run, w) == 0) {
        *out = w;
        return 0;
    }
    destroy(w);
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no thread for a job's rows");
}

void rp_replay_windows_free(struct rp_replay_windows *w)
{
    if (w == NULL)
        return;
    (void)pthread_mutex_lock(&w->lock);
    atomic_store(&w->stop, true);
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    destroy(w);
}

int rp_replay_windows_take(struct rp_replay_windows *w, int64_t n, PGresult **out,
                           struct rp_error *err)
{
    (void)pthread_mutex_lock(&w->lock);
    if (w->first != n)
        restart(w, n);
    while (w->n_ready == 0 && w->failure.code == RP_OK)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    int failed = w->n_ready == 0;
    if (failed) {
        *err = w->failure;
        restart(w, -1);
    } else {
        *out = w->ready[0];
        memmove(w->ready, w->ready + 1, --w->n_ready * sizeof w->ready[0]);
        w->first = PQntuples(*out) == 0 ? -1 : n + PQntuples(*out);
        (void)pthread_cond_broadcast(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return failed ? -1 : 0;
}

void rp_replay_windows_forget(struct rp_replay_windows *w)
{
    (void)pthread_mutex_lock(&w->lock);
    restart(w, -1);
    (void)pthread_mutex_unlock(&w->lock);
}
