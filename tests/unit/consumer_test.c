/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "clock.h"
#include "config_fixture.h"
#include "consumer.h"
#include "mock_fixture.h"

#define TOPIC       "somewhere"
#define PATIENCE_MS 30000

enum { JOIN_GROUP = 11, HEARTBEAT = 12 };

struct owner {
    int assigned, revoked; /* partitions */
    int told;              /* how often some came, or none */
};

static void assigned(void *opaque, const rd_kafka_topic_partition_list_t *parts)
{
    struct owner *o = opaque;
    o->assigned += parts->cnt;
    o->told++;
}

static void revoked(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost)
{
    struct owner *o = opaque;
    assert_false(lost);
    o->revoked += parts->cnt;
}

static struct rp_config *config_with(const struct mock *m, const char *properties)
{
    char text[300];
    (void)snprintf(text, sizeof text,
                   "kafka: {bootstrap.servers: \"%s\", consumer: {fetch.wait.max.ms: 10, %s}}\n"
                   "targets: {allow: [x]}\n",
                   rd_kafka_mock_cluster_bootstraps(m->cluster), properties);
    return load_good(text);
}

static struct rp_consumer *join(struct mock *m, const struct rp_config *config, struct owner *seen)
{
    static char topic[] = TOPIC;
    static char *const topics[] = {topic};
    struct rp_consumer *c;
    struct rp_error err;
    const struct rp_consumer_options options = {
        .group = "a-group", .instance = "one-0", .topics = topics, .n_topics = 1};
    const struct rp_consumer_owner owner = {seen, assigned, revoked};
    rd_kafka_mock_group_initial_rebalance_delay_ms(m->cluster, 0);
    assert_int_equal(rp_consumer_new(config, &options, &owner, &c, &err), 0);
    assert_null(rp_consumer_membership(c, &err));
    assert_int_equal(err.cls, RP_RETRIABLE);
    int64_t end_mono_ms = rp_mono_ms() + PATIENCE_MS;
    while (seen->assigned == 0 && rp_mono_ms() < end_mono_ms)
        assert_null(rp_consumer_poll(c, 20));
    assert_int_equal(seen->assigned, 1);
    return c;
}

/* Also where the group shares its partitions out anew as a whole, as the configuration may have it:
 * they come held, and go when it leaves. */
static void a_member_gets_its_partitions_held_and_gives_them_back(void **state)
{
    struct mock mock;
    struct owner seen = {0};
    struct rp_error err;
    (void)state;
    mock_start(&mock, 1, TOPIC);
    mock_produce(&mock, TOPIC, 1);
    struct rp_config *config = config_with(&mock, "partition.assignment.strategy: range");
    struct rp_consumer *c = join(&mock, config, &seen);
    assert_int_equal(rp_kafka_begin(rp_consumer_handle(c), TOPIC, 0, 0, &err), 0);
    rd_kafka_message_t *m = rp_consumer_poll(c, PATIENCE_MS);
    assert_non_null(m);
    assert_int_equal(m->err, RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_message_destroy(m);
    rp_consumer_close(c);
    assert_int_equal(seen.revoked, 1);
    rp_config_free(config);
    mock_stop(&mock);
}

static void assert_commits(struct rp_consumer *c, int expected, struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    assert_int_equal(rp_consumer_commit(c, offsets, false, err), expected);
    rd_kafka_topic_partition_list_destroy(offsets);
}

static bool is_fenced(struct rp_consumer *c, int64_t patience_ms)
{
    int64_t end_mono_ms = rp_mono_ms() + patience_ms;
    rd_kafka_consumer_group_metadata_t *group;
    struct rp_error err;
    while ((group = rp_consumer_membership(c, &err)) != NULL || err.cls != RP_FATAL) {
        if (group != NULL)
            rd_kafka_consumer_group_metadata_destroy(group);
        if (rp_mono_ms() >= end_mono_ms)
            return false;
        assert_null(rp_consumer_poll(c, 20));
    }
    return err.code == RP_E_FENCED;
}

/* The broker refuses it as it joins again: librdkafka says nothing, and keeps its partitions. */
static void a_member_that_was_forgotten_has_no_right_to_what_it_had(void **state)
{
    struct mock mock;
    struct owner seen = {0};
    struct rp_error err;
    (void)state;
    mock_start(&mock, 1, TOPIC);
    struct rp_config *config =
        config_with(&mock, "heartbeat.interval.ms: 100, session.timeout.ms: 6000");
    struct rp_consumer *c = join(&mock, config, &seen);
    rd_kafka_consumer_group_metadata_t *group = rp_consumer_membership(c, &err);
    assert_non_null(group);
    rd_kafka_consumer_group_metadata_destroy(group);
    assert_commits(c, 0, &err);
    rd_kafka_mock_push_request_errors(mock.cluster, JOIN_GROUP, 1,
                                      RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID);
    rd_kafka_mock_push_request_errors(mock.cluster, HEARTBEAT, 1,
                                      RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS);
    assert_true(is_fenced(c, PATIENCE_MS));
    /* That it is told of its partitions again makes them no more its own. */
    int64_t end_mono_ms = rp_mono_ms() + PATIENCE_MS;
    while (seen.told == 1 && rp_mono_ms() < end_mono_ms)
        assert_null(rp_consumer_poll(c, 20));
    assert_int_equal(seen.told, 2);
    assert_int_equal(seen.revoked, 0);
    assert_true(is_fenced(c, 0));
    assert_commits(c, -1, &err);
    assert_int_equal(err.code, RP_E_FENCED);
    rp_consumer_close(c);
    rp_config_free(config);
    mock_stop(&mock);
}

/* It gives up what it has, leaves as one member, and is another one when that comes again. */
static void a_member_that_joins_again_has_left_before(void **state)
{
    struct mock mock;
    struct owner seen = {0};
    struct rp_error err;
    (void)state;
    mock_start(&mock, 1, TOPIC);
    struct rp_config *config = config_with(&mock, "heartbeat.interval.ms: 100");
    struct rp_consumer *c = join(&mock, config, &seen);
    char *before = rd_kafka_memberid(rp_consumer_handle(c));
    rp_consumer_rejoin(c);
    rp_consumer_rejoin(c); /* it does already */
    int64_t end_mono_ms = rp_mono_ms() + PATIENCE_MS;
    while (seen.assigned < 2 && rp_mono_ms() < end_mono_ms)
        assert_null(rp_consumer_poll(c, 20));
    assert_int_equal(seen.revoked, 1);
    assert_int_equal(seen.assigned, 2);
    char *after = rd_kafka_memberid(rp_consumer_handle(c));
    assert_string_not_equal(before, after);
    rd_kafka_mem_free(NULL, before);
    rd_kafka_mem_free(NULL, after);
    assert_commits(c, 0, &err);
    rp_consumer_close(c);
    assert_int_equal(seen.revoked, 2);
    rp_config_free(config);
    mock_stop(&mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_gets_its_partitions_held_and_gives_them_back),
        cmocka_unit_test(a_member_that_joins_again_has_left_before),
        cmocka_unit_test(a_member_that_was_forgotten_has_no_right_to_what_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
