/* SPDX-License-Identifier: Apache-2.0 */
#include "topic_plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)
/* The frontier's state in the metadata of an offset commit: FRONTIER_METADATA_MAX. */
#define STATE_BYTES 1024

static struct topic_setting *add(struct topic_plan *plan, const char *name, const char *value,
                                 const char *why)
{
    assert(plan->n < TOPIC_MAX_SETTINGS);
    struct topic_setting *s = &plan->settings[plan->n++];
    *s = (struct topic_setting){.name = name, .rule = TOPIC_EQUALS, .why = why};
    (void)snprintf(s->create, sizeof s->create, "%s", value);
    (void)snprintf(s->need, sizeof s->need, "%s", value);
    return s;
}

static void add_at_least(struct topic_plan *plan, const char *name, int64_t create, int64_t need,
                         const char *why)
{
    struct topic_setting *s = add(plan, name, "", why);
    s->rule = TOPIC_AT_LEAST;
    (void)snprintf(s->create, sizeof s->create, "%" PRId64, create);
    (void)snprintf(s->need, sizeof s->need, "%" PRId64, need);
}

/* What all of reprise's topics need. */
static void add_common(struct topic_plan *plan, int64_t max_bytes, const char *too_large)
{
    add_at_least(plan, "max.message.bytes", max_bytes, max_bytes, too_large);
    add_at_least(plan, "min.insync.replicas", plan->replicas >= 3 ? 2 : 1,
                 plan->replicas >= 3 ? 2 : 1,
                 "the loss of one broker loses what it alone had acknowledged");
    (void)add(plan, "cleanup.policy", "delete",
              "compaction drops all but the newest task of a key");
    (void)add(plan, "retention.bytes", "-1", "a flood deletes tasks that nobody has read yet");
    add(plan, "unclean.leader.election.enable", "false",
        "a replica that lags may become leader, and what it lacks is lost")
        ->create[0] = '\0';
}

static void plan_failed_tasks(struct topic_plan *plan, int64_t max_bytes)
{
    add_common(plan, max_bytes, "producers cannot send tasks as large as the configuration says");
    plan->readers = "routers";
    plan->lost = "events";
    add_at_least(plan, "retention.ms", 7 * DAY_MS, DAY_MS,
                 "a router that is away for longer loses tasks");
    (void)add(plan, "message.timestamp.type", "LogAppendTime",
              "a producer with a wrong clock has its tasks deleted early or played late");
}

static void plan_tier(struct topic_plan *plan, int64_t max_bytes)
{
    add_common(plan, max_bytes, "a large task does not fit and becomes a dead letter");
    (void)add(plan, "retention.ms", "-1",
              "tasks that wait longer are deleted and never re-invoked");
    (void)add(plan, "message.timestamp.type", "LogAppendTime",
              "laps are counted from a client's clock, so tasks come early, late or twice");
}

static void plan_dead_letter(struct topic_plan *plan, int64_t max_bytes)
{
    add_common(plan, max_bytes, "the dead letter of a large task cannot be written");
    plan->readers = "archivers";
    plan->lost = "dead letters";
    add_at_least(plan, "retention.ms", 30 * DAY_MS, DAY_MS,
                 "an archiver that is away for longer loses dead letters");
    (void)add(plan, "message.timestamp.type", "LogAppendTime",
              "retention counts from a client's clock and may delete early");
}

static struct topic_plan *begin(struct topic_plan *plan, const struct rp_config *config,
                                int brokers, const char *topic)
{
    int wanted = config->topics.replication_factor;
    *plan = (struct topic_plan){.topic = topic, .partitions = config->topics.partitions};
    plan->replicas = wanted > 0 ? wanted : brokers < TOPIC_REPLICAS ? brokers : TOPIC_REPLICAS;
    return plan;
}

size_t topic_plans(const struct rp_config *config, int brokers, int64_t largest,
                   struct topic_plan plans[TOPIC_MAX_PLANS])
{
    size_t n = 0;
    int64_t configured = config->topics.max_message_bytes;
    if (largest < configured)
        largest = configured;
    plan_failed_tasks(begin(&plans[n++], config, brokers, config->topics.failed_tasks), configured);
    for (size_t i = 0; i < config->n_tiers; i++)
        plan_tier(begin(&plans[n++], config, brokers, config->tiers[i].topic),
                  largest + TOPIC_TIER_ROOM);
    plan_dead_letter(begin(&plans[n++], config, brokers, config->topics.dead_letter),
                     largest + TOPIC_DEAD_LETTER_ROOM);
    return n;
}

const char *topic_setting_value(const struct topic_state *state, const char *name)
{
    for (size_t i = 0; i < state->settings.n; i++)
        if (strcmp(state->settings.items[i].name, name) == 0)
            return state->settings.items[i].value;
    return NULL;
}

static bool is_number(const char *text, int64_t *out)
{
    char *end;
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0';
}

static bool satisfies(const char *value, enum topic_rule rule, const char *need)
{
    int64_t is, wanted;
    if (rule == TOPIC_EQUALS)
        return strcmp(value, need) == 0;
    if (!is_number(value, &is) || !is_number(need, &wanted))
        return false;
    /* -1 is without end, for what Kafka counts in time and bytes. */
    if (rule == TOPIC_AT_LEAST)
        return is < 0 || is >= wanted;
    return is >= 0 && is <= wanted;
}

int topic_cluster_size(int known, const struct topic_state *broker)
{
    static const char *const factors[] = {"default.replication.factor",
                                          "offsets.topic.replication.factor"};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const char *value = topic_setting_value(broker, factors[i]);
        int64_t factor;
        if (value == NULL || !is_number(value, &factor))
            continue;
        factor = factor < TOPIC_REPLICAS ? factor : TOPIC_REPLICAS;
        known = known < factor ? (int)factor : known;
    }
    return known;
}

struct report {
    topic_fault_fn *fault;
    void *opaque;
    size_t n;
};

static void tell(struct report *r, struct topic_fault fault)
{
    r->n++;
    r->fault(r->opaque, &fault);
}

/* One setting of a topic or broker. One that the broker does not name cannot be vouched for. */
static void check_setting(struct report *r, const struct topic_state *state, const char *name,
                          enum topic_rule rule, const char *need, const char *why, bool alterable)
{
    const char *value = topic_setting_value(state, name);
    if (value == NULL)
        value = "unknown";
    if (!satisfies(value, rule, need))
        tell(r, (struct topic_fault){state->name, name, value, need, why, rule, alterable});
}

static void check_number(struct report *r, const struct topic_state *state, const char *name,
                         enum topic_rule rule, int64_t need, const char *why)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, need);
    check_setting(r, state, name, rule, text, why, false);
}

static void check_replicas(struct report *r, const struct topic_plan *plan,
                           const struct topic_state *state)
{
    char is[24], need[24];
    (void)snprintf(is, sizeof is, "%d", state->replicas);
    (void)snprintf(need, sizeof need, "%d", plan->replicas);
    if (state->replicas < plan->replicas)
        tell(r, (struct topic_fault){state->name, "replication.factor", is, need,
                                     "tasks are lost with the disks of fewer brokers",
                                     TOPIC_AT_LEAST, false});
    const char *in_sync = topic_setting_value(state, "min.insync.replicas");
    if (in_sync != NULL && !satisfies(in_sync, TOPIC_AT_MOST, is))
        tell(r, (struct topic_fault){state->name, "min.insync.replicas", in_sync, is,
                                     "it has fewer replicas than that, so nothing can be written",
                                     TOPIC_AT_MOST, false});
}

size_t topic_check(const struct topic_plan *plan, const struct topic_state *state,
                   topic_fault_fn *fault, void *opaque)
{
    struct report r = {fault, opaque, 0};
    check_replicas(&r, plan, state);
    for (size_t i = 0; i < plan->n; i++) {
        const struct topic_setting *s = &plan->settings[i];
        /* More than one of the replicas there are can only be asked for where there are three. */
        if (strcmp(s->name, "min.insync.replicas") == 0 && state->replicas < 3)
            continue;
        check_setting(&r, state, s->name, s->rule, s->need, s->why, true);
    }
    return r.n;
}

size_t topic_check_broker(const struct topic_state *broker, int brokers, int64_t transaction_ms,
                          int64_t session_ms, topic_fault_fn *fault, void *opaque)
{
    struct report r = {fault, opaque, 0};
    int64_t replicas = brokers < TOPIC_REPLICAS ? brokers : TOPIC_REPLICAS;
    check_number(
        &r, broker, "offsets.retention.minutes", TOPIC_AT_LEAST, 24 * 60,
        "after a longer stop the state of the tiers is forgotten, and tasks are sent twice");
    check_number(&r, broker, "offset.metadata.max.bytes", TOPIC_AT_LEAST, STATE_BYTES,
                 "the state of a tier's partition does not fit into an offset commit");
    check_number(&r, broker, "offsets.topic.replication.factor", TOPIC_AT_LEAST, replicas,
                 "the state of the tiers is lost with one broker's disk");
    check_number(&r, broker, "transaction.state.log.replication.factor", TOPIC_AT_LEAST, replicas,
                 "the outcome of transactions is lost with one broker's disk");
    if (transaction_ms > 0)
        check_number(&r, broker, "transaction.max.timeout.ms", TOPIC_AT_LEAST, transaction_ms,
                     "the services' transactions are refused, so they do not start");
    check_number(&r, broker, "group.max.session.timeout.ms", TOPIC_AT_LEAST, session_ms,
                 "the services are refused as members of their groups");
    check_number(&r, broker, "group.min.session.timeout.ms", TOPIC_AT_MOST, session_ms,
                 "the services are refused as members of their groups");
    return r.n;
}

size_t topic_check_target(const struct topic_state *target, int64_t largest, topic_fault_fn *fault,
                          void *opaque)
{
    struct report r = {fault, opaque, 0};
    check_number(&r, target, "max.message.bytes", TOPIC_AT_LEAST, largest,
                 "larger tasks become dead letters (OVERSIZED) instead of re-invocations");
    return r.n;
}
