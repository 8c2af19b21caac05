/* SPDX-License-Identifier: Apache-2.0 */
/* What the cluster may answer to `reprise topics`, played in place of librdkafka. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <librdkafka/rdkafka.h>

#include "clock_fixture.h"
#include "config_fixture.h"
#include "topic_admin.h"

static struct rp_config *config;
static struct topic_admin *admin;
static char something; /* only its address is used */

static struct {
    bool silent;
    rd_kafka_resp_err_t metadata, event, result; /* of the metadata, of a request, of its topic */
    size_t n_results;
    const char *words;
} cluster;

#define FAKE(type, name, args)                                                                     \
    type __wrap_##name args;                                                                       \
    type __wrap_##name args

FAKE(rd_kafka_resp_err_t, rd_kafka_metadata,
     (rd_kafka_t * rk, int all, rd_kafka_topic_t *only, const struct rd_kafka_metadata **out,
      int timeout_ms))
{
    static int32_t on[] = {1, 4, 2, 5};
    static struct rd_kafka_metadata_broker up[] = {{.id = 2}, {.id = 1}};
    static struct rd_kafka_metadata_partition led[] = {
        {.leader = 1, .replicas = on, .replica_cnt = 3},
        {.leader = 2, .replicas = on + 1, .replica_cnt = 2}};
    static struct rd_kafka_metadata_partition leaderless[] = {
        {.leader = -1, .replicas = on + 3, .replica_cnt = 1}};
    static struct rd_kafka_metadata_topic topics[] = {
        {.topic = (char *)"led", .partition_cnt = 2, .partitions = led},
        {.topic = (char *)"leaderless", .partition_cnt = 1, .partitions = leaderless},
        {.topic = (char *)"empty", .partition_cnt = 0},
    };
    static const struct rd_kafka_metadata all_topics = {
        .brokers = up, .broker_cnt = 2, .topics = topics, .topic_cnt = 3};
    (void)rk;
    (void)all;
    (void)only;
    (void)timeout_ms;
    *out = &all_topics;
    return cluster.metadata;
}

FAKE(void, rd_kafka_metadata_destroy, (const struct rd_kafka_metadata *metadata))
{
    (void)metadata;
}

FAKE(rd_kafka_event_t *, rd_kafka_queue_poll, (rd_kafka_queue_t * queue, int timeout_ms))
{
    (void)queue;
    (void)timeout_ms;
    return cluster.silent ? NULL : (rd_kafka_event_t *)(void *)&something;
}

FAKE(rd_kafka_resp_err_t, rd_kafka_event_error, (rd_kafka_event_t * event))
{
    (void)event;
    return cluster.event;
}

FAKE(void, rd_kafka_event_destroy, (rd_kafka_event_t * event))
{
    (void)event;
}

/* A request that is asked for nothing, and its result. */
#define REQUEST(name, item)                                                                        \
    FAKE(void, rd_kafka_##name,                                                                    \
         (rd_kafka_t * rk, item * *items, size_t n, const rd_kafka_AdminOptions_t *options,        \
          rd_kafka_queue_t *queue))                                                                \
    {                                                                                              \
        (void)rk;                                                                                  \
        (void)items;                                                                               \
        (void)options;                                                                             \
        (void)queue;                                                                               \
        assert_int_equal(n, 1);                                                                    \
    }                                                                                              \
    FAKE(const rd_kafka_##name##_result_t *, rd_kafka_event_##name##_result,                       \
         (rd_kafka_event_t * event))                                                               \
    {                                                                                              \
        return (const void *)event;                                                                \
    }
REQUEST(DescribeConfigs, rd_kafka_ConfigResource_t)
REQUEST(CreateTopics, rd_kafka_NewTopic_t)
REQUEST(IncrementalAlterConfigs, rd_kafka_ConfigResource_t)

#define RESULTS(name, item)                                                                        \
    FAKE(const item **, rd_kafka_##name, (const void *result, size_t *n))                          \
    {                                                                                              \
        static const item *one;                                                                    \
        one = result;                                                                              \
        *n = cluster.n_results;                                                                    \
        return &one;                                                                               \
    }
RESULTS(DescribeConfigs_result_resources, rd_kafka_ConfigResource_t)
RESULTS(CreateTopics_result_topics, rd_kafka_topic_result_t)
RESULTS(IncrementalAlterConfigs_result_resources, rd_kafka_ConfigResource_t)

FAKE(rd_kafka_resp_err_t, rd_kafka_ConfigResource_error, (const rd_kafka_ConfigResource_t *r))
{
    (void)r;
    return cluster.result;
}

FAKE(rd_kafka_resp_err_t, rd_kafka_topic_result_error, (const rd_kafka_topic_result_t *r))
{
    (void)r;
    return cluster.result;
}

FAKE(const char *, rd_kafka_topic_result_error_string, (const rd_kafka_topic_result_t *r))
{
    (void)r;
    return cluster.words;
}

FAKE(const rd_kafka_ConfigEntry_t **, rd_kafka_ConfigResource_configs,
     (const rd_kafka_ConfigResource_t *r, size_t *n))
{
    static const rd_kafka_ConfigEntry_t *entries[2];
    entries[0] = entries[1] = (const void *)r;
    *n = 2;
    return entries;
}

static int asked;

FAKE(const char *, rd_kafka_ConfigEntry_name, (const rd_kafka_ConfigEntry_t *entry))
{
    (void)entry;
    return asked++ % 2 == 0 ? "retention.ms" : "password";
}

FAKE(const char *, rd_kafka_ConfigEntry_value, (const rd_kafka_ConfigEntry_t *entry))
{
    (void)entry;
    return asked % 2 == 0 ? "7" : NULL;
}

static int read_led(struct rp_error *err)
{
    struct topic_state state;
    int rc = topic_admin_read(admin, "led", &state, err);
    if (rc != 0)
        return -1;
    assert_int_equal(state.partitions, 2);
    assert_int_equal(state.replicas, 2);
    assert_string_equal(topic_setting_value(&state, "retention.ms"), "7");
    assert_string_equal(topic_setting_value(&state, "password"), "");
    topic_state_clear(&state);
    return 0;
}

static int create(struct rp_error *err)
{
    static const struct topic_plan plan = {.topic = "led", .partitions = 1, .replicas = 1};
    bool created;
    return topic_admin_create(admin, &plan, &created, err);
}

static int alter(struct rp_error *err)
{
    return topic_admin_alter(admin, "led", "retention.ms", "7", err);
}

static void an_answer_that_is_none_is_a_failure(void **state)
{
    (void)state;
    static int (*const requests[])(struct rp_error * err) = {read_led, create, alter};
    for (size_t i = 0; i < 3; i++) {
        struct rp_error err;
        assert_int_equal(requests[i](&err), 0);
        cluster.silent = true;
        assert_int_equal(requests[i](&err), -1);
        assert_int_equal(err.code, RP_E_TIMEOUT);
        assert_non_null(strstr(err.text, "led: "));
        assert_non_null(strstr(err.text, "no answer"));
        cluster.silent = false;
        cluster.event = RD_KAFKA_RESP_ERR__TIMED_OUT;
        assert_int_equal(requests[i](&err), -1);
        assert_non_null(strstr(err.text, "led: "));
        cluster.event = RD_KAFKA_RESP_ERR_NO_ERROR;
        cluster.n_results = 0;
        assert_int_equal(requests[i](&err), -1);
        cluster.n_results = 1;
        cluster.result = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        assert_int_equal(requests[i](&err), -1);
        assert_non_null(strstr(err.text, "led: "));
        cluster.result = RD_KAFKA_RESP_ERR_NO_ERROR;
    }
}

static void a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again(void **state)
{
    (void)state;
    struct rp_error err;
    cluster.result = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    assert_int_equal(read_led(&err), -1);
    assert_true(now_mono_ms >= 15000);
}

static void a_topic_that_somebody_else_made_is_no_failure(void **state)
{
    (void)state;
    static const struct topic_plan plan = {.topic = "led", .partitions = 1, .replicas = 1};
    static const struct topic_plan nameless = {.topic = "", .partitions = 1, .replicas = 1};
    struct rp_error err;
    bool created = true;
    cluster.result = RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS;
    assert_int_equal(topic_admin_create(admin, &plan, &created, &err), 0);
    assert_false(created);
    cluster.result = RD_KAFKA_RESP_ERR_POLICY_VIOLATION;
    cluster.words = "no topics on Sundays";
    assert_int_equal(topic_admin_create(admin, &plan, &created, &err), -1);
    assert_string_equal(err.text, "led: creating it: no topics on Sundays");
    assert_int_equal(topic_admin_create(admin, &nameless, &created, &err), -1);
}

static void a_topic_is_led_when_all_of_it_is(void **state)
{
    (void)state;
    assert_true(topic_admin_is_led(admin, "led"));
    assert_false(topic_admin_is_led(admin, "leaderless"));
    assert_false(topic_admin_is_led(admin, "empty"));
    assert_false(topic_admin_is_led(admin, "missing"));
    assert_false(topic_admin_has(admin, "missing"));
}

static void a_broker_that_has_replicas_and_is_not_up_is_away(void **state)
{
    (void)state;
    int away[TOPIC_MAX_AWAY];
    assert_int_equal(topic_admin_brokers(admin), 2);
    assert_int_equal(topic_admin_away(admin, away), 2);
    assert_int_equal(away[0], 4);
    assert_int_equal(away[1], 5);
}

static void without_metadata_there_is_no_admin(void **state)
{
    (void)state;
    struct topic_admin *none;
    struct rp_error err;
    cluster.metadata = RD_KAFKA_RESP_ERR__TRANSPORT;
    assert_int_equal(topic_admin_new(config, &none, &err), -1);
    assert_non_null(strstr(err.text, "reading the cluster's metadata"));
    assert_int_equal(topic_admin_refresh(admin, &err), -1);
}

static int open_admin(void **state)
{
    (void)state;
    struct rp_error err;
    memset(&cluster, 0, sizeof cluster);
    cluster.n_results = 1;
    now_mono_ms = 0;
    asked = 0;
    return topic_admin_new(config, &admin, &err);
}

static int close_admin(void **state)
{
    (void)state;
    topic_admin_free(admin);
    return 0;
}

int main(void)
{
    config = load_good("kafka: {bootstrap.servers: \"127.0.0.1:1\", log_level: 0}\n");
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_admin, close_admin)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_that_is_none_is_a_failure),
        TEST(a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again),
        TEST(a_topic_that_somebody_else_made_is_no_failure),
        TEST(a_topic_is_led_when_all_of_it_is),
        TEST(a_broker_that_has_replicas_and_is_not_up_is_away),
        TEST(without_metadata_there_is_no_admin),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rp_config_free(config);
    return failed;
}
