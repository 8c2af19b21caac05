/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "consumer.h"
#include "metrics.h"
#include "mock_fixture.h"
#include "strays.h"
#include "worker.h"

int __wrap_rp_strays_find(const struct rp_config *config, rp_stray_fn *tell, void *opaque,
                          struct rp_error *err);
int __wrap_rp_consumer_new(const struct rp_config *config,
                           const struct rp_consumer_options *options,
                           const struct rp_consumer_owner *owner, struct rp_consumer **out,
                           struct rp_error *err);

static int told, told_before_joining;

int __wrap_rp_strays_find(const struct rp_config *config, rp_stray_fn *tell, void *opaque,
                          struct rp_error *err)
{
    (void)config;
    (void)tell;
    (void)opaque;
    (void)err;
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
    told_before_joining = told;
    return rp_fail(err, RP_E_KAFKA, RP_FATAL, "the group is closed to us");
}

static void run(int index)
{
    struct mock mock;
    struct rp_error err;
    atomic_bool stop = false;
    told = told_before_joining = 0;
    mock_start(&mock, 1, "retry-1s");
    struct rp_config *config = mock_config(&mock);
    struct rp_worker w = {.config = config,
                          .metrics = rp_metrics_new(),
                          .instance = "one-0",
                          .index = index,
                          .stop = &stop,
                          .policies = rp_policies_ref(config->policies)};
    assert_int_equal(delayer_run(&w, &err), -1);
    rp_policies_unref(w.policies);
    rp_metrics_free(w.metrics);
    rp_config_free(config);
    mock_stop(&mock);
}

/* It takes seconds, and a member that does not poll meanwhile holds up its group. */
static void unread_tiers_are_told_of_before_the_group_is_joined(void **state)
{
    (void)state;
    run(0);
    assert_int_equal(told_before_joining, 1);
    assert_int_equal(told, 1);
}

static void only_one_worker_tells(void **state)
{
    (void)state;
    run(1);
    assert_int_equal(told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unread_tiers_are_told_of_before_the_group_is_joined),
        cmocka_unit_test(only_one_worker_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
