/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "clock.h"
#include "targets.h"

#include <librdkafka/rdkafka_mock.h> /* which needs rdkafka.h before it */

static int64_t mono_ms = 1000000;
static int polls;
static bool silent; /* whoever waits for an answer is told that there is none */

int64_t __wrap_rp_mono_ms(void);
int64_t __wrap_rp_mono_ms(void)
{
    return mono_ms;
}

rd_kafka_event_t *__real_rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms);
rd_kafka_event_t *__wrap_rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms);
rd_kafka_event_t *__wrap_rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms)
{
    polls++;
    return silent ? NULL : __real_rd_kafka_queue_poll(queue, timeout_ms);
}

struct fixture {
    rd_kafka_t *host; /* whose threads are the mock's */
    rd_kafka_mock_cluster_t *cluster;
    rd_kafka_t *client;
    struct rp_targets *targets;
};

static rd_kafka_t *new_client(const char *name, const char *value)
{
    char text[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    assert_int_equal(
        rd_kafka_conf_set(conf, "allow.auto.create.topics", "false", text, sizeof text), 0);
    if (name != NULL)
        assert_int_equal(rd_kafka_conf_set(conf, name, value, text, sizeof text), 0);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    assert_non_null(rk);
    return rk;
}

/* The cluster is whole before the client meets it, which else might not look again in time. */
static int set_up(void **state)
{
    static struct fixture f;
    struct rp_error err;
    f.host = new_client(NULL, NULL);
    f.cluster = rd_kafka_mock_cluster_new(f.host, 1);
    assert_non_null(f.cluster);
    /* The mock names broker 0 as its controller and numbers its own from 1. */
    assert_int_equal(rd_kafka_mock_broker_add(f.cluster, 0), 0);
    assert_int_equal(rd_kafka_mock_topic_create(f.cluster, "there", 1, 1), 0);
    f.client = new_client("bootstrap.servers", rd_kafka_mock_cluster_bootstraps(f.cluster));
    assert_int_equal(rp_targets_new(f.client, &f.targets, &err), 0);
    silent = false;
    polls = 0;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_targets_free(f->targets);
    rd_kafka_destroy(f->client);
    rd_kafka_mock_cluster_destroy(f->cluster);
    rd_kafka_destroy(f->host);
    return 0;
}

static enum rp_target_state look(struct fixture *f, const char *topic)
{
    return rp_targets_state(f->targets, rp_str(topic));
}

static void a_state_is_asked_for_once(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(look(f, "missing"), RP_TARGET_MISSING);
    assert_int_equal(polls, 2);
}

static void a_late_answer_is_not_taken_for_the_next_one(void **state)
{
    struct fixture *f = *state;
    silent = true;
    assert_int_equal(look(f, "missing"), RP_TARGET_UNKNOWN);
    silent = false;
    mono_ms += 10000;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(look(f, "missing"), RP_TARGET_MISSING);
}

static void while_no_broker_answers_not_each_topic_waits(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE);
    silent = true;
    assert_int_equal(look(f, "a"), RP_TARGET_UNKNOWN);
    assert_int_equal(look(f, "b"), RP_TARGET_UNKNOWN);
    assert_int_equal(look(f, "a"), RP_TARGET_UNKNOWN);
    assert_int_equal(polls, 2);
    assert_int_equal(look(f, "there"), RP_TARGET_USABLE); /* what is known stays known */
    mono_ms += 1000;
    assert_int_equal(look(f, "b"), RP_TARGET_UNKNOWN);
    assert_int_equal(polls, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_state_is_asked_for_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_late_answer_is_not_taken_for_the_next_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(while_no_broker_answers_not_each_topic_waits, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
