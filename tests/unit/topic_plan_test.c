/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "topic_plan.h"

static char failed_tasks[] = "failed-tasks", tier_1s[] = "retry-1s", tier_10s[] = "retry-10s",
            dead_letter[] = "dead-letter";

static const struct rp_config config = {
    .tiers = {{1000, 10000, tier_1s}, {10000, 20000, tier_10s}},
    .n_tiers = 2,
    .topics = {.failed_tasks = failed_tasks,
               .dead_letter = dead_letter,
               .partitions = 8,
               .replication_factor = -1,
               .max_message_bytes = 1 << 20},
};

/* The faults that were told. */
static struct {
    size_t n;
    char settings[16][48];
    bool alterable[16];
} told;

static void remember(void *opaque, const struct topic_fault *f)
{
    (void)opaque;
    assert_true(told.n < 16);
    assert_true(f->why[0] != '\0' && f->need[0] != '\0');
    (void)snprintf(told.settings[told.n], sizeof told.settings[0], "%s=%s", f->setting, f->value);
    told.alterable[told.n++] = f->alterable;
}

static int setup(void **state)
{
    (void)state;
    told.n = 0;
    return 0;
}

static const char *created_with(const struct topic_plan *plan, const char *setting)
{
    for (size_t i = 0; i < plan->n; i++)
        if (strcmp(plan->settings[i].name, setting) == 0)
            return plan->settings[i].create;
    return "absent";
}

/* A topic exactly as the plan would create it, in a cluster with Kafka's defaults. */
struct made {
    struct rp_property properties[TOPIC_MAX_SETTINGS];
    struct topic_state state;
};

static void make(struct made *m, struct topic_plan *plan)
{
    static char unclean[] = "false";
    m->state = (struct topic_state){
        plan->topic, plan->partitions, plan->replicas, {m->properties, plan->n}};
    for (size_t i = 0; i < plan->n; i++) {
        struct topic_setting *s = &plan->settings[i];
        m->properties[i].name = (char *)(uintptr_t)s->name;
        m->properties[i].value = s->create[0] != '\0' ? s->create : unclean;
    }
}

static void set(struct made *m, const char *name, char *value)
{
    for (size_t i = 0; i < m->state.settings.n; i++)
        if (strcmp(m->properties[i].name, name) == 0)
            m->properties[i].value = value;
}

static void there_is_a_plan_for_each_topic_of_ours(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    assert_int_equal(topic_plans(&config, 1, 0, plans), 4);
    assert_string_equal(plans[0].topic, "failed-tasks");
    assert_string_equal(plans[2].topic, "retry-10s");
    assert_string_equal(plans[3].topic, "dead-letter");
    assert_int_equal(plans[3].partitions, 8);
}

static void a_tier_keeps_records_for_ever_by_the_brokers_clock(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    (void)topic_plans(&config, 1, 0, plans);
    assert_string_equal(created_with(&plans[1], "retention.ms"), "-1");
    assert_string_equal(created_with(&plans[1], "retention.bytes"), "-1");
    assert_string_equal(created_with(&plans[1], "message.timestamp.type"), "LogAppendTime");
    assert_string_equal(created_with(&plans[1], "cleanup.policy"), "delete");
    assert_string_equal(created_with(&plans[0], "retention.ms"), "604800000");
    assert_string_equal(created_with(&plans[3], "retention.ms"), "2592000000");
}

static void replicas_follow_the_brokers_up_to_three(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    (void)topic_plans(&config, 1, 0, plans);
    assert_int_equal(plans[0].replicas, 1);
    assert_string_equal(created_with(&plans[0], "min.insync.replicas"), "1");
    (void)topic_plans(&config, 5, 0, plans);
    assert_int_equal(plans[0].replicas, 3);
    assert_string_equal(created_with(&plans[0], "min.insync.replicas"), "2");
}

static void a_stated_replication_factor_is_taken(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    struct rp_config stated = config;
    stated.topics.replication_factor = 2;
    (void)topic_plans(&stated, 5, 0, plans);
    assert_int_equal(plans[1].replicas, 2);
    assert_string_equal(created_with(&plans[1], "min.insync.replicas"), "1");
}

static void what_fits_into_one_topic_fits_into_the_next(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    (void)topic_plans(&config, 1, 0, plans);
    assert_string_equal(created_with(&plans[0], "max.message.bytes"), "1048576");
    assert_string_equal(created_with(&plans[1], "max.message.bytes"), "1114112");
    assert_string_equal(created_with(&plans[3], "max.message.bytes"), "1179648");
}

static void a_larger_failed_tasks_makes_the_others_larger(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    (void)topic_plans(&config, 1, 8 << 20, plans);
    assert_string_equal(created_with(&plans[0], "max.message.bytes"), "1048576");
    assert_string_equal(created_with(&plans[1], "max.message.bytes"), "8454144");
    assert_string_equal(created_with(&plans[3], "max.message.bytes"), "8519680");
}

static void what_was_created_has_no_fault(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    for (int brokers = 1; brokers <= 4; brokers++) {
        size_t n = topic_plans(&config, brokers, 0, plans);
        for (size_t i = 0; i < n; i++) {
            struct made m;
            make(&m, &plans[i]);
            assert_int_equal(topic_check(&plans[i], &m.state, remember, NULL), 0);
        }
    }
}

static void a_topic_with_kafkas_defaults_breaks_what_it_breaks(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    struct made m;
    (void)topic_plans(&config, 1, 0, plans);
    make(&m, &plans[1]);
    set(&m, "retention.ms", (char[]){"604800000"});
    set(&m, "message.timestamp.type", (char[]){"CreateTime"});
    set(&m, "max.message.bytes", (char[]){"1048588"});
    assert_int_equal(topic_check(&plans[1], &m.state, remember, NULL), 3);
    assert_string_equal(told.settings[0], "max.message.bytes=1048588");
    assert_string_equal(told.settings[1], "retention.ms=604800000");
    assert_string_equal(told.settings[2], "message.timestamp.type=CreateTime");
    assert_true(told.alterable[0] && told.alterable[1] && told.alterable[2]);
}

static void a_longer_or_endless_retention_is_fine_where_some_is_enough(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    struct made m;
    (void)topic_plans(&config, 1, 0, plans);
    make(&m, &plans[0]);
    set(&m, "retention.ms", (char[]){"-1"});
    assert_int_equal(topic_check(&plans[0], &m.state, remember, NULL), 0);
    set(&m, "retention.ms", (char[]){"86400000"});
    assert_int_equal(topic_check(&plans[0], &m.state, remember, NULL), 0);
    set(&m, "retention.ms", (char[]){"86399999"});
    assert_int_equal(topic_check(&plans[0], &m.state, remember, NULL), 1);
}

static void too_few_replicas_are_a_fault_that_cannot_be_altered(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    struct made m;
    (void)topic_plans(&config, 3, 0, plans);
    make(&m, &plans[0]);
    m.state.replicas = 1;
    assert_int_equal(topic_check(&plans[0], &m.state, remember, NULL), 2);
    assert_string_equal(told.settings[0], "replication.factor=1");
    assert_false(told.alterable[0]);
    assert_string_equal(told.settings[1], "min.insync.replicas=2");
}

static void a_setting_that_the_broker_does_not_name_is_a_fault(void **state)
{
    (void)state;
    struct topic_plan plans[TOPIC_MAX_PLANS];
    struct topic_state empty = {.name = "retry-1s", .replicas = 1};
    (void)topic_plans(&config, 1, 0, plans);
    assert_int_equal(topic_check(&plans[1], &empty, remember, NULL), 6);
    assert_string_equal(told.settings[0], "max.message.bytes=unknown");
}

/* The settings of a broker by default, but for what differs in a test. */
static struct rp_property broker_defaults[] = {
    {(char[]){"offsets.retention.minutes"}, (char[]){"10080"}},
    {(char[]){"offset.metadata.max.bytes"}, (char[]){"4096"}},
    {(char[]){"offsets.topic.replication.factor"}, (char[]){"3"}},
    {(char[]){"transaction.state.log.replication.factor"}, (char[]){"3"}},
    {(char[]){"transaction.max.timeout.ms"}, (char[]){"900000"}},
    {(char[]){"group.max.session.timeout.ms"}, (char[]){"1800000"}},
    {(char[]){"group.min.session.timeout.ms"}, (char[]){"6000"}},
};
static const struct topic_state broker = {.name = "broker 1", .settings = {broker_defaults, 7}};

static void a_broker_with_defaults_has_no_fault(void **state)
{
    (void)state;
    assert_int_equal(topic_check_broker(&broker, 3, 15000, 10000, remember, NULL), 0);
    assert_int_equal(topic_check_broker(&broker, 1, 0, 6000, remember, NULL), 0);
}

static void a_broker_that_refuses_our_clients_has_faults(void **state)
{
    (void)state;
    assert_int_equal(topic_check_broker(&broker, 3, 900001, 5999, remember, NULL), 2);
    assert_string_equal(told.settings[0], "transaction.max.timeout.ms=900000");
    assert_string_equal(told.settings[1], "group.min.session.timeout.ms=6000");
    assert_int_equal(topic_check_broker(&broker, 3, 15000, 1800001, remember, NULL), 1);
}

static void a_cluster_has_as_many_brokers_as_it_puts_replicas_on(void **state)
{
    (void)state;
    struct rp_property settings[] = {
        {(char[]){"default.replication.factor"}, (char[]){"1"}},
        {(char[]){"offsets.topic.replication.factor"}, (char[]){"1"}},
    };
    const struct topic_state single = {.name = "broker 1", .settings = {settings, 2}};
    const struct topic_state silent = {.name = "broker 1"};
    assert_int_equal(topic_cluster_size(1, &single), 1);
    assert_int_equal(topic_cluster_size(1, &silent), 1);
    assert_int_equal(topic_cluster_size(2, &broker), 3);
    assert_int_equal(topic_cluster_size(5, &broker), 5);
    settings[0].value = (char[]){"2"};
    assert_int_equal(topic_cluster_size(1, &single), 2);
    settings[0].value = (char[]){"100000000000"};
    assert_int_equal(topic_cluster_size(1, &single), TOPIC_REPLICAS);
}

static void a_target_must_take_what_failed_tasks_takes(void **state)
{
    (void)state;
    struct rp_property p = {(char[]){"max.message.bytes"}, (char[]){"1048588"}};
    struct topic_state target = {.name = "payments", .settings = {&p, 1}};
    assert_int_equal(topic_check_target(&target, 1048576, remember, NULL), 0);
    assert_int_equal(topic_check_target(&target, 2097152, remember, NULL), 1);
}

#define PLAN_TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAN_TEST(there_is_a_plan_for_each_topic_of_ours),
        PLAN_TEST(a_tier_keeps_records_for_ever_by_the_brokers_clock),
        PLAN_TEST(replicas_follow_the_brokers_up_to_three),
        PLAN_TEST(a_stated_replication_factor_is_taken),
        PLAN_TEST(what_fits_into_one_topic_fits_into_the_next),
        PLAN_TEST(a_larger_failed_tasks_makes_the_others_larger),
        PLAN_TEST(what_was_created_has_no_fault),
        PLAN_TEST(a_topic_with_kafkas_defaults_breaks_what_it_breaks),
        PLAN_TEST(a_longer_or_endless_retention_is_fine_where_some_is_enough),
        PLAN_TEST(too_few_replicas_are_a_fault_that_cannot_be_altered),
        PLAN_TEST(a_setting_that_the_broker_does_not_name_is_a_fault),
        PLAN_TEST(a_broker_with_defaults_has_no_fault),
        PLAN_TEST(a_broker_that_refuses_our_clients_has_faults),
        PLAN_TEST(a_cluster_has_as_many_brokers_as_it_puts_replicas_on),
        PLAN_TEST(a_target_must_take_what_failed_tasks_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
