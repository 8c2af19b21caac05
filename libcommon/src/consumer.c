/* SPDX-License-Identifier: Apache-2.0 */
#include "consumer.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "unassigned.h"

/* How long a leaving member waits for its revoke before it goes on all the same. */
#define LEAVE_MS 5000

struct rp_consumer {
    rd_kafka_t *rk;
    struct rp_consumer_owner owner;
    struct rp_unassigned unassigned;
    char *group;
    char *member;  /* the member id that its partitions came to; NULL before the first came */
    bool outlived; /* some came to another one than it has now */
    rd_kafka_topic_partition_list_t *left; /* what to subscribe to again; NULL: it is subscribed */
    int64_t left_mono_ms;
    unsigned polls;
};

static void log_partitions(const char *event, const rd_kafka_topic_partition_list_t *parts)
{
    for (int i = 0; i < parts->cnt; i++)
        rp_log(RP_LOG_INFO, event, rp_f_str("topic", parts->elems[i].topic),
               rp_f_int("partition", parts->elems[i].partition));
}

/* `parts` NULL: nothing is assigned any more (of the eager protocol). */
static void assign_all(struct rp_consumer *c, const rd_kafka_topic_partition_list_t *parts)
{
    struct rp_error err;
    rd_kafka_resp_err_t code = rd_kafka_assign(c->rk, parts);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    (void)rp_kafka_fail(&err, code, "assign");
    rp_log(RP_LOG_ERROR, "rebalance-failed", rp_f_str("error", err.text));
}

static void log_failure(rd_kafka_error_t *error)
{
    struct rp_error err;
    if (error == NULL)
        return;
    (void)rp_kafka_fail_error(&err, error, "incremental assign");
    rp_log(RP_LOG_ERROR, "rebalance-failed", rp_f_str("error", err.text));
}

/* How the group hands partitions over. One that is over, in the midst of a close, says nothing, and
 * has nothing to be told. */
enum protocol { OVER, EAGER, COOPERATIVE };

static enum protocol protocol_of(const struct rp_consumer *c)
{
    const char *name = rd_kafka_rebalance_protocol(c->rk);
    if (name == NULL)
        return OVER;
    return strcmp(name, "COOPERATIVE") == 0 ? COOPERATIVE : EAGER;
}

static bool has_assignment(rd_kafka_t *rk)
{
    rd_kafka_topic_partition_list_t *parts = NULL;
    bool some = rd_kafka_assignment(rk, &parts) == RD_KAFKA_RESP_ERR_NO_ERROR && parts->cnt > 0;
    if (parts != NULL)
        rd_kafka_topic_partition_list_destroy(parts);
    return some;
}

static void note_member(struct rp_consumer *c)
{
    char *member = rd_kafka_memberid(c->rk);
    bool same = member != NULL && c->member != NULL && strcmp(member, c->member) == 0;
    c->outlived = has_assignment(c->rk) && (c->outlived || !same);
    rd_kafka_mem_free(c->rk, c->member);
    c->member = member;
}

static void assign(struct rp_consumer *c, rd_kafka_topic_partition_list_t *parts)
{
    log_partitions("partition-assigned", parts);
    note_member(c);
    c->owner.assigned(c->owner.opaque, parts);
    rp_kafka_hold(c->rk, parts);
    enum protocol protocol = protocol_of(c);
    if (protocol == COOPERATIVE)
        log_failure(rd_kafka_incremental_assign(c->rk, parts));
    else if (protocol == EAGER)
        assign_all(c, parts);
}

static void revoke(struct rp_consumer *c, rd_kafka_topic_partition_list_t *parts)
{
    bool lost = rd_kafka_assignment_lost(c->rk);
    log_partitions(lost ? "partition-lost" : "partition-revoked", parts);
    c->owner.revoked(c->owner.opaque, parts, lost);
    enum protocol protocol = protocol_of(c);
    if (protocol == COOPERATIVE)
        log_failure(rd_kafka_incremental_unassign(c->rk, parts));
    else if (protocol == EAGER)
        assign_all(c, NULL);
}

static void rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                      rd_kafka_topic_partition_list_t *parts, void *opaque)
{
    struct rp_consumer *c = opaque;
    c->rk = rk;
    rp_unassigned_reset(&c->unassigned);
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
        assign(c, parts);
    else
        revoke(c, parts);
}

static int subscribe(rd_kafka_t *rk, char *const *topics, size_t n, struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)n);
    for (size_t i = 0; i < n; i++)
        rd_kafka_topic_partition_list_add(list, topics[i], RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, code, "subscribe");
}

static int set_defaults(rd_kafka_conf_t *conf, const struct rp_config *config,
                        const struct rp_consumer_options *options, struct rp_error *err)
{
    /* What is fetched ahead may last for less than librdkafka's second. */
    static const struct rp_property backoff = {"fetch.queue.backoff.ms", "20"};
    if (rp_kafka_conf_default(conf, config, RP_KAFKA_CONSUMER, &backoff, err) != 0)
        return -1;
    for (size_t i = 0; i < options->n_defaults; i++)
        if (rp_kafka_conf_default(conf, config, RP_KAFKA_CONSUMER, &options->defaults[i], err) != 0)
            return -1;
    return 0;
}

static rd_kafka_conf_t *member_conf(const struct rp_config *config,
                                    const struct rp_consumer_options *options, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(config, RP_KAFKA_CONSUMER, err);
    if (conf == NULL)
        return NULL;
    if (set_defaults(conf, config, options, err) == 0 &&
        rp_kafka_conf_set(conf, "group.id", options->group, err) == 0 &&
        rp_kafka_conf_set(conf, "group.instance.id", options->instance, err) == 0 &&
        rp_kafka_conf_set(conf, "client.id", options->instance, err) == 0 &&
        rp_kafka_conf_set(conf, "enable.partition.eof", options->eof ? "true" : "false", err) == 0)
        return conf;
    rd_kafka_conf_destroy(conf);
    return NULL;
}

static void destroy(struct rp_consumer *c)
{
    rp_unassigned_reset(&c->unassigned);
    if (c->left != NULL)
        rd_kafka_topic_partition_list_destroy(c->left);
    rd_kafka_mem_free(c->rk, c->member);
    if (c->rk != NULL)
        rd_kafka_destroy(c->rk);
    free(c->group);
    free(c);
}

int rp_consumer_new(const struct rp_config *config, const struct rp_consumer_options *options,
                    const struct rp_consumer_owner *owner, struct rp_consumer **out,
                    struct rp_error *err)
{
    rd_kafka_conf_t *conf = member_conf(config, options, err);
    if (conf == NULL)
        return -1;
    struct rp_consumer *c = calloc(1, sizeof *c);
    if (c == NULL || (c->group = strdup(options->group)) == NULL) {
        free(c);
        rd_kafka_conf_destroy(conf);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a consumer");
    }
    c->owner = *owner;
    rd_kafka_conf_set_rebalance_cb(conf, rebalance);
    rd_kafka_conf_set_opaque(conf, c);
    if (rp_kafka_new(RD_KAFKA_CONSUMER, conf, &c->rk, err) != 0) {
        destroy(c);
        return -1;
    }
    (void)rd_kafka_poll_set_consumer(c->rk);
    if (subscribe(c->rk, options->topics, options->n_topics, err) != 0) {
        destroy(c);
        return -1;
    }
    *out = c;
    return 0;
}

void rp_consumer_rejoin(struct rp_consumer *c)
{
    if (c->left != NULL || rd_kafka_subscription(c->rk, &c->left) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    c->left_mono_ms = rp_mono_ms();
    (void)rd_kafka_unsubscribe(c->rk);
}

static bool is_member(const struct rp_consumer *c)
{
    char *id = rd_kafka_memberid(c->rk);
    bool is = id != NULL && id[0] != '\0';
    rd_kafka_mem_free(c->rk, id);
    return is;
}

/* A subscription that comes before the member has left keeps it in the group. */
static void join_again(struct rp_consumer *c)
{
    if ((is_member(c) && rp_mono_ms() - c->left_mono_ms < LEAVE_MS) ||
        rd_kafka_subscribe(c->rk, c->left) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    rd_kafka_topic_partition_list_destroy(c->left);
    c->left = NULL;
}

static void look_for_unassigned(struct rp_consumer *c)
{
    size_t n = rp_unassigned_look(&c->unassigned, c->rk, c->group);
    if (n == 0)
        return;
    rp_log(RP_LOG_WARN, "partitions-unassigned", rp_f_str("group", c->group),
           rp_f_int("partitions", (int64_t)n),
           rp_f_str("effect", "leaves the group and joins it again"));
    rp_consumer_rejoin(c);
}

rd_kafka_message_t *rp_consumer_poll(struct rp_consumer *c, int timeout_ms)
{
    rd_kafka_message_t *message = rd_kafka_consumer_poll(c->rk, timeout_ms);
    if (c->left != NULL)
        join_again(c);
    /* A look at the clock for each record would be felt. */
    else if ((message == NULL || c->polls++ % 1024 == 0) && rp_unassigned_due(&c->unassigned))
        look_for_unassigned(c);
    return message;
}

int rp_consumer_fail(struct rp_consumer *c, const rd_kafka_message_t *message, struct rp_error *err)
{
    char text[256];
    if (message->err != RD_KAFKA_RESP_ERR__FATAL)
        return rp_kafka_fail(err, message->err, rd_kafka_message_errstr(message));
    rd_kafka_resp_err_t cause = rd_kafka_fatal_error(c->rk, text, sizeof text);
    (void)rp_kafka_fail(err, cause, text);
    err->cls = RP_FATAL;
    return -1;
}

rd_kafka_t *rp_consumer_handle(struct rp_consumer *c)
{
    return c->rk;
}

/* Not in the group, or in it as somebody else: an empty member id is between the two. */
static int check_member(const struct rp_consumer *c,
                        const rd_kafka_consumer_group_metadata_t *group, struct rp_error *err)
{
    const char *member = rd_kafka_consumer_group_metadata_member_id(group);
    if (rd_kafka_consumer_group_metadata_generation_id(group) < 0 || c->member == NULL ||
        member == NULL || member[0] == '\0')
        return rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "not in a group");
    if (c->outlived || strcmp(member, c->member) != 0)
        return rp_fail(err, RP_E_FENCED, RP_FATAL,
                       "the group forgot this member, which joined it anew, and others may have had"
                       " its partitions meanwhile");
    return 0;
}

rd_kafka_consumer_group_metadata_t *rp_consumer_membership(struct rp_consumer *c,
                                                           struct rp_error *err)
{
    rd_kafka_consumer_group_metadata_t *group =
        rd_kafka_assignment_lost(c->rk) ? NULL : rd_kafka_consumer_group_metadata(c->rk);
    if (group == NULL) {
        (void)rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "not in a group");
        return NULL;
    }
    if (check_member(c, group, err) == 0)
        return group;
    rd_kafka_consumer_group_metadata_destroy(group);
    return NULL;
}

static int check_membership(struct rp_consumer *c, struct rp_error *err)
{
    rd_kafka_consumer_group_metadata_t *group = rp_consumer_membership(c, err);
    if (group == NULL)
        return -1;
    rd_kafka_consumer_group_metadata_destroy(group);
    return 0;
}

int rp_consumer_commit(struct rp_consumer *c, const rd_kafka_topic_partition_list_t *offsets,
                       bool async, struct rp_error *err)
{
    if (check_membership(c, err) != 0)
        return -1;
    rd_kafka_resp_err_t code = rd_kafka_commit(c->rk, offsets, async);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, code, "commit offsets");
}

int rp_consumer_commit_told(struct rp_consumer *c, const rd_kafka_topic_partition_list_t *offsets,
                            rp_committed_fn *committed, void *opaque, struct rp_error *err)
{
    if (check_membership(c, err) != 0)
        return -1;
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(c->rk);
    rd_kafka_resp_err_t code = rd_kafka_commit_queue(c->rk, offsets, queue, committed, opaque);
    rd_kafka_queue_destroy(queue);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, code, "commit offsets");
}

/* A static member that merely closes stays in the group until its session ends, and its partitions
 * with it. To unsubscribe is the way to leave. */
static void leave(struct rp_consumer *c)
{
    if (rd_kafka_unsubscribe(c->rk) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    int64_t end_mono_ms = rp_mono_ms() + LEAVE_MS;
    do {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(c->rk, 20);
        if (message != NULL)
            rd_kafka_message_destroy(message);
    } while (has_assignment(c->rk) && rp_mono_ms() < end_mono_ms);
    /* The leave request goes out behind the revoke, on librdkafka's own thread. */
    rd_kafka_message_t *message = rd_kafka_consumer_poll(c->rk, 100);
    if (message != NULL)
        rd_kafka_message_destroy(message);
}

void rp_consumer_close(struct rp_consumer *c)
{
    if (c == NULL)
        return;
    leave(c);
    (void)rd_kafka_consumer_close(c->rk); /* nothing can be done about a failure */
    destroy(c);
}
