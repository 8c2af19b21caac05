/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "consumer.h"
#include "metrics.h"
#include "mock_fixture.h"
#include "worker.h"

/* What closing a consumer may still serve: partitions came while the worker was told to stop. */
int __wrap_rp_consumer_new(const struct rp_config *config,
                           const struct rp_consumer_options *options,
                           const struct rp_consumer_owner *owner, struct rp_consumer **out,
                           struct rp_error *err);
int __real_rp_consumer_new(const struct rp_config *config,
                           const struct rp_consumer_options *options,
                           const struct rp_consumer_owner *owner, struct rp_consumer **out,
                           struct rp_error *err);
void __wrap_rp_consumer_close(struct rp_consumer *c);
void __real_rp_consumer_close(struct rp_consumer *c);

static struct rp_consumer_owner worker;
static atomic_bool stop;
static int closed, joined;

int __wrap_rp_consumer_new(const struct rp_config *config,
                           const struct rp_consumer_options *options,
                           const struct rp_consumer_owner *owner, struct rp_consumer **out,
                           struct rp_error *err)
{
    worker = *owner;
    joined++;
    atomic_store(&stop, true);
    return __real_rp_consumer_new(config, options, owner, out, err);
}

void __wrap_rp_consumer_close(struct rp_consumer *c)
{
    if (c == NULL)
        return;
    rd_kafka_topic_partition_list_t *parts = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(parts, "failed-tasks", 0);
    worker.assigned(worker.opaque, parts);
    worker.revoked(worker.opaque, parts, false);
    rd_kafka_topic_partition_list_destroy(parts);
    closed++;
    __real_rp_consumer_close(c);
}

static int run(bool stopped)
{
    struct mock mock;
    struct rp_error err;
    closed = joined = 0;
    atomic_store(&stop, stopped);
    mock_start(&mock, 1, "failed-tasks");
    struct rp_config *config = mock_config(&mock);
    struct rp_worker w = {.config = config,
                          .metrics = rp_metrics_new(),
                          .instance = "one-0",
                          .stop = &stop,
                          .policies = rp_policies_ref(config->policies)};
    int rc = router_run(&w, &err);
    rp_policies_unref(w.policies);
    rp_metrics_free(w.metrics);
    rp_config_free(config);
    mock_stop(&mock);
    return rc;
}

static void partitions_may_come_while_a_worker_closes(void **state)
{
    (void)state;
    assert_int_equal(run(false), 0);
    assert_int_equal(joined, 1);
    assert_int_equal(closed, 1);
}

static void who_is_to_stop_before_it_is_ready_does_not_join(void **state)
{
    (void)state;
    assert_int_equal(run(true), 0);
    assert_int_equal(joined, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions_may_come_while_a_worker_closes),
        cmocka_unit_test(who_is_to_stop_before_it_is_ready_does_not_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
