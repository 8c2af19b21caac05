/* SPDX-License-Identifier: Apache-2.0 */
#include "kafka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"

#define SEEK_MS       10000
#define LEAST_RDKAFKA 0x020e0000 /* as CMakeLists.txt has it */

static const struct rp_property common_defaults[] = {
    {"client.id", "reprise"},
    /* A target that does not exist becomes a dead letter; asking for it must not create it. */
    {"allow.auto.create.topics", "false"},
    {"log.connection.close", "false"},
    {"socket.nagle.disable", "true"},
    {"reconnect.backoff.ms", "50"},
    {"reconnect.backoff.max.ms", "2000"},
    /* A partition that waits for its leader, or for that to be asked how far it goes, is looked at
     * again when the topic's metadata come, and where what it waited for was lost, only then. And
     * who asks what they call the controller, which is any broker, waits for one that died until
     * metadata come that name another. */
    {"topic.metadata.refresh.interval.ms", "12000"},
};

static const struct rp_property consumer_defaults[] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"auto.offset.reset", "earliest"},
    {"isolation.level", "read_committed"},
    {"partition.assignment.strategy", "cooperative-sticky"},
    /* How long the partitions of a process that died stay without an owner. One that comes back
     * sooner takes them up at once, since members are static. */
    {"session.timeout.ms", "10000"},
    {"heartbeat.interval.ms", "2000"},
    {"max.poll.interval.ms", "300000"},
};

static const struct rp_property producer_defaults[] = {
    {"enable.idempotence", "true"},
    {"acks", "all"},
    /* The partitioner of Java's clients, so that a task returns to the partition it came from. */
    {"partitioner", "murmur2_random"},
    /* With the default of 100 ms, a transaction that begins while the one before is still being
     * completed waits out a whole back-off. It mostly takes less than this, the least there is. */
    {"retry.backoff.ms", "1"},
    /* How long a worker that died holds up the readers of what it had not committed. It must be
     * long enough to ask for a commit again once a broker's death was noticed (9 s by default): a
     * coordinator that is killed and back before that may complete the commit in some partitions by
     * what no other broker has, and then be deposed; what is left must not be aborted meanwhile. */
    {"transaction.timeout.ms", "30000"},
    /* A transaction's offsets wait, without a time-out, for the broker that librdkafka remembers as
     * the group's coordinator, also where it was dropped and made anew meanwhile, as in a rolling
     * restart. It asks who that is once any connection opens or closes: so idle ones do, and one is
     * opened for the topics' metadata now and then when all are closed. */
    {"connections.max.idle.ms", "10000"},
    /* What is too large is for the broker to say, by topic: see publisher.h. But it hangs up on a
     * request above its socket.request.max.bytes (100 MiB), and says nothing. */
    {"message.max.bytes", "100000000"},
};

int rp_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value,
                      struct rp_error *err)
{
    char text[200];
    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) != RD_KAFKA_CONF_OK)
        return rp_fail(err, RP_E_CONFIG, RP_FATAL, "kafka.%s: %s", name, text);
    return 0;
}

/* librdkafka's other names for what has a default of ours. */
static const char *alias_of(const char *name)
{
    static const char *const others[][2] = {
        {"message.timeout.ms", "delivery.timeout.ms"},
        {"linger.ms", "queue.buffering.max.ms"},
        {"fetch.message.max.bytes", "max.partition.fetch.bytes"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i][0]) == 0)
            return others[i][1];
    return name;
}

static bool is_stated(const struct rp_properties *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, name) == 0 ||
            strcmp(list->items[i].name, alias_of(name)) == 0)
            return true;
    return false;
}

int rp_kafka_conf_default(rd_kafka_conf_t *conf, const struct rp_config *config,
                          enum rp_kafka_role role, const struct rp_property *property,
                          struct rp_error *err)
{
    const struct rp_properties *own =
        role == RP_KAFKA_CONSUMER ? &config->kafka.consumer : &config->kafka.producer;
    if (is_stated(&config->kafka.common, property->name) || is_stated(own, property->name))
        return 0;
    return rp_kafka_conf_set(conf, property->name, property->value, err);
}

static int set_all(rd_kafka_conf_t *conf, const struct rp_property *items, size_t n,
                   struct rp_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (rp_kafka_conf_set(conf, items[i].name, items[i].value, err) != 0)
            return -1;
    return 0;
}

/* librdkafka logs by syslog's levels. What it calls an error mostly mends itself, and what does not
 * comes back to us from a call; so nothing here is above a warning. */
static void log_line(const rd_kafka_t *rk, int level, const char *fac, const char *text)
{
    rp_log(level <= 4 ? RP_LOG_WARN : RP_LOG_DEBUG, "kafka-client",
           rp_f_str("client", rk == NULL ? "-" : rd_kafka_name(rk)), rp_f_str("fac", fac),
           rp_f_str("text", text));
}

/* What it is set to, in the file or by librdkafka. */
static int64_t number_of(const rd_kafka_conf_t *conf, const char *name)
{
    char value[32];
    size_t size = sizeof value;
    return rd_kafka_conf_get(conf, name, value, &size) == RD_KAFKA_CONF_OK ? atoll(value) : 0;
}

/* The largest record that topics.max_message_bytes allows must come through. Where the file has
 * more fetched than this, librdkafka takes larger responses by itself, unless it is told a size. */
static int set_response_size(rd_kafka_conf_t *conf, const struct rp_config *config,
                             struct rp_error *err)
{
    static const struct rp_property size = {"receive.message.max.bytes", "105906176"}; /* 101 MiB */
    const int64_t most = 100 << 20;
    if (number_of(conf, "fetch.max.bytes") > most || number_of(conf, "message.max.bytes") > most)
        return 0;
    return rp_kafka_conf_default(conf, config, RP_KAFKA_CONSUMER, &size, err);
}

#define SET_DEFAULTS(conf, table, err) set_all(conf, table, sizeof table / sizeof *table, err)

static int fill(rd_kafka_conf_t *conf, const struct rp_config *config, enum rp_kafka_role role,
                struct rp_error *err)
{
    const struct rp_properties *common = &config->kafka.common, *own = NULL;
    if (SET_DEFAULTS(conf, common_defaults, err) != 0)
        return -1;
    if (role == RP_KAFKA_CONSUMER) {
        own = &config->kafka.consumer;
        if (SET_DEFAULTS(conf, consumer_defaults, err) != 0)
            return -1;
    } else if (role == RP_KAFKA_PRODUCER) {
        own = &config->kafka.producer;
        if (SET_DEFAULTS(conf, producer_defaults, err) != 0)
            return -1;
    }
    if (set_all(conf, common->items, common->n, err) != 0)
        return -1;
    if (own != NULL && set_all(conf, own->items, own->n, err) != 0)
        return -1;
    return role == RP_KAFKA_CONSUMER ? set_response_size(conf, config, err) : 0;
}

rd_kafka_conf_t *rp_kafka_conf(const struct rp_config *config, enum rp_kafka_role role,
                               struct rp_error *err)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, log_line);
    if (fill(conf, config, role, err) == 0)
        return conf;
    rd_kafka_conf_destroy(conf);
    return NULL;
}

int rp_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **out,
                 struct rp_error *err)
{
    char text[256];
    enum rp_error_class cls = RP_FATAL;
    *out = NULL;
    if (rd_kafka_version() < LEAST_RDKAFKA)
        (void)snprintf(text, sizeof text, "librdkafka %s was loaded, and 2.14 is needed",
                       rd_kafka_version_str());
    else if ((*out = rd_kafka_new(type, conf, text, sizeof text)) != NULL)
        return 0;
    else if (rd_kafka_last_error() == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE)
        cls = RP_RETRIABLE; /* no thread, say */
    rd_kafka_conf_destroy(conf);
    return rp_fail(err, RP_E_KAFKA, cls, "cannot make a Kafka client: %s", text);
}

/* Compressed records may be smaller than they look, and nothing says by how much. */
bool rp_kafka_compresses(const struct rp_config *config)
{
    char codec[16];
    size_t size = sizeof codec;
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_PRODUCER, NULL);
    bool plain = conf != NULL &&
                 rd_kafka_conf_get(conf, "compression.codec", codec, &size) == RD_KAFKA_CONF_OK &&
                 strcmp(codec, "none") == 0;
    if (conf != NULL)
        rd_kafka_conf_destroy(conf);
    return !plain;
}

int rp_kafka_new_admin(const struct rp_config *config, rd_kafka_t **out, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_ADMIN, err);
    return conf == NULL ? -1 : rp_kafka_new(RD_KAFKA_PRODUCER, conf, out, err);
}

int rp_kafka_new_group_client(const struct rp_config *config, const char *group, rd_kafka_t **out,
                              struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_CONSUMER, err);
    if (conf == NULL)
        return -1;
    if (rp_kafka_conf_set(conf, "group.id", group, err) == 0)
        return rp_kafka_new(RD_KAFKA_CONSUMER, conf, out, err);
    rd_kafka_conf_destroy(conf);
    return -1;
}

static enum rp_error_class class_of(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return RP_POISON;
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
        return RP_FATAL;
    default:
        return RP_RETRIABLE;
    }
}

static enum rp_error_code code_of(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
        return RP_E_FENCED;
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
        return RP_E_TIMEOUT;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
        return RP_E_RANGE;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        return RP_E_NOT_FOUND;
    default:
        return RP_E_KAFKA;
    }
}

int rp_kafka_fail(struct rp_error *err, rd_kafka_resp_err_t code, const char *doing)
{
    return rp_fail(err, code_of(code), class_of(code), "%s: %s (%s)", doing, rd_kafka_err2str(code),
                   rd_kafka_err2name(code));
}

int rp_kafka_fail_error(struct rp_error *err, rd_kafka_error_t *error, const char *doing)
{
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    enum rp_error_class cls = rd_kafka_error_is_fatal(error) ? RP_FATAL : class_of(code);
    (void)rp_fail(err, code_of(code), cls, "%s: %s (%s)", doing, rd_kafka_error_string(error),
                  rd_kafka_err2name(code));
    rd_kafka_error_destroy(error);
    return -1;
}

/* The first error among the partitions', OUTDATED only where there is no other. */
static rd_kafka_resp_err_t worst_of(const rd_kafka_topic_partition_list_t *parts)
{
    rd_kafka_resp_err_t worst = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int i = 0; i < parts->cnt; i++)
        if (parts->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR &&
            (worst == RD_KAFKA_RESP_ERR_NO_ERROR || worst == RD_KAFKA_RESP_ERR__OUTDATED))
            worst = parts->elems[i].err;
    return worst;
}

int rp_kafka_seek(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *offsets,
                  struct rp_error *err)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__OUTDATED;
    for (int tries = 0; tries < 2 && code == RD_KAFKA_RESP_ERR__OUTDATED; tries++) {
        rd_kafka_error_t *error = rd_kafka_seek_partitions(consumer, offsets, SEEK_MS);
        if (error != NULL)
            return rp_kafka_fail_error(err, error, "seek");
        code = worst_of(offsets);
    }
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, code, "seek");
}

static int seek_one(rd_kafka_t *consumer, const char *topic, int32_t partition, int64_t offset,
                    int32_t epoch, bool resume, struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *one = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *p = rd_kafka_topic_partition_list_add(one, topic, partition);
    p->offset = offset >= 0 ? offset : RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_topic_partition_set_leader_epoch(p, epoch);
    int rc = rp_kafka_seek(consumer, one, err);
    if (rc == 0 && resume)
        (void)rp_kafka_resume(consumer, one);
    rd_kafka_topic_partition_list_destroy(one);
    return rc;
}

int rp_kafka_seek_one(rd_kafka_t *consumer, const char *topic, int32_t partition, int64_t offset,
                      struct rp_error *err)
{
    return seek_one(consumer, topic, partition, offset, -1, false, err);
}

int rp_kafka_begin(rd_kafka_t *consumer, const char *topic, int32_t partition, int64_t offset,
                   struct rp_error *err)
{
    return seek_one(consumer, topic, partition, offset, -1, true, err);
}

int rp_kafka_resume_at(rd_kafka_t *consumer, const char *topic, int32_t partition, int64_t offset,
                       int32_t epoch, struct rp_error *err)
{
    return seek_one(consumer, topic, partition, offset, epoch, true, err);
}

int rp_kafka_look_back(rd_kafka_t *consumer, const rd_kafka_message_t *m, int64_t expected,
                       int32_t epoch, int32_t *looked, bool *back, struct rp_error *err)
{
    int32_t current = rd_kafka_message_leader_epoch(m);
    *back = epoch >= 0 && current > epoch && current > *looked && m->offset > expected;
    if (!*back)
        return 0;
    if (rp_kafka_seek_one(consumer, rd_kafka_topic_name(m->rkt), m->partition, expected, err) != 0)
        return -1;
    *looked = current;
    return 0;
}

int64_t rp_kafka_gone_to(rd_kafka_t *consumer, const char *topic, int32_t partition, int64_t next)
{
    int64_t low, high;
    bool known = rd_kafka_get_watermark_offsets(consumer, topic, partition, &low, &high) ==
                 RD_KAFKA_RESP_ERR_NO_ERROR;
    return known && low > next ? low : -1;
}

typedef rd_kafka_resp_err_t pause_fn(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *parts);

static rd_kafka_resp_err_t twice(pause_fn *how, rd_kafka_t *consumer,
                                 rd_kafka_topic_partition_list_t *parts)
{
    (void)how(consumer, parts);
    return how(consumer, parts);
}

rd_kafka_resp_err_t rp_kafka_pause(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *parts)
{
    return twice(rd_kafka_pause_partitions, consumer, parts);
}

rd_kafka_resp_err_t rp_kafka_resume(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *parts)
{
    return twice(rd_kafka_resume_partitions, consumer, parts);
}

rd_kafka_resp_err_t rp_kafka_set_paused(rd_kafka_t *consumer, const char *topic, int32_t partition,
                                        bool paused)
{
    rd_kafka_topic_partition_list_t *one = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(one, topic, partition);
    rd_kafka_resp_err_t code =
        paused ? rp_kafka_pause(consumer, one) : rp_kafka_resume(consumer, one);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = one->elems[0].err;
    rd_kafka_topic_partition_list_destroy(one);
    return code;
}

void rp_kafka_hold(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *parts)
{
    for (int i = 0; i < parts->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &parts->elems[i];
        parts->elems[i].offset = 0;
        /* What librdkafka does not know yet it does not pause; whose queue it was asked for it
         * does. */
        rd_kafka_queue_destroy(rd_kafka_queue_get_partition(consumer, p->topic, p->partition));
    }
    (void)rp_kafka_pause(consumer, parts);
}

int rp_kafka_headers(const rd_kafka_message_t *message, struct rp_arena *arena,
                     const struct rp_header **out, size_t *out_n, struct rp_error *err)
{
    rd_kafka_headers_t *list;
    *out = NULL;
    *out_n = 0;
    if (rd_kafka_message_headers(message, &list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    size_t n = rd_kafka_header_cnt(list);
    struct rp_header *headers = rp_arena_alloc(arena, n * sizeof *headers);
    if (headers == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu headers", n);
    for (size_t i = 0; i < n; i++) {
        const char *name;
        const void *value;
        size_t size;
        (void)rd_kafka_header_get_all(list, i, &name, &value, &size); /* i < n: cannot fail */
        headers[i] = (struct rp_header){rp_str(name), {value, size}};
    }
    *out = headers;
    *out_n = n;
    return 0;
}

int64_t rp_kafka_append_ms(const rd_kafka_message_t *message)
{
    rd_kafka_timestamp_type_t type;
    int64_t ms = rd_kafka_message_timestamp(message, &type);
    return type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE || ms < 0 ? -1 : ms;
}

rd_kafka_AdminOptions_t *rp_kafka_admin_options(rd_kafka_t *client, rd_kafka_admin_op_t request,
                                                int timeout_ms)
{
    char text[128];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(client, request);
    /* Fails only for a time out of range. */
    (void)rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, text, sizeof text);
    return options;
}

void rp_kafka_ask_offsets(rd_kafka_t *client, const char *group,
                          const rd_kafka_topic_partition_list_t *parts, rd_kafka_queue_t *queue)
{
    rd_kafka_AdminOptions_t *options = rp_kafka_admin_options(
        client, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS, RP_KAFKA_LONGEST_MS);
    /* Refused only for an option that the request does not have. */
    rd_kafka_error_destroy(rd_kafka_AdminOptions_set_require_stable_offsets(options, 1));
    rd_kafka_ListConsumerGroupOffsets_t *request =
        rd_kafka_ListConsumerGroupOffsets_new(group, parts);
    rd_kafka_ListConsumerGroupOffsets(client, &request, 1, options, queue);
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
    rd_kafka_AdminOptions_destroy(options);
}

void rp_kafka_ask_ends(rd_kafka_t *client, rd_kafka_topic_partition_list_t *parts,
                       rd_kafka_IsolationLevel_t isolation, int timeout_ms, rd_kafka_queue_t *queue)
{
    rd_kafka_AdminOptions_t *options =
        rp_kafka_admin_options(client, RD_KAFKA_ADMIN_OP_LISTOFFSETS, timeout_ms);
    rd_kafka_error_destroy(rd_kafka_AdminOptions_set_isolation_level(options, isolation));
    for (int i = 0; i < parts->cnt; i++)
        parts->elems[i].offset = RD_KAFKA_OFFSET_SPEC_LATEST;
    rd_kafka_ListOffsets(client, parts, options, queue);
    rd_kafka_AdminOptions_destroy(options);
}

int rp_kafka_read_offsets(rd_kafka_event_t *event, const rd_kafka_topic_partition_list_t **out,
                          struct rp_error *err)
{
    static const char doing[] = "ask for the offsets of a group";
    size_t n = 0;
    if (event == NULL)
        return rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "%s: no answer in time", doing);
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, rd_kafka_event_error(event), doing);
    const rd_kafka_group_result_t **groups = rd_kafka_ListConsumerGroupOffsets_result_groups(
        rd_kafka_event_ListConsumerGroupOffsets_result(event), &n);
    const rd_kafka_error_t *error = n == 1 ? rd_kafka_group_result_error(groups[0]) : NULL;
    if (error != NULL)
        return rp_kafka_fail(err, rd_kafka_error_code(error), doing);
    *out = n == 1 ? rd_kafka_group_result_partitions(groups[0]) : NULL;
    return *out != NULL ? 0 : rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "%s: an empty answer", doing);
}
