/* SPDX-License-Identifier: Apache-2.0 */
#include "topic_admin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "kafka.h"

#define TIMEOUT_MS 15000
#define HEARSAY_MS 100

struct topic_admin {
    rd_kafka_t *rk;
    rd_kafka_queue_t *answers;
    const struct rd_kafka_metadata *metadata;
};

int topic_admin_refresh(struct topic_admin *a, struct rp_error *err)
{
    const struct rd_kafka_metadata *fresh;
    rd_kafka_resp_err_t code = rd_kafka_metadata(a->rk, 1, NULL, &fresh, TIMEOUT_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, code, "reading the cluster's metadata");
    if (a->metadata != NULL)
        rd_kafka_metadata_destroy(a->metadata);
    a->metadata = fresh;
    return 0;
}

int topic_admin_new(const struct rp_config *config, struct topic_admin **out, struct rp_error *err)
{
    struct topic_admin *a = calloc(1, sizeof *a);
    if (a == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a Kafka client");
    if (rp_kafka_new_admin(config, &a->rk, err) != 0) {
        free(a);
        return -1;
    }
    a->answers = rd_kafka_queue_new(a->rk);
    if (topic_admin_refresh(a, err) != 0) {
        topic_admin_free(a);
        return -1;
    }
    *out = a;
    return 0;
}

void topic_admin_free(struct topic_admin *a)
{
    if (a == NULL)
        return;
    if (a->metadata != NULL)
        rd_kafka_metadata_destroy(a->metadata);
    rd_kafka_queue_destroy(a->answers);
    rd_kafka_destroy(a->rk);
    free(a);
}

int topic_admin_brokers(const struct topic_admin *a)
{
    return a->metadata->broker_cnt;
}

int topic_admin_broker_id(const struct topic_admin *a, int i)
{
    return a->metadata->brokers[i].id;
}

static bool is_up(const struct topic_admin *a, int id)
{
    for (int i = 0; i < a->metadata->broker_cnt; i++)
        if (a->metadata->brokers[i].id == id)
            return true;
    return false;
}

static bool is_among(const int *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

int topic_admin_away(const struct topic_admin *a, int ids[TOPIC_MAX_AWAY])
{
    int n = 0;
    for (int t = 0; t < a->metadata->topic_cnt; t++)
        for (int i = 0; i < a->metadata->topics[t].partition_cnt; i++) {
            const struct rd_kafka_metadata_partition *p = &a->metadata->topics[t].partitions[i];
            for (int k = 0; k < p->replica_cnt && n < TOPIC_MAX_AWAY; k++)
                if (!is_up(a, p->replicas[k]) && !is_among(ids, n, p->replicas[k]))
                    ids[n++] = p->replicas[k];
        }
    return n;
}

static const struct rd_kafka_metadata_topic *find(const struct topic_admin *a, const char *topic)
{
    for (int i = 0; i < a->metadata->topic_cnt; i++)
        if (strcmp(a->metadata->topics[i].topic, topic) == 0)
            return &a->metadata->topics[i];
    return NULL;
}

bool topic_admin_has(const struct topic_admin *a, const char *topic)
{
    return find(a, topic) != NULL;
}

bool topic_admin_is_led(const struct topic_admin *a, const char *topic)
{
    const struct rd_kafka_metadata_topic *t = find(a, topic);
    if (t == NULL || t->partition_cnt == 0)
        return false;
    for (int i = 0; i < t->partition_cnt; i++)
        if (t->partitions[i].leader < 0)
            return false;
    return true;
}

/* Waits for the answer to an admin request; the caller destroys *out. */
static int wait_for(struct topic_admin *a, const char *doing, rd_kafka_event_t **out,
                    struct rp_error *err)
{
    *out = rd_kafka_queue_poll(a->answers, TIMEOUT_MS + 1000);
    if (*out == NULL)
        return rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "%s: no answer", doing);
    rd_kafka_resp_err_t code = rd_kafka_event_error(*out);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    (void)rp_kafka_fail(err, code, doing);
    rd_kafka_event_destroy(*out);
    return -1;
}

static rd_kafka_AdminOptions_t *options_new(struct topic_admin *a, rd_kafka_admin_op_t op)
{
    char text[128];
    rd_kafka_AdminOptions_t *o = rp_kafka_admin_options(a->rk, op, TIMEOUT_MS);
    /* Fails only for a time out of range. */
    if (op == RD_KAFKA_ADMIN_OP_CREATETOPICS)
        (void)rd_kafka_AdminOptions_set_operation_timeout(o, TIMEOUT_MS, text, sizeof text);
    return o;
}

static int copy_settings(const rd_kafka_ConfigResource_t *resource, struct rp_properties *out,
                         struct rp_error *err)
{
    size_t n;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &n);
    out->items = calloc(n + 1, sizeof *out->items);
    if (out->items == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for %zu settings", n);
    for (size_t i = 0; i < n; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);
        struct rp_property *p = &out->items[out->n];
        p->name = strdup(rd_kafka_ConfigEntry_name(entries[i]));
        p->value = strdup(value == NULL ? "" : value); /* secrets come without their value */
        out->n++;
        if (p->name == NULL || p->value == NULL)
            return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for %zu settings", n);
    }
    return 0;
}

/* *again: the broker knows of no such topic. */
static int ask_settings(struct topic_admin *a, rd_kafka_ResourceType_t type, const char *name,
                        struct rp_properties *out, bool *again, struct rp_error *err)
{
    rd_kafka_event_t *event;
    rd_kafka_ConfigResource_t *asked = rd_kafka_ConfigResource_new(type, name);
    rd_kafka_AdminOptions_t *options = options_new(a, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_DescribeConfigs(a->rk, &asked, 1, options, a->answers);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(asked);
    *again = false;
    if (wait_for(a, "reading settings", &event, err) != 0)
        return rp_fail_in(err, "%s", name);
    size_t n;
    const rd_kafka_ConfigResource_t **got =
        rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &n);
    int rc;
    rd_kafka_resp_err_t code =
        n == 1 ? rd_kafka_ConfigResource_error(got[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
    *again = code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        rc = copy_settings(got[0], out, err);
    else
        rc = rp_kafka_fail(err, code, "reading settings");
    rd_kafka_event_destroy(event);
    return rc == 0 ? 0 : rp_fail_in(err, "%s", name);
}

/* We are asked only of what is there, but a broker may not have heard yet of a topic that was made
 * a moment ago. */
static int read_settings(struct topic_admin *a, rd_kafka_ResourceType_t type, const char *name,
                         struct rp_properties *out, struct rp_error *err)
{
    int64_t until_mono_ms = rp_mono_ms() + TIMEOUT_MS;
    bool again;
    while (ask_settings(a, type, name, out, &again, err) != 0) {
        if (!again || rp_mono_ms() >= until_mono_ms)
            return -1;
        (void)usleep(HEARSAY_MS * 1000);
    }
    return 0;
}

static int read_state(struct topic_admin *a, rd_kafka_ResourceType_t type, const char *asked,
                      const char *shown, struct topic_state *out, struct rp_error *err)
{
    *out = (struct topic_state){.name = strdup(shown)};
    if (out->name == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a name");
    if (read_settings(a, type, asked, &out->settings, err) == 0)
        return 0;
    topic_state_clear(out);
    return -1;
}

int topic_admin_read(struct topic_admin *a, const char *topic, struct topic_state *out,
                     struct rp_error *err)
{
    if (read_state(a, RD_KAFKA_RESOURCE_TOPIC, topic, topic, out, err) != 0)
        return -1;
    const struct rd_kafka_metadata_topic *t = find(a, topic);
    out->partitions = t->partition_cnt;
    for (int i = 0; i < t->partition_cnt; i++)
        if (i == 0 || t->partitions[i].replica_cnt < out->replicas)
            out->replicas = t->partitions[i].replica_cnt;
    return 0;
}

int topic_admin_read_broker(struct topic_admin *a, int id, struct topic_state *out,
                            struct rp_error *err)
{
    char asked[16], shown[32];
    (void)snprintf(asked, sizeof asked, "%d", id);
    (void)snprintf(shown, sizeof shown, "broker %d", id);
    return read_state(a, RD_KAFKA_RESOURCE_BROKER, asked, shown, out, err);
}

void topic_state_clear(struct topic_state *state)
{
    for (size_t i = 0; i < state->settings.n; i++) {
        free(state->settings.items[i].name);
        free(state->settings.items[i].value);
    }
    free(state->settings.items);
    free((char *)(uintptr_t)state->name);
    *state = (struct topic_state){0};
}

static rd_kafka_NewTopic_t *new_topic(const struct topic_plan *plan, struct rp_error *err)
{
    char text[256];
    rd_kafka_NewTopic_t *t =
        rd_kafka_NewTopic_new(plan->topic, plan->partitions, plan->replicas, text, sizeof text);
    if (t == NULL) {
        (void)rp_fail(err, RP_E_INVALID, RP_FATAL, "%s: %s", plan->topic, text);
        return NULL;
    }
    for (size_t i = 0; i < plan->n; i++) {
        const struct topic_setting *s = &plan->settings[i];
        if (s->create[0] != '\0' && rd_kafka_NewTopic_set_config(t, s->name, s->create) != 0) {
            (void)rp_fail(err, RP_E_INVALID, RP_FATAL, "%s: bad setting %s", plan->topic, s->name);
            rd_kafka_NewTopic_destroy(t);
            return NULL;
        }
    }
    return t;
}

int topic_admin_create(struct topic_admin *a, const struct topic_plan *plan, bool *out_created,
                       struct rp_error *err)
{
    rd_kafka_event_t *event;
    rd_kafka_NewTopic_t *topic = new_topic(plan, err);
    if (topic == NULL)
        return -1;
    rd_kafka_AdminOptions_t *options = options_new(a, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_CreateTopics(a->rk, &topic, 1, options, a->answers);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(topic);
    if (wait_for(a, "creating it", &event, err) != 0)
        return rp_fail_in(err, "%s", plan->topic);
    size_t n;
    const rd_kafka_topic_result_t **got =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
    rd_kafka_resp_err_t code =
        n == 1 ? rd_kafka_topic_result_error(got[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
    const char *words = n == 1 ? rd_kafka_topic_result_error_string(got[0]) : NULL;
    int rc = 0;
    *out_created = code == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (!*out_created && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        rc = rp_fail(err, RP_E_KAFKA, RP_FATAL, "%s: creating it: %s", plan->topic,
                     words == NULL ? rd_kafka_err2str(code) : words);
    rd_kafka_event_destroy(event);
    return rc;
}

int topic_admin_alter(struct topic_admin *a, const char *topic, const char *setting,
                      const char *value, struct rp_error *err)
{
    rd_kafka_event_t *event;
    rd_kafka_ConfigResource_t *r = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_error_t *refused = rd_kafka_ConfigResource_add_incremental_config(
        r, setting, RD_KAFKA_ALTER_CONFIG_OP_TYPE_SET, value);
    if (refused != NULL) {
        rd_kafka_ConfigResource_destroy(r);
        return rp_kafka_fail_error(err, refused, setting);
    }
    rd_kafka_AdminOptions_t *options = options_new(a, RD_KAFKA_ADMIN_OP_INCREMENTALALTERCONFIGS);
    rd_kafka_IncrementalAlterConfigs(a->rk, &r, 1, options, a->answers);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(r);
    if (wait_for(a, "altering it", &event, err) != 0)
        return rp_fail_in(err, "%s: %s", topic, setting);
    size_t n;
    const rd_kafka_ConfigResource_t **got = rd_kafka_IncrementalAlterConfigs_result_resources(
        rd_kafka_event_IncrementalAlterConfigs_result(event), &n);
    rd_kafka_resp_err_t code =
        n == 1 ? rd_kafka_ConfigResource_error(got[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
    int rc = code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, code, "altering it");
    rd_kafka_event_destroy(event);
    return rc == 0 ? 0 : rp_fail_in(err, "%s: %s", topic, setting);
}
