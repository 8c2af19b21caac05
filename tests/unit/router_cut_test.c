/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "guard.h"
#include "metrics.h"
#include "mock_fixture.h"
#include "outbox.h"
#include "positions.h"
#include "worker.h"

#define TOPIC "failed-tasks"
#define CUT   2 /* where a record takes the place of one that was cut off */

/* The mock cuts no logs, nor does it describe topics. */
bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record);
int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic);
enum position_kind __wrap_position_look(const struct position *known, int64_t offset,
                                        int32_t epoch);
int __wrap_rp_outbox_send(struct rp_outbox *o, const char *topic, int32_t partition, int64_t offset,
                          struct rp_outgoing *out, struct rp_error *err);
int __real_rp_outbox_send(struct rp_outbox *o, const char *topic, int32_t partition, int64_t offset,
                          struct rp_outgoing *out, struct rp_error *err);

void __wrap_guard_log_cut(struct guard *g, int32_t partition, int64_t offset, int64_t answered);
enum rp_published __wrap_rp_publisher_offsets(struct rp_publisher *p, struct rp_consumer *consumer,
                                              const rd_kafka_topic_partition_list_t *offsets,
                                              struct rp_error *err);
enum rp_published __real_rp_publisher_offsets(struct rp_publisher *p, struct rp_consumer *consumer,
                                              const rd_kafka_topic_partition_list_t *offsets,
                                              struct rp_error *err);

static atomic_bool stop;
static bool marked, met, fails; /* the next batch */
static int cuts;
static int64_t first_answered, last_answered;

/* Up to where events of the old log stay known. */
void __wrap_guard_log_cut(struct guard *g, int32_t partition, int64_t offset, int64_t answered)
{
    assert_non_null(g);
    assert_int_equal(partition, 0);
    assert_int_equal(offset, CUT);
    last_answered = answered;
    if (cuts++ == 0)
        first_answered = answered;
}

enum rp_published __wrap_rp_publisher_offsets(struct rp_publisher *p, struct rp_consumer *consumer,
                                              const rd_kafka_topic_partition_list_t *offsets,
                                              struct rp_error *err)
{
    if (!fails)
        return __real_rp_publisher_offsets(p, consumer, offsets, err);
    fails = false;
    (void)rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "not now");
    rp_publisher_abort(p, false);
    return RP_NOT_PUBLISHED;
}

bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record)
{
    (void)t;
    (void)record;
    return true;
}

int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic)
{
    (void)t;
    (void)topic;
    return RP_NO_LIMIT;
}

enum position_kind __wrap_position_look(const struct position *known, int64_t offset, int32_t epoch)
{
    (void)known;
    (void)epoch;
    return offset == CUT ? POSITION_CUT : POSITION_NEXT;
}

/* A record of the old log was out when its batch failed. */
int __wrap_rp_outbox_send(struct rp_outbox *o, const char *topic, int32_t partition, int64_t offset,
                          struct rp_outgoing *out, struct rp_error *err)
{
    if (!marked)
        assert_int_equal(rp_sent_add(&o->sent, topic, partition, CUT, err), 0);
    marked = true;
    if (offset == CUT) {
        assert_int_equal(o->n, 0); /* what is in a batch may still teach something */
        assert_false(rp_sent_has(&o->sent, topic, partition, CUT));
        met = true;
        atomic_store(&stop, true);
    }
    return __real_rp_outbox_send(o, topic, partition, offset, out, err);
}

static void run(void)
{
    struct mock mock;
    struct rp_error err;
    atomic_store(&stop, false);
    marked = met = false;
    cuts = 0;
    mock_start(&mock, 1, TOPIC);
    assert_int_equal(rd_kafka_mock_topic_create(mock.cluster, "dead-letter", 1, 1), 0);
    mock_produce(&mock, TOPIC, CUT + 1);
    struct rp_config *config = mock_config(&mock);
    struct rp_worker w = {.config = config,
                          .metrics = rp_metrics_new(),
                          .instance = "one-0",
                          .stop = &stop,
                          .policies = rp_policies_ref(config->policies)};
    assert_int_equal(router_run(&w, &err), 0);
    assert_true(met);
    rp_policies_unref(w.policies);
    rp_metrics_free(w.metrics);
    rp_config_free(config);
    mock_stop(&mock);
}

static void what_is_known_of_records_that_were_cut_off_is_forgotten(void **state)
{
    (void)state;
    run();
    assert_int_equal(first_answered, CUT);
}

/* Else a repeat of one for which nothing was sent would be dropped. */
static void so_is_what_the_failed_batch_had_of_them(void **state)
{
    (void)state;
    fails = true;
    run();
    assert_int_equal(first_answered, 0);
    assert_int_equal(last_answered, CUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_of_records_that_were_cut_off_is_forgotten),
        cmocka_unit_test(so_is_what_the_failed_batch_had_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
