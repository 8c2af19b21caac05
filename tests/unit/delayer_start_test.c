/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <semaphore.h>
#include <time.h>

#include "consumer.h"
#include "metrics.h"
#include "mock_fixture.h"
#include "strays.h"
#include "worker.h"

int __wrap_rp_strays_find(const struct rp_config *config, const atomic_bool *looks_no_more,
                          rp_stray_fn *tell, void *opaque, struct rp_error *err);
int __wrap_rp_consumer_new(const struct rp_config *config,
                           const struct rp_consumer_options *options,
                           const struct rp_consumer_owner *owner, struct rp_consumer **out,
                           struct rp_error *err);

#define PATIENCE_S 20

static sem_t joins;
static int told, told_beside_it;
static bool told_to_stop, joined;

int __wrap_rp_strays_find(const struct rp_config *config, const atomic_bool *looks_no_more,
                          rp_stray_fn *tell, void *opaque, struct rp_error *err)
{
    (void)config;
    (void)tell;
    (void)opaque;
    (void)err;
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    told_beside_it = sem_timedwait(&joins, &end) == 0;
    for (time_t until = end.tv_sec; end.tv_sec <= until && !atomic_load(looks_no_more);)
        (void)clock_gettime(CLOCK_REALTIME, &end);
    told_to_stop = atomic_load(looks_no_more);
    told++;
    return 0;
}

int __wrap_rp_consumer_new(const struct rp_config *config,
                           const struct rp_consumer_options *options,
                           const struct rp_consumer_owner *owner, struct rp_consumer **out,
                           struct rp_error *err)
{
    (void)config;
    (void)options;
    (void)owner;
    (void)out;
    joined = true;
    (void)sem_post(&joins);
    return rp_fail(err, RP_E_KAFKA, RP_FATAL, "the group is closed to us");
}

static int run(int index, bool stopped)
{
    struct mock mock;
    struct rp_error err;
    atomic_bool stop = stopped;
    told = told_beside_it = 0;
    told_to_stop = joined = false;
    assert_int_equal(sem_init(&joins, 0, 0), 0);
    mock_start(&mock, 1, "retry-1s");
    struct rp_config *config = mock_config(&mock);
    struct rp_worker w = {.config = config,
                          .metrics = rp_metrics_new(),
                          .instance = "one-0",
                          .index = index,
                          .stop = &stop,
                          .policies = rp_policies_ref(config->policies)};
    int rc = delayer_run(&w, &err);
    rp_policies_unref(w.policies);
    rp_metrics_free(w.metrics);
    rp_config_free(config);
    mock_stop(&mock);
    (void)sem_destroy(&joins);
    return rc;
}

/* It takes seconds, which tasks shall not wait for. */
static void unread_tiers_are_looked_for_beside_the_work(void **state)
{
    (void)state;
    assert_int_equal(run(0, false), -1);
    assert_int_equal(told_beside_it, 1);
    assert_int_equal(told, 1);
    assert_true(told_to_stop); /* who ends does not wait for it */
}

static void only_one_worker_tells(void **state)
{
    (void)state;
    assert_int_equal(run(1, false), -1);
    assert_int_equal(told, 0);
}

static void who_is_to_stop_before_it_is_ready_does_not_join(void **state)
{
    (void)state;
    assert_int_equal(run(1, true), 0);
    assert_false(joined);
    assert_int_equal(run(1, false), -1);
    assert_true(joined);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unread_tiers_are_looked_for_beside_the_work),
        cmocka_unit_test(only_one_worker_tells),
        cmocka_unit_test(who_is_to_stop_before_it_is_ready_does_not_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
