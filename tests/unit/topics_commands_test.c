/* SPDX-License-Identifier: Apache-2.0 */
/* `reprise topics` on a cluster that is played: what it finds, does, and says when it is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli_fixture.h"
#include "clock_fixture.h"
#include "strays.h"
#include "topic_admin.h"

/* All that topics, brokers and targets must have. */
static const struct rp_property good[] = {
    {(char *)"max.message.bytes", (char *)"-1"},
    {(char *)"min.insync.replicas", (char *)"1"},
    {(char *)"cleanup.policy", (char *)"delete"},
    {(char *)"retention.bytes", (char *)"-1"},
    {(char *)"unclean.leader.election.enable", (char *)"false"},
    {(char *)"retention.ms", (char *)"-1"},
    {(char *)"message.timestamp.type", (char *)"LogAppendTime"},
    {(char *)"offsets.retention.minutes", (char *)"10080"},
    {(char *)"offset.metadata.max.bytes", (char *)"4096"},
    {(char *)"offsets.topic.replication.factor", (char *)"1"},
    {(char *)"transaction.state.log.replication.factor", (char *)"1"},
    {(char *)"transaction.max.timeout.ms", (char *)"900000"},
    {(char *)"group.max.session.timeout.ms", (char *)"1800000"},
    {(char *)"group.min.session.timeout.ms", (char *)"6000"},
    {(char *)"auto.create.topics.enable", (char *)"false"},
};
#define N_GOOD (sizeof good / sizeof *good)

static struct {
    const char *missing;              /* a topic, or "*"; until it is created */
    const char *where, *name, *value; /* a setting that is another; NULL: is none */
    int partitions, replicas;
    int up, away;
    bool leaderless, strays, created;
    int calls, refused_at;
} cluster;

static int answer(const char *asked, struct rp_error *err)
{
    if (++cluster.calls != cluster.refused_at)
        return 0;
    return rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "%s: refused", asked);
}

#define FAKE(type, name, args)                                                                     \
    type __wrap_##name args;                                                                       \
    type __wrap_##name args

FAKE(int, topic_admin_new,
     (const struct rp_config *config, struct topic_admin **out, struct rp_error *err))
{
    (void)config;
    *out = NULL;
    return answer("the cluster", err);
}

FAKE(int, topic_admin_refresh, (struct topic_admin * admin, struct rp_error *err))
{
    (void)admin;
    return answer("the metadata", err);
}

FAKE(int, topic_admin_brokers, (const struct topic_admin *admin))
{
    (void)admin;
    return cluster.up;
}

FAKE(int, topic_admin_away, (const struct topic_admin *admin, int ids[TOPIC_MAX_AWAY]))
{
    (void)admin;
    for (int i = 0; i < cluster.away; i++)
        ids[i] = 7 + i;
    return cluster.away;
}

FAKE(int, topic_admin_broker_id, (const struct topic_admin *admin, int i))
{
    (void)admin;
    return i;
}

FAKE(bool, topic_admin_has, (const struct topic_admin *admin, const char *topic))
{
    (void)admin;
    return cluster.missing == NULL ||
           (strcmp(cluster.missing, "*") != 0 && strcmp(cluster.missing, topic) != 0) ||
           cluster.created;
}

FAKE(bool, topic_admin_is_led, (const struct topic_admin *admin, const char *topic))
{
    (void)admin;
    (void)topic;
    return !cluster.leaderless || now_mono_ms == 1000;
}

static int state_of(const char *where, struct topic_state *out, struct rp_error *err)
{
    if (answer(where, err) != 0)
        return -1;
    struct rp_property *items = calloc(N_GOOD, sizeof *items);
    *out = (struct topic_state){.name = strdup(where),
                                .partitions = cluster.partitions,
                                .replicas = cluster.replicas,
                                .settings = {.items = items}};
    assert_non_null(items);
    for (size_t i = 0; i < N_GOOD; i++) {
        bool other = cluster.where != NULL && strcmp(cluster.where, where) == 0 &&
                     strcmp(cluster.name, good[i].name) == 0;
        if (other && cluster.value == NULL)
            continue;
        struct rp_property *p = &items[out->settings.n++];
        p->name = strdup(good[i].name);
        p->value = strdup(other ? cluster.value : good[i].value);
    }
    return 0;
}

FAKE(int, topic_admin_read,
     (struct topic_admin * admin, const char *topic, struct topic_state *out, struct rp_error *err))
{
    (void)admin;
    return state_of(topic, out, err);
}

FAKE(int, topic_admin_read_broker,
     (struct topic_admin * admin, int id, struct topic_state *out, struct rp_error *err))
{
    (void)admin;
    assert_int_equal(id, 0);
    return state_of("broker 0", out, err);
}

FAKE(int, topic_admin_create,
     (struct topic_admin * admin, const struct topic_plan *plan, bool *out_created,
      struct rp_error *err))
{
    (void)admin;
    *out_created = true;
    if (answer(plan->topic, err) != 0)
        return -1;
    cluster.created |= strcmp(plan->topic, cluster.missing) == 0;
    return 0;
}

FAKE(int, topic_admin_alter,
     (struct topic_admin * admin, const char *topic, const char *setting, const char *value,
      struct rp_error *err))
{
    (void)admin;
    (void)value;
    assert_string_equal(topic, cluster.where);
    assert_string_equal(setting, cluster.name);
    return answer("altering it", err);
}

FAKE(void, topic_admin_free, (struct topic_admin * admin))
{
    (void)admin;
}

FAKE(int, rp_strays_find,
     (const struct rp_config *config, const atomic_bool *stop, rp_stray_fn *tell, void *opaque,
      struct rp_error *err))
{
    (void)config;
    (void)stop;
    if (cluster.strays) {
        tell(opaque, "retry-5s", true, 0);
        tell(opaque, "retry-6s", true, 5);
        tell(opaque, "retry-7s", false, 7);
    }
    return answer("the strays", err);
}

static int run(const char *words)
{
    cluster.calls = 0;
    cluster.created = false;
    return cli_run(cli_commands, words);
}

static int calm(void **state)
{
    (void)state;
    memset(&cluster, 0, sizeof cluster);
    cluster.partitions = 8;
    cluster.replicas = cluster.up = 1;
    now_mono_ms = 0;
    return 0;
}

static void a_cluster_that_is_as_it_must_be_has_no_fault(void **state)
{
    (void)state;
    assert_int_equal(run("topics check"), CLI_OK);
    assert_printed("\n0 faults\n");
    assert_printed("note: a stop of routers and delayers is safe for 7.0 days (broker 0");
    assert_int_equal(run("topics apply"), CLI_OK);
    assert_string_equal(printed, "failed-tasks: exists\nretry-1s: exists\ndead-letter: exists\n");
}

static void partitions_that_a_topic_lacks_are_told_of(void **state)
{
    (void)state;
    cluster.partitions = 4;
    assert_int_equal(run("topics check"), CLI_OK);
    assert_printed("note: retry-1s has 4 partitions, and topics.partitions is 8: ");
    assert_int_equal(run("topics apply"), CLI_OK);
    assert_printed("note: dead-letter has 4 partitions, and topics.partitions is 8: ");
}

static void it_says_how_long_who_reads_may_be_away(void **state)
{
    (void)state;
    cluster.where = "failed-tasks";
    cluster.name = "retention.ms";
    cluster.value = "172800000";
    assert_int_equal(run("topics check"), CLI_OK);
    assert_printed(
        "note: a stop of the routers is safe for 2.0 days (failed-tasks: retention.ms is "
        "172800000); after that, events are lost\n");
    assert_null(strstr(printed, "archivers")); /* dead letters are kept without end */
}

static void what_is_missing_is_created(void **state)
{
    (void)state;
    cluster.missing = "retry-1s";
    assert_int_equal(run("topics check"), CLI_FAULTS);
    assert_printed("retry-1s: missing; 'reprise topics apply' creates it\n");
    assert_printed("\n1 fault\n");
    assert_int_equal(run("topics apply"), CLI_OK);
    assert_printed("retry-1s: created, 8 partitions, 1 replica, max.message.bytes=");
    cluster.missing = "failed-tasks";
    assert_int_equal(run("topics apply"), CLI_OK);
    assert_printed("failed-tasks: created");
    cluster.missing = "last";
    assert_int_equal(run("topics check"), CLI_FAULTS);
    assert_printed("last: missing, the fallback of policy a: its tasks become dead letters");
}

static void what_cannot_be_created_is_said(void **state)
{
    (void)state;
    cluster.missing = "*";
    cluster.refused_at = 3;
    assert_int_equal(run("topics apply"), CLI_PARTLY);
    assert_printed("failed-tasks: refused");
    cluster.missing = "retry-1s";
    cluster.refused_at = 4;
    assert_int_equal(run("topics apply"), CLI_FAILED);
    assert_printed("retry-1s: refused");
    assert_printed("dead-letter: exists");
}

static void a_broker_that_is_away_makes_no_topic_smaller(void **state)
{
    (void)state;
    cluster.up = cluster.away = 1;
    cluster.replicas = 1;
    assert_int_equal(run("topics check"), CLI_FAULTS);
    assert_printed("retry-1s: replication.factor is 1, needed at least 2: ");
    cluster.away = 2;
    cluster.missing = "retry-1s";
    (void)run("topics apply");
    assert_printed("retry-1s: created, 8 partitions, 3 replicas, ");
    assert_printed("min.insync.replicas=2");
    cluster.refused_at = 3;
    assert_int_equal(run("topics apply"), CLI_FAILED);
    assert_printed("3 brokers, and 1 is up, without 7 and 8: ");
    assert_printed("topics.replication_factor");
}

static void where_brokers_have_no_replicas_yet_their_settings_say_how_many_there_are(void **state)
{
    (void)state;
    cluster.where = "broker 0";
    cluster.name = "offsets.topic.replication.factor";
    cluster.value = "3";
    cluster.missing = "retry-1s";
    (void)run("topics apply");
    assert_printed("retry-1s: created, 8 partitions, 3 replicas, ");
    cluster.refused_at = 4;
    assert_int_equal(run("topics apply"), CLI_FAILED);
    assert_printed("3 brokers, and 1 is up: ");
}

static void a_setting_that_breaks_a_promise_is_told_or_altered(void **state)
{
    (void)state;
    static const struct {
        const char *where, *name, *value, *found, *altered; /* NULL: it cannot be */
    } cases[] = {
        {"retry-1s", "cleanup.policy", "compact",
         "retry-1s: cleanup.policy is compact, needed "
         "delete: ",
         "retry-1s: altered cleanup.policy from compact to delete\n"},
        {"dead-letter", "unclean.leader.election.enable", "true",
         "is true, needed false: ", "from true to false\n"},
        {"failed-tasks", "retention.ms", NULL, "retention.ms is unknown, needed at least ",
         "from unknown to 604800000\n"},
        {"retry-1s", "max.message.bytes", NULL, "max.message.bytes is unknown, needed at least ",
         "from unknown to "},
        {"failed-tasks", "max.message.bytes", NULL, "is unknown, needed at least", "from unknown"},
        {"retry-1s", "min.insync.replicas", "2", "is 2, needed at most 1: ", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cluster.where = cases[i].where;
        cluster.name = cases[i].name;
        cluster.value = cases[i].value;
        cluster.refused_at = 0;
        assert_int_equal(run("topics check"), CLI_FAULTS);
        assert_printed(cases[i].found);
        assert_int_equal(run("topics apply"), CLI_FAULTS);
        assert_printed("1 setting above breaks a promise; --alter mends what can be altered\n");
        bool alterable = cases[i].altered[0] != '\0';
        assert_int_equal(run("topics apply --alter"), alterable ? CLI_OK : CLI_FAULTS);
        assert_printed(alterable ? cases[i].altered : "1 setting above breaks a promise\n");
    }
}

static void a_setting_that_may_not_be_altered_stays_a_fault(void **state)
{
    (void)state;
    cluster.where = "failed-tasks";
    cluster.name = "cleanup.policy";
    cluster.value = "compact";
    cluster.replicas = 0;
    assert_int_equal(run("topics apply --alter"), CLI_FAULTS);
    assert_printed("altered cleanup.policy");
    assert_printed("replication.factor is 0");
    assert_printed("settings above break a promise\n");
    cluster.replicas = 1;
    for (int n = 1; strstr(printed, "altering it: refused") == NULL; n++) {
        cluster.refused_at = n;
        int code = run("topics apply --alter");
        assert_true(code != CLI_OK || strstr(printed, "is taken for one of 1 broker\n") != NULL);
    }
    assert_printed("failed-tasks: cleanup.policy is compact");
}

static void each_answer_of_the_cluster_matters(void **state)
{
    (void)state;
    static const char *const commands[] = {"topics check", "topics apply"};
    for (size_t i = 0; i < 2; i++)
        for (int n = 1;; n++) {
            cluster.refused_at = n;
            int code = run(commands[i]);
            if (cluster.calls < n)
                break;
            bool passed_over = strstr(printed, "vouched for\n") != NULL;
            bool guessed = strstr(printed, "is taken for one of 1 broker\n") != NULL;
            if (code != (guessed ? CLI_OK : passed_over ? CLI_FAULTS : CLI_FAILED))
                fail_msg("%s: answer %d: exit code %d: %s", commands[i], n, code, printed);
            assert_printed("refused");
        }
}

static void a_target_that_may_not_be_looked_at_is_a_fault_and_the_rest_is_looked_at(void **state)
{
    (void)state;
    for (cluster.refused_at = 1;; cluster.refused_at++) {
        int code = run("topics check");
        assert_true(cluster.calls >= cluster.refused_at);
        if (strstr(printed, "first: refused") == NULL)
            continue;
        assert_int_equal(code, CLI_FAULTS);
        break;
    }
    assert_printed("first: refused: the target of policy a cannot be vouched for\n");
    assert_printed("note: a stop of routers and delayers is safe for 7.0 days (broker 0");
    assert_printed("\n1 fault\n");
}

static void topics_without_leaders_are_waited_for(void **state)
{
    (void)state;
    cluster.leaderless = true;
    assert_int_equal(run("topics apply"), CLI_OK);
    assert_int_equal(now_mono_ms, 1000);
    now_mono_ms = 2000;
    assert_int_equal(run("topics apply"), CLI_FAILED);
    assert_printed("failed-tasks: partitions without a leader");
    assert_true(now_mono_ms > 32000);
}

static void what_is_no_fault_is_noted(void **state)
{
    (void)state;
    cluster.strays = true;
    cluster.where = "broker 0";
    cluster.name = "auto.create.topics.enable";
    cluster.value = "true";
    assert_int_equal(run("topics check"), CLI_FAULTS);
    assert_printed("note: retry-5s is retired and empty");
    assert_printed("note: retry-6s is retired: up to 5 tasks wait in it\n");
    assert_printed("retry-7s: nobody reads it, and up to 7 tasks wait in it");
    assert_printed("note: broker 0: auto.create.topics.enable is true");
    assert_printed("\n1 fault\n");
    cluster.strays = false;
    cluster.value = NULL;
    assert_int_equal(run("topics check"), CLI_OK);
    cluster.name = "offsets.retention.minutes";
    assert_int_equal(run("topics check"), CLI_FAULTS);
    assert_printed("broker 0: offsets.retention.minutes is unknown");
}

int main(void)
{
    cli_configure("kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n"
                  "tiers: [1s]\n"
                  "targets: {allow: [\"*\"]}\n"
                  "postgres: {dsn: \"host=nowhere\"}\n"
                  "policies: {a: {target: first, fallback: last, max_attempts: 3}}\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_cluster_that_is_as_it_must_be_has_no_fault, calm),
        cmocka_unit_test_setup(partitions_that_a_topic_lacks_are_told_of, calm),
        cmocka_unit_test_setup(it_says_how_long_who_reads_may_be_away, calm),
        cmocka_unit_test_setup(what_is_missing_is_created, calm),
        cmocka_unit_test_setup(what_cannot_be_created_is_said, calm),
        cmocka_unit_test_setup(a_broker_that_is_away_makes_no_topic_smaller, calm),
        cmocka_unit_test_setup(
            where_brokers_have_no_replicas_yet_their_settings_say_how_many_there_are, calm),
        cmocka_unit_test_setup(a_setting_that_breaks_a_promise_is_told_or_altered, calm),
        cmocka_unit_test_setup(a_setting_that_may_not_be_altered_stays_a_fault, calm),
        cmocka_unit_test_setup(each_answer_of_the_cluster_matters, calm),
        cmocka_unit_test_setup(
            a_target_that_may_not_be_looked_at_is_a_fault_and_the_rest_is_looked_at, calm),
        cmocka_unit_test_setup(topics_without_leaders_are_waited_for, calm),
        cmocka_unit_test_setup(what_is_no_fault_is_noted, calm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
