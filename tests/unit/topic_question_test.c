/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "topic_question.h"

#include <librdkafka/rdkafka_mock.h> /* which needs rdkafka.h before it */

struct fixture {
    rd_kafka_t *host; /* whose threads are the mock's */
    rd_kafka_mock_cluster_t *cluster;
    rd_kafka_t *client;
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
    f.host = new_client(NULL, NULL);
    f.cluster = rd_kafka_mock_cluster_new(f.host, 1);
    assert_non_null(f.cluster);
    /* The mock names broker 0 as its controller and numbers its own from 1. */
    assert_int_equal(rd_kafka_mock_broker_add(f.cluster, 0), 0);
    assert_int_equal(rd_kafka_mock_topic_create(f.cluster, "there", 1, 1), 0);
    f.client = new_client("bootstrap.servers", rd_kafka_mock_cluster_bootstraps(f.cluster));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rd_kafka_destroy(f->client);
    rd_kafka_mock_cluster_destroy(f->cluster);
    rd_kafka_destroy(f->host);
    return 0;
}

static enum rp_target_state ask(struct fixture *f, const char *topic)
{
    struct rp_topic_question q;
    rp_topic_question_ask(&q, f->client, topic);
    assert_true(rp_topic_question_wait(&q, 30000));
    enum rp_target_state state = q.state;
    assert_int_equal(q.max_bytes, RP_NO_LIMIT); /* the mock knows no topic's settings */
    rp_topic_question_end(&q);
    return state;
}

static void the_brokers_say_which_topic_is_there(void **state)
{
    assert_int_equal(ask(*state, "there"), RP_TARGET_USABLE);
    assert_int_equal(ask(*state, "missing"), RP_TARGET_MISSING);
}

static void a_late_answer_is_not_taken_for_the_next_one(void **state)
{
    struct fixture *f = *state;
    struct rp_topic_question q;
    rp_topic_question_ask(&q, f->client, "missing");
    rp_topic_question_end(&q);
    assert_int_equal(ask(f, "there"), RP_TARGET_USABLE);
    assert_int_equal(ask(f, "missing"), RP_TARGET_MISSING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_brokers_say_which_topic_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_late_answer_is_not_taken_for_the_next_one, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
