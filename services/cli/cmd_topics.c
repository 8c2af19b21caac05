/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "kafka.h"
#include "log.h"
#include "policies.h"
#include "strays.h"
#include "topic_admin.h"

/* How long new topics may take until all of their partitions have leaders. */
#define LEADERS_MS 30000

struct session {
    struct rp_config *config;
    struct topic_admin *admin;
    int brokers; /* that the cluster has, those that are away among them */
    struct topic_plan plans[TOPIC_MAX_PLANS];
    int64_t kept_ms[TOPIC_MAX_PLANS]; /* retention.ms as it is; -1: without end, or not known */
    size_t n_plans;
    int64_t largest; /* max.message.bytes of failed-tasks, as it is or will be */
    size_t faults;
};

/* What failed-tasks takes now; 0 where it does not exist. */
static int read_largest(struct session *s, int64_t *out, struct rp_error *err)
{
    struct topic_state state;
    *out = 0;
    if (!topic_admin_has(s->admin, s->config->topics.failed_tasks))
        return 0;
    if (topic_admin_read(s->admin, s->config->topics.failed_tasks, &state, err) != 0)
        return -1;
    const char *value = topic_setting_value(&state, "max.message.bytes");
    *out = value == NULL ? 0 : strtoll(value, NULL, 10);
    topic_state_clear(&state);
    return 0;
}

/* Kafka names only brokers that are up, and for one that is away no topic may get fewer replicas.
 * What has no replicas yet is known from the settings, which not everybody may read. */
static int cluster_size(struct session *s)
{
    int away[TOPIC_MAX_AWAY], up = topic_admin_brokers(s->admin);
    int size = up + topic_admin_away(s->admin, away);
    struct topic_state broker;
    struct rp_error err;
    if (s->config->topics.replication_factor > 0 || size >= TOPIC_REPLICAS || up == 0)
        return size;
    if (topic_admin_read_broker(s->admin, topic_admin_broker_id(s->admin, 0), &broker, &err) != 0) {
        cli_error("%s: the cluster is taken for one of %d broker%s", err.text, size,
                  size == 1 ? "" : "s");
        return size;
    }
    size = topic_cluster_size(size, &broker);
    topic_state_clear(&broker);
    return size;
}

/* Connects and plans; returns an exit code. */
static int session_open(struct session *s, const struct cli_args *args)
{
    struct rp_error err;
    *s = (struct session){.config = cli_config_load(args)};
    if (s->config == NULL)
        return CLI_USAGE;
    rp_log_setup(RP_LOG_WARN, false, "reprise");
    if (topic_admin_new(s->config, &s->admin, &err) != 0 ||
        read_largest(s, &s->largest, &err) != 0) {
        cli_error("%s", err.text);
        return CLI_FAILED;
    }
    s->brokers = cluster_size(s);
    s->n_plans = topic_plans(s->config, s->brokers, s->largest, s->plans);
    if (s->largest < s->config->topics.max_message_bytes)
        s->largest = s->config->topics.max_message_bytes;
    return CLI_OK;
}

static void session_close(struct session *s)
{
    topic_admin_free(s->admin);
    rp_config_free(s->config);
}

static void print_fault(void *opaque, const struct topic_fault *f)
{
    struct session *s = opaque;
    static const char *const rules[] = {"", "at least ", "at most "};
    (void)printf("%s: %s is %s, needed %s%s: %s\n", f->where, f->setting, f->value, rules[f->rule],
                 f->need, f->why);
    s->faults++;
}

/* Why the cluster may have refused a topic. */
static void tell_away(const struct session *s)
{
    int away[TOPIC_MAX_AWAY], n = topic_admin_away(s->admin, away);
    int up = topic_admin_brokers(s->admin);
    char who[TOPIC_MAX_AWAY * 24] = "";
    if (s->config->topics.replication_factor > 0 || s->plans[0].replicas <= up)
        return;
    for (int i = 0, len = 0; i < n; i++)
        len += snprintf(who + len, sizeof who - (size_t)len, "%s%d",
                        i == 0 ? ", without " : " and ", away[i]);
    cli_error("by its topics and settings the cluster has %d brokers, and %d %s up%s: start the "
              "rest, or set topics.replication_factor to how many replicas are enough",
              s->brokers, up, up == 1 ? "is" : "are", who);
}

/* Creates what is missing; returns how many it could not create. */
static size_t create_missing(struct session *s, size_t *out_created)
{
    size_t failed = 0;
    for (size_t i = 0; i < s->n_plans; i++) {
        const struct topic_plan *p = &s->plans[i];
        struct rp_error err;
        bool created = false;
        if (!topic_admin_has(s->admin, p->topic) &&
            topic_admin_create(s->admin, p, &created, &err) != 0) {
            cli_error("%s", err.text);
            failed++;
            continue;
        }
        (void)printf("%s: %s", p->topic, created ? "created" : "exists\n");
        if (!created)
            continue;
        ++*out_created;
        (void)printf(", %d partitions, %d replica%s", p->partitions, p->replicas,
                     p->replicas == 1 ? "" : "s");
        for (size_t k = 0; k < p->n; k++)
            if (p->settings[k].create[0] != '\0')
                (void)printf(", %s=%s", p->settings[k].name, p->settings[k].create);
        (void)printf("\n");
    }
    return failed;
}

static const char *topic_without_leader(const struct session *s)
{
    for (size_t i = 0; i < s->n_plans; i++)
        if (!topic_admin_is_led(s->admin, s->plans[i].topic))
            return s->plans[i].topic;
    return NULL;
}

/* A service that starts before its topics have leaders would wait on them anyway; whoever calls
 * `apply` and then sends would not. */
static int wait_for_leaders(struct session *s, struct rp_error *err)
{
    int64_t end_mono_ms = rp_mono_ms() + LEADERS_MS;
    for (;;) {
        if (topic_admin_refresh(s->admin, err) != 0)
            return -1;
        const char *missing = topic_without_leader(s);
        if (missing == NULL)
            return 0;
        if (rp_mono_ms() > end_mono_ms)
            return rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "%s: partitions without a leader",
                           missing);
        (void)nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    }
}

/* What `alter` sets where a topic breaks a promise. */
static const char *wanted_value(const struct topic_plan *plan, const char *setting)
{
    for (size_t i = 0; i < plan->n; i++)
        if (strcmp(plan->settings[i].name, setting) == 0)
            return plan->settings[i].create[0] != '\0' ? plan->settings[i].create
                                                       : plan->settings[i].need;
    return NULL;
}

struct repair {
    struct session *session;
    const struct topic_plan *plan;
};

static void repair(void *opaque, const struct topic_fault *f)
{
    struct repair *r = opaque;
    struct rp_error err;
    const char *value = wanted_value(r->plan, f->setting);
    if (!f->alterable || value == NULL) {
        print_fault(r->session, f);
    } else if (topic_admin_alter(r->session->admin, f->where, f->setting, value, &err) != 0) {
        cli_error("%s", err.text);
        print_fault(r->session, f);
    } else {
        (void)printf("%s: altered %s from %s to %s\n", f->where, f->setting, f->value, value);
    }
}

static int check_own(struct session *s, const struct topic_plan *plan, bool alter,
                     struct rp_error *err)
{
    struct topic_state state;
    struct repair r = {s, plan};
    if (topic_admin_read(s->admin, plan->topic, &state, err) != 0)
        return -1;
    if (alter)
        (void)topic_check(plan, &state, repair, &r);
    else
        (void)topic_check(plan, &state, print_fault, s);
    if (state.partitions < plan->partitions)
        (void)printf("note: %s has %d partitions, and topics.partitions is %d: what is there is "
                     "left as it is; kafka-topics --alter adds some\n",
                     plan->topic, state.partitions, plan->partitions);
    topic_state_clear(&state);
    return 0;
}

static int apply(struct session *s, bool alter)
{
    struct rp_error err;
    size_t created = 0, failed = create_missing(s, &created);
    if (failed > 0) {
        tell_away(s);
        return created > 0 ? CLI_PARTLY : CLI_FAILED;
    }
    int rc = wait_for_leaders(s, &err);
    for (size_t i = 0; rc == 0 && i < s->n_plans; i++)
        rc = check_own(s, &s->plans[i], alter, &err);
    if (rc != 0) {
        cli_error("%s", err.text);
        return CLI_FAILED;
    }
    if (s->faults == 0)
        return CLI_OK;
    (void)printf("%zu setting%s above break%s a promise%s\n", s->faults, s->faults == 1 ? "" : "s",
                 s->faults == 1 ? "s" : "", alter ? "" : "; --alter mends what can be altered");
    return CLI_FAULTS;
}

static int run_apply(const struct cli_args *args)
{
    struct session s;
    int rc = session_open(&s, args);
    if (rc == CLI_OK)
        rc = apply(&s, cli_value(args, "alter") != NULL);
    session_close(&s);
    return rc;
}

static int print_own(struct session *s, size_t i, struct rp_error *err)
{
    const struct topic_plan *plan = &s->plans[i];
    struct topic_state state;
    s->kept_ms[i] = -1;
    if (!topic_admin_has(s->admin, plan->topic)) {
        (void)printf("%-32s %10s %8s %16s %16s\n", plan->topic, "missing", "-", "-", "-");
        return 0;
    }
    if (topic_admin_read(s->admin, plan->topic, &state, err) != 0)
        return -1;
    const char *retention = topic_setting_value(&state, "retention.ms");
    const char *largest = topic_setting_value(&state, "max.message.bytes");
    (void)printf("%-32s %10d %8d %16s %16s\n", plan->topic, state.partitions, state.replicas,
                 retention == NULL ? "?" : retention, largest == NULL ? "?" : largest);
    if (retention != NULL)
        s->kept_ms[i] = strtoll(retention, NULL, 10);
    topic_state_clear(&state);
    return 0;
}

static int check_topics(struct session *s, struct rp_error *err)
{
    (void)printf("%-32s %10s %8s %16s %16s\n", "TOPIC", "PARTITIONS", "REPLICAS", "RETENTION.MS",
                 "MAX.MESSAGE");
    for (size_t i = 0; i < s->n_plans; i++)
        if (print_own(s, i, err) != 0)
            return -1;
    (void)printf("\n");
    for (size_t i = 0; i < s->n_plans; i++) {
        if (!topic_admin_has(s->admin, s->plans[i].topic)) {
            (void)printf("%s: missing; 'reprise topics apply' creates it\n", s->plans[i].topic);
            s->faults++;
        } else if (check_own(s, &s->plans[i], false, err) != 0) {
            return -1;
        }
    }
    return 0;
}

/* A property of the services' own clients, in ms. */
static int client_ms(const struct session *s, enum rp_kafka_role role, const char *name,
                     int64_t *out, struct rp_error *err)
{
    char value[32] = "";
    size_t size = sizeof value;
    rd_kafka_conf_t *conf = rp_kafka_conf(s->config, role, err);
    if (conf == NULL)
        return -1;
    rd_kafka_conf_res_t rc = rd_kafka_conf_get(conf, name, value, &size);
    rd_kafka_conf_destroy(conf);
    if (rc != RD_KAFKA_CONF_OK)
        return rp_fail(err, RP_E_CONFIG, RP_FATAL, "%s cannot be read", name);
    *out = strtoll(value, NULL, 10);
    return 0;
}

/* What is no fault and yet good to know. */
static void print_notes(const struct session *s, const struct topic_state *broker)
{
    const char *minutes = topic_setting_value(broker, "offsets.retention.minutes");
    const char *creates = topic_setting_value(broker, "auto.create.topics.enable");
    if (minutes != NULL)
        (void)printf("note: a stop of routers and delayers is safe for %.1f days (%s: "
                     "offsets.retention.minutes is %s); after that, events and tasks in the tiers "
                     "are sent again\n",
                     (double)strtoll(minutes, NULL, 10) / (24 * 60), broker->name, minutes);
    for (size_t i = 0; i < s->n_plans; i++)
        if (s->plans[i].readers != NULL && s->kept_ms[i] >= 0)
            (void)printf("note: a stop of the %s is safe for %.1f days (%s: retention.ms is "
                         "%" PRId64 "); after that, %s are lost\n",
                         s->plans[i].readers, (double)s->kept_ms[i] / (24 * 60 * 60 * 1000),
                         s->plans[i].topic, s->kept_ms[i], s->plans[i].lost);
    if (creates != NULL && strcmp(creates, "true") == 0)
        (void)printf("note: %s: auto.create.topics.enable is true, so other clients may create a "
                     "topic by its misspelt name, or reprise's without the settings it needs\n",
                     broker->name);
}

static int check_brokers(struct session *s, struct rp_error *err)
{
    int64_t transaction_ms = 0, session_ms;
    int brokers = topic_admin_brokers(s->admin);
    if (s->config->guarantee == RP_EXACTLY_ONCE &&
        client_ms(s, RP_KAFKA_PRODUCER, "transaction.timeout.ms", &transaction_ms, err) != 0)
        return -1;
    if (client_ms(s, RP_KAFKA_CONSUMER, "session.timeout.ms", &session_ms, err) != 0)
        return -1;
    for (int i = 0; i < brokers; i++) {
        struct topic_state state;
        if (topic_admin_read_broker(s->admin, topic_admin_broker_id(s->admin, i), &state, err) !=
            0) {
            /* Who may not look cannot be told that all is well. */
            (void)printf("%s: none of a broker's settings can be vouched for\n", err->text);
            s->faults++;
            continue;
        }
        (void)topic_check_broker(&state, s->brokers, transaction_ms, session_ms, print_fault, s);
        if (i == 0)
            print_notes(s, &state);
        topic_state_clear(&state);
    }
    return 0;
}

/* Targets are others' topics: one that we may not look at keeps us from no other. */
static void check_target(struct session *s, const char *policy, const char *use, const char *target)
{
    struct topic_state state;
    struct rp_error err;
    if (target == NULL)
        return;
    if (!topic_admin_has(s->admin, target)) {
        (void)printf("%s: missing, the %s of policy %s: its tasks become dead letters "
                     "(NO_TARGET)\n",
                     target, use, policy);
        s->faults++;
        return;
    }
    if (topic_admin_read(s->admin, target, &state, &err) != 0) {
        (void)printf("%s: the %s of policy %s cannot be vouched for\n", err.text, use, policy);
        s->faults++;
        return;
    }
    (void)topic_check_target(&state, s->largest, print_fault, s);
    topic_state_clear(&state);
}

static void check_targets(struct session *s)
{
    const struct rp_policies *p = s->config->policies;
    for (size_t i = 0; i < p->n_items; i++) {
        const struct rp_policy *policy = &p->items[i];
        const char *name = rp_policy_name(policy);
        check_target(s, name, "target", rp_policy_target(policy));
        check_target(s, name, "fallback", rp_policy_fallback(policy));
    }
}

static void print_stray(void *opaque, const char *topic, bool retired, int64_t records)
{
    struct session *s = opaque;
    if (retired && records == 0)
        (void)printf("note: %s is retired and empty: take it out of tiers_retired, and delete it\n",
                     topic);
    else if (retired)
        (void)printf("note: %s is retired: up to %" PRId64 " tasks wait in it\n", topic, records);
    else
        (void)printf("%s: nobody reads it, and up to %" PRId64
                     " tasks wait in it for ever: name it "
                     "in tiers, or in tiers_retired to have it emptied\n",
                     topic, records);
    s->faults += !retired;
}

static int check(struct session *s)
{
    struct rp_error err;
    int failed =
        check_topics(s, &err) != 0 || rp_strays_find(s->config, NULL, print_stray, s, &err) != 0;
    if (!failed) {
        check_targets(s);
        failed = check_brokers(s, &err);
    }
    if (failed != 0) {
        cli_error("%s", err.text);
        return CLI_FAILED;
    }
    (void)printf("%zu fault%s\n", s->faults, s->faults == 1 ? "" : "s");
    return s->faults == 0 ? CLI_OK : CLI_FAULTS;
}

static int run_check(const struct cli_args *args)
{
    struct session s;
    int rc = session_open(&s, args);
    if (rc == CLI_OK)
        rc = check(&s);
    session_close(&s);
    return rc;
}

static const struct cli_option apply_options[] = {
    {"alter", NULL, "also change the settings of existing topics that break a promise"},
    {NULL, NULL, NULL},
};

const struct cli_command cmd_topics_apply = {
    .group = "topics",
    .name = "apply",
    .summary = "Creates the topics that are missing, with the settings that the promises need.",
    .about =
        "Prints what it did, and waits until the topics can be used. What is there already is\n"
        "left as it is, unless --alter is given; a setting of it that breaks a promise is\n"
        "printed, and the exit code is 3. May be run any number of times, also at once.\n\n"
        "A broker that is away makes no topic smaller. topics.replication_factor does.",
    .options = apply_options,
    .run = run_apply,
};

const struct cli_command cmd_topics_check = {
    .group = "topics",
    .name = "check",
    .summary = "Says which setting of topics, targets and brokers breaks which promise.",
    .about = "A line for each: where, the setting, its value, what is needed, and what breaks\n"
             "otherwise. The exit code is 3 where there is any. Changes nothing.",
    .run = run_check,
};
