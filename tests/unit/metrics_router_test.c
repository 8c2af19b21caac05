/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "metrics_router.h"

static struct rp_metrics *metrics;
static struct router_metrics m;

static int set_up(void **state)
{
    (void)state;
    metrics = rp_metrics_new();
    m = (struct router_metrics){0};
    router_metrics_init(&m, metrics);
    return metrics == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    router_metrics_clear(&m);
    rp_metrics_free(metrics);
    return 0;
}

static void route_some(int n)
{
    const struct route dead = {
        .kind = ROUTE_DEAD, .reason = RP_EXHAUSTED, .task_type = rp_str("mail"), .looped = true};
    for (int i = 0; i < n; i++)
        router_metrics_routed(&m, &dead);
}

static void assert_counted(int n)
{
    const struct rp_bytes labels[] = {rp_str("dead"), rp_str("mail"), rp_str("EXHAUSTED")};
    assert_int_equal((int)rp_series_value(rp_family_series(m.events, labels)), n);
    assert_int_equal((int)rp_series_value(m.loops), n);
}

static void commit(void)
{
    router_metrics_sent_off(&m);
    router_metrics_committed(&m, 1000);
}

static void what_is_committed_counts(void **state)
{
    (void)state;
    route_some(5);
    assert_counted(0);
    commit();
    assert_counted(5);
    commit();
    assert_counted(5);
}

static void what_is_routed_beside_it_counts_when_it_is_committed_itself(void **state)
{
    (void)state;
    route_some(5);
    router_metrics_sent_off(&m);
    route_some(3);
    router_metrics_committed(&m, 1000);
    assert_counted(5);
    commit();
    assert_counted(8);
}

static void what_is_aborted_and_comes_again_counts_once(void **state)
{
    (void)state;
    route_some(5);
    router_metrics_sent_off(&m);
    route_some(2);
    router_metrics_dropped(&m);
    route_some(5);
    commit();
    assert_counted(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(what_is_committed_counts),
        TEST(what_is_routed_beside_it_counts_when_it_is_committed_itself),
        TEST(what_is_aborted_and_comes_again_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
