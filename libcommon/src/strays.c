/* SPDX-License-Identifier: Apache-2.0 */
#include "strays.h"

#include <string.h>

#include "clock.h"
#include "kafka.h"
#include "units.h"

#define ASK_MS  5000
#define READ_MS 5000 /* of a topic */
#define ALL_MS  120000

/* How long it goes on. */
struct patience {
    const atomic_bool *stop; /* may be NULL */
    int64_t end_mono_ms;
};

static bool is_stopped(const struct patience *p)
{
    return p->stop != NULL && atomic_load(p->stop);
}

static bool is_over(const struct patience *p)
{
    return rp_mono_ms() >= p->end_mono_ms || is_stopped(p);
}

static bool is_named_like_a_tier(const struct rp_config *c, const char *topic)
{
    size_t n = strlen(c->topics.prefix), retry = sizeof "retry-" - 1;
    int64_t ms;
    return strncmp(topic, c->topics.prefix, n) == 0 && strncmp(topic + n, "retry-", retry) == 0 &&
           rp_parse_duration(topic + n + retry, &ms) && ms > 0;
}

/* Where the topic is among the configuration's tiers; behind all of them where it is not. */
static size_t place_of(const struct rp_config *c, const char *topic)
{
    size_t i = 0, n = c->n_tiers + c->n_retired;
    while (i < n && strcmp(c->tiers[i].topic, topic) != 0)
        i++;
    return i;
}

/* A consumer that belongs to no group. */
static int connect_reader(const struct rp_config *config, rd_kafka_t **out, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_CONSUMER, err);
    if (conf == NULL)
        return -1;
    /* librdkafka wants a name, but who assigns partitions by hand joins no group. */
    if (rp_kafka_conf_set(conf, "group.id", "reprise-looks", err) != 0 ||
        rp_kafka_conf_set(conf, "enable.partition.eof", "true", err) != 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    if (rp_kafka_new(RD_KAFKA_CONSUMER, conf, out, err) != 0)
        return -1;
    (void)rd_kafka_poll_set_consumer(*out);
    return 0;
}

/* The offsets that a partition has. */
static int read_span(rd_kafka_t *rk, const char *topic, int32_t partition, int64_t *begin,
                     int64_t *end, struct rp_error *err)
{
    rd_kafka_resp_err_t code =
        rd_kafka_query_watermark_offsets(rk, topic, partition, begin, end, ASK_MS);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, code, topic);
}

/* Whether there is a record among a partition's offsets, and not only marks of transactions. What
 * does not answer in time counts as one. */
static bool has_record(rd_kafka_t *rk, const char *topic, int32_t partition, int64_t begin,
                       const atomic_bool *stop)
{
    const struct patience patience = {stop, rp_mono_ms() + READ_MS};
    rd_kafka_topic_partition_list_t *one = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(one, topic, partition)->offset = begin;
    bool found = rd_kafka_assign(rk, one) != RD_KAFKA_RESP_ERR_NO_ERROR, ended = found;
    while (!ended) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 100);
        found = is_over(&patience) || (m != NULL && m->err == RD_KAFKA_RESP_ERR_NO_ERROR);
        ended = found || (m != NULL && m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF);
        if (m != NULL)
            rd_kafka_message_destroy(m);
    }
    (void)rd_kafka_assign(rk, NULL);
    rd_kafka_topic_partition_list_destroy(one);
    return found;
}

static int count(rd_kafka_t *rk, const struct rd_kafka_metadata_topic *topic,
                 const struct patience *patience, int64_t *out, struct rp_error *err)
{
    bool found = false;
    *out = 0;
    if (topic->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, topic->err, topic->topic);
    for (int i = 0; i < topic->partition_cnt; i++) {
        int64_t begin, end;
        if (is_over(patience))
            return rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "%s: the brokers take too long",
                           topic->topic);
        if (read_span(rk, topic->topic, topic->partitions[i].id, &begin, &end, err) != 0)
            return -1;
        *out += end - begin;
        if (!found && end > begin)
            found = has_record(rk, topic->topic, topic->partitions[i].id, begin, patience->stop);
    }
    if (!found)
        *out = 0;
    return is_stopped(patience) ? rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "stopped") : 0;
}

static int find(const struct rp_config *config, rd_kafka_t *rk,
                const struct rd_kafka_metadata *cluster, const atomic_bool *stop, rp_stray_fn *tell,
                void *opaque, struct rp_error *err)
{
    const struct patience patience = {stop, rp_mono_ms() + ALL_MS};
    for (int i = 0; i < cluster->topic_cnt; i++) {
        const char *topic = cluster->topics[i].topic;
        size_t place = place_of(config, topic);
        bool retired = place >= config->n_tiers && place < config->n_tiers + config->n_retired;
        int64_t records;
        if (!retired && (place < config->n_tiers || !is_named_like_a_tier(config, topic)))
            continue;
        if (count(rk, &cluster->topics[i], &patience, &records, err) != 0)
            return -1;
        if (retired || records > 0)
            tell(opaque, topic, retired, records);
    }
    return 0;
}

int rp_strays_find(const struct rp_config *config, const atomic_bool *stop, rp_stray_fn *tell,
                   void *opaque, struct rp_error *err)
{
    rd_kafka_t *rk;
    const struct rd_kafka_metadata *cluster;
    if (connect_reader(config, &rk, err) != 0)
        return -1;
    int rc = 0;
    rd_kafka_resp_err_t code = rd_kafka_metadata(rk, 1, NULL, &cluster, ASK_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        rc = rp_kafka_fail(err, code, "reading the cluster's metadata");
    } else {
        rc = find(config, rk, cluster, stop, tell, opaque, err);
        rd_kafka_metadata_destroy(cluster);
    }
    rd_kafka_destroy(rk);
    return rc;
}
