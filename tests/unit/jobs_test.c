/* SPDX-License-Identifier: Apache-2.0 */
/* Which replays an archiver takes up and what it says of them, with a clock, a database and runs
 * that are played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock_fixture.h"
#include "config_fixture.h"
#include "db.h"
#include "jobs.h"
#include "log.h"
#include "replay_run.h"

#define N         6 /* jobs, of which four run at once */
#define ABANDONED 0 /* its runner may be alive */
#define SETTLED   1 /* it is only to be marked */
#define TELL_MS   30000

/* How often something was said aloud. */
static const char *const events[] = {
    "replay-begun", "replay-settled",        "replay-waits",           "replay-goes",
    "replay-ended", "replay-waits-its-turn", "replays-not-looked-for", "replay-not-begun"};
static atomic_int said[8];
void __wrap_rp_log_fields(enum rp_log_level level, const char *event,
                          const struct rp_field *fields);

void __wrap_rp_log_fields(enum rp_log_level level, const char *event, const struct rp_field *fields)
{
    (void)fields;
    for (size_t i = 0; i < 8 && level != RP_LOG_DEBUG; i++)
        if (strcmp(events[i], event) == 0)
            atomic_fetch_add(&said[i], 1);
}

static int times(const char *event)
{
    size_t i = 0;
    while (strcmp(events[i], event) != 0)
        i++;
    return said[i];
}

static atomic_int opens, looks, began[N];
static atomic_bool ended[N], released;
static struct rp_policies *fresh; /* as after a SIGHUP */
static atomic_int with_new_policies;
static atomic_llong opened_ms, taken_ms; /* when the abandoned one was begun */

int __wrap_rp_db_open(const char *dsn, const char *name, int64_t timeout_ms, struct rp_db **out,
                      struct rp_error *err);
void __wrap_rp_db_close(struct rp_db *db);
int __wrap_rp_db_query(struct rp_db *db, const char *sql, int n, const char *const *values,
                       PGresult **out, struct rp_error *err);
int __wrap_rp_replay_run(const struct rp_replay_run *r, const char *job,
                         struct rp_replay_result *out, struct rp_error *err);

/* The first attempt fails. */
int __wrap_rp_db_open(const char *dsn, const char *name, int64_t timeout_ms, struct rp_db **out,
                      struct rp_error *err)
{
    static char connection;
    (void)dsn;
    (void)name;
    (void)timeout_ms;
    if (atomic_fetch_add(&opens, 1) == 0)
        return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "away");
    opened_ms = now_mono_ms;
    *out = (struct rp_db *)(void *)&connection;
    return 0;
}

void __wrap_rp_db_close(struct rp_db *db)
{
    (void)db;
}

/* The jobs that are not at an end; the others come once the abandoned one has begun. The first
 * question has no answer. */
int __wrap_rp_db_query(struct rp_db *db, const char *sql, int n, const char *const *values,
                       PGresult **out, struct rp_error *err)
{
    PGresAttDesc columns[3] = {
        {.name = (char[]){"job"}}, {.name = (char[]){"a"}}, {.name = (char[]){"b"}}};
    (void)db;
    (void)sql;
    (void)n;
    (void)values;
    if (atomic_fetch_add(&looks, 1) == 0)
        return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "lost");
    *out = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    (void)PQsetResultAttrs(*out, 3, columns);
    for (int i = 0, row = 0; i < (began[ABANDONED] > 0 ? N : 1); i++)
        if (!ended[i]) {
            (void)PQsetvalue(*out, row, 0, (char[]){(char)('0' + i), '\0'}, 1);
            (void)PQsetvalue(*out, row, 1, i == SETTLED ? (char[]){"t"} : (char[]){"f"}, 1);
            (void)PQsetvalue(*out, row++, 2, i == ABANDONED ? (char[]){"t"} : (char[]){"f"}, 1);
        }
    return 0;
}

/* It waits for something, and says so again and again. */
int __wrap_rp_replay_run(const struct rp_replay_run *r, const char *job,
                         struct rp_replay_result *out, struct rp_error *err)
{
    static const enum rp_error_code codes[N] = {RP_OK, RP_OK, RP_E_IO, RP_E_FENCED, RP_E_INVALID};
    const struct rp_replay_progress waits = {.job = job, .what = "sending", .trouble = "away"};
    const struct rp_replay_progress goes = {.job = job, .what = "sending"};
    int i = job[0] - '0';
    atomic_fetch_add(&with_new_policies, r->config->policies == fresh);
    if (i == ABANDONED)
        taken_ms = now_mono_ms;
    atomic_fetch_add(&began[i], 1);
    do {
        r->progress(r->opaque, &waits);
        (void)sched_yield();
    } while (!released);
    r->progress(r->opaque, &goes);
    *out = (struct rp_replay_result){.end = i == SETTLED ? RP_REPLAY_FAILED : RP_REPLAY_DONE};
    int rc = codes[i] == RP_OK ? 0 : -1;
    *err = (struct rp_error){.code = codes[i], .text = "why"};
    ended[i] = true;
    return rc;
}

static void so_many_replays_run_at_once_and_each_once(void **state)
{
    struct rp_config *config = load_good("targets: {allow: [a]}\n");
    struct rp_config *later = load_good("targets: {allow: [b]}\n");
    atomic_bool stop = false;
    struct rp_worker worker = {.config = config,
                               .stop = &stop,
                               .instance = "one-0",
                               .policies = rp_policies_ref(config->policies),
                               .new_policies = rp_policies_ref(later->policies)};
    struct rp_error err;
    struct jobs *jobs;
    (void)state;
    fresh = later->policies;
    rp_log_setup(RP_LOG_DEBUG, false, "test");
    assert_int_equal(jobs_start(&worker, &jobs, &err), 0);
    while (times("replay-waits-its-turn") < 2 || times("replay-goes") < 4)
        (void)sched_yield();
    assert_int_equal(times("replay-begun") + times("replay-settled"), 4);
    assert_int_equal(began[4] + began[5], 0);
    released = true;
    while (!ended[4] || !ended[5])
        (void)sched_yield();
    jobs_stop(jobs);
    for (int i = 0; i < N; i++)
        assert_int_equal(began[i], 1);
    assert_int_equal(times("replays-not-looked-for"), 1);
    assert_int_equal(opens, 3);
    assert_true(taken_ms - opened_ms >= RP_REPLAY_DEAD_AFTER_MS);
    assert_int_equal(times("replay-settled"), 1);
    assert_int_equal(times("replay-begun"), N - 1);
    assert_int_equal(times("replay-ended"), 3);
    assert_int_equal(times("replay-not-begun"),
                     1);                        /* what somebody else was faster with is no news */
    assert_int_equal(times("replay-waits"), N); /* the same trouble is told once */
    assert_true(times("replay-waits-its-turn") <= now_mono_ms / TELL_MS + 1);
    assert_true(times("replay-goes") <= N * (now_mono_ms / TELL_MS));
    assert_int_equal(with_new_policies, N);
    jobs_stop(NULL);
    rp_policies_unref(worker.policies);
    rp_config_free(config);
    rp_config_free(later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_replays_run_at_once_and_each_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
