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

struct owner {
    int assigned, revoked;
};

static void assigned(void *opaque, const rd_kafka_topic_partition_list_t *parts)
{
    struct owner *o = opaque;
    o->assigned += parts->cnt;
}

static void revoked(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost)
{
    struct owner *o = opaque;
    assert_false(lost);
    o->revoked += parts->cnt;
}

static struct rp_config *eager_config(const struct mock *m)
{
    char text[300];
    (void)snprintf(text, sizeof text,
                   "kafka: {bootstrap.servers: \"%s\", consumer: {fetch.wait.max.ms: 10,"
                   " partition.assignment.strategy: range}}\n"
                   "targets: {allow: [x]}\n",
                   rd_kafka_mock_cluster_bootstraps(m->cluster));
    return load_good(text);
}

/* Also where the group shares its partitions out anew as a whole, as the configuration may have it:
 * they come held, and go when it leaves. */
static void a_member_gets_its_partitions_held_and_gives_them_back(void **state)
{
    static char topic[] = TOPIC;
    static char *const topics[] = {topic};
    struct mock mock;
    struct owner seen = {0};
    struct rp_consumer *c;
    struct rp_error err;
    const struct rp_consumer_options options = {
        .group = "a-group", .instance = "one-0", .topics = topics, .n_topics = 1};
    const struct rp_consumer_owner owner = {&seen, assigned, revoked};
    (void)state;
    mock_start(&mock, 1, TOPIC);
    rd_kafka_mock_group_initial_rebalance_delay_ms(mock.cluster, 0);
    mock_produce(&mock, TOPIC, 1);
    struct rp_config *config = eager_config(&mock);
    assert_int_equal(rp_consumer_new(config, &options, &owner, &c, &err), 0);
    int64_t end_mono_ms = rp_mono_ms() + PATIENCE_MS;
    while (seen.assigned == 0 && rp_mono_ms() < end_mono_ms)
        assert_null(rp_consumer_poll(c, 20));
    assert_int_equal(seen.assigned, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_gets_its_partitions_held_and_gives_them_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
