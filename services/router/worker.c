/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "batch.h"
#include "clock.h"
#include "consumer.h"
#include "crash_point.h"
#include "intake.h"
#include "log.h"
#include "metrics_router.h"
#include "outbox.h"
#include "registry.h"
#include "stall.h"

#define IDLE_MS    100
#define ARRIVAL_MS 10 /* between two looks whether a partition's offset is known */
/* To linger must make no task late: a batch with one that is due so soon after it lingers less. The
 * commit comes out of this, and CATCH_UP_MS where the router is behind. */
#define URGENT_MS        100
#define URGENT_LINGER_MS 5
/* What is there already is taken after that, too, for as long as this: else batches would be small
 * where a router has fallen behind, and it would have more transactions to do, not fewer. */
#define CATCH_UP_MS 50

/* What is recalled is read once, so it is worth a wait for a registry that is slow to begin: so
 * long in all, from one assignment to the next. */
#define RECALL_WAITS_MS 3000
#define RECALL_NAP_MS   20

#define LOOK_EVERY 32 /* records between two looks whether what was sent off is acknowledged */

struct router {
    struct rp_worker *w;
    const struct rp_config *config;
    struct rp_consumer *consumer;
    struct intake intake;
    struct rp_outbox outbox;
    struct rp_registry *registry;
    struct route_context route;
    struct router_metrics metrics;
    struct batch batch, sent_off;
    struct rp_arena headers;                        /* of the message at hand */
    const rd_kafka_topic_partition_list_t *leaving; /* being revoked; NULL: none */
    int recall_waits_ms;                            /* what is left of RECALL_WAITS_MS */
    bool joined;                                    /* the group has given us partitions, or none */
    struct rp_stall stall;
};

/* A position that cannot be set would lose records, so the worker ends then. */
static void must(struct router *r, int rc, const struct rp_error *err)
{
    if (rc != 0)
        rp_outbox_give_up(&r->outbox, err);
}

/* As another owner would: begins with what is committed. A new producer comes first, since that
 * ends whatever is still under way. */
static void begin_anew(struct router *r, const rd_kafka_topic_partition_list_t *parts)
{
    struct rp_error err;
    rp_outbox_open(&r->outbox);
    r->outbox.backoff_ms = 0; /* it may be out after all, and nothing may come to show it */
    must(r, intake_add(&r->intake, parts, false, &err), &err);
}

/* What is being revoked needs no position any more: its next owner begins at the committed one. */
static void drop_leaving(const struct router *r, rd_kafka_topic_partition_list_t *offsets)
{
    for (int i = 0; r->leaving != NULL && i < r->leaving->cnt; i++)
        (void)rd_kafka_topic_partition_list_del(offsets, r->leaving->elems[i].topic,
                                                r->leaving->elems[i].partition);
}

/* What is read again stands still for no stall. */
static void heard(struct router *r, const rd_kafka_topic_partition_list_t *parts)
{
    for (int i = 0; i < parts->cnt; i++)
        rp_stall_heard(&r->stall, parts->elems[i].topic, parts->elems[i].partition);
}

/* What is not committed, or perhaps not, is read again. */
static void rewind_batches(struct router *r, bool unknown)
{
    struct rp_error err;
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(8);
    batch_begins(&r->sent_off, r->config->topics.failed_tasks, offsets);
    batch_begins(&r->batch, r->config->topics.failed_tasks, offsets);
    drop_leaving(r, offsets);
    heard(r, offsets);
    RP_CRASH_POINT(rewind_before);
    if (unknown)
        begin_anew(r, offsets);
    else if (!rp_outbox_stopping(&r->outbox) && offsets->cnt > 0)
        must(r, intake_seek(&r->intake, offsets, &err), &err);
    RP_CRASH_POINT(rewind_after);
    rd_kafka_topic_partition_list_destroy(offsets);
    batch_reset(&r->batch);
    batch_reset(&r->sent_off);
    router_metrics_dropped(&r->metrics);
}

/* A batch failed before its commit, or in it (`unknown`). */
static void fail(struct router *r, bool unknown, const struct rp_error *err)
{
    router_metrics_failed(&r->metrics);
    rp_outbox_failed(&r->outbox, err);
    rewind_batches(r, unknown);
}

/* Commits the older batch, or the only one. False: it failed, and all is read again. */
static bool commit(struct router *r, struct batch *b)
{
    struct rp_error err;
    enum rp_published result = rp_publisher_commit(r->outbox.publisher, &err);
    if (result != RP_PUBLISHED) {
        fail(r, result == RP_UNKNOWN, &err);
        return false;
    }
    router_metrics_committed(&r->metrics, rp_mono_us() - b->ended_mono_us);
    rp_outbox_done(&r->outbox);
    batch_reset(b);
    return true;
}

static bool commit_sent_off(struct router *r)
{
    return r->sent_off.n_spans == 0 || commit(r, &r->sent_off);
}

/* The batch at hand failed; the one before need not. */
static void fail_batch(struct router *r, const struct rp_error *err)
{
    if (commit_sent_off(r))
        fail(r, false, err);
}

static enum rp_published send_offsets(struct router *r, struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *offsets =
        batch_offsets(&r->batch, r->config->topics.failed_tasks);
    enum rp_published result = rp_publisher_offsets(r->outbox.publisher, r->consumer, offsets, err);
    rd_kafka_topic_partition_list_destroy(offsets);
    return result;
}

/* Sends off what was taken, if anything, and commits what was sent off before. False: that or this
 * failed, and is read again. */
static bool send_off(struct router *r)
{
    struct rp_error err;
    if (r->outbox.n == 0) {
        bool committed = commit_sent_off(r);
        batch_reset(&r->batch);
        return committed;
    }
    r->batch.ended_mono_us = rp_mono_us();
    if (send_offsets(r, &err) != RP_PUBLISHED) {
        fail_batch(r, &err);
        return false;
    }
    if (!commit_sent_off(r))
        return false;
    router_metrics_sent_off(&r->metrics);
    if (!rp_outbox_send_off(&r->outbox))
        return commit(r, &r->batch);
    struct batch batch = r->batch;
    r->batch = r->sent_off;
    r->sent_off = batch;
    return true;
}

/* Publishes all that was taken. False: it failed, and is read again. */
static bool close_batch(struct router *r)
{
    return send_off(r) && commit_sent_off(r);
}

/* Nothing can be said of the record now. Its partition waits; the others go on. */
static void postpone(struct router *r, const rd_kafka_message_t *m, const struct rp_error *why)
{
    struct rp_error err;
    if (!close_batch(r))
        return; /* the record was reached, so it is read again with the batch */
    rp_log(RP_LOG_WARN, "partition-waits", rp_f_int("partition", m->partition),
           rp_f_int("offset", m->offset), rp_f_str("error", why->text));
    rp_stall_heard(&r->stall, r->config->topics.failed_tasks, m->partition);
    must(r, intake_postpone(&r->intake, m->partition, m->offset, &err), &err);
}

static void log_route(const struct router *r, const rd_kafka_message_t *m,
                      const struct route *route)
{
    if (route->looped)
        rp_log(RP_LOG_WARN, "attempt-not-counted-on", rp_f_bytes("task_id", route->task_id),
               rp_f_bytes("type", route->task_type), rp_f_int("attempt", route->attempt),
               rp_f_str("mend", "the handler must hand the reprise- headers back"));
    rp_log(route->kind == ROUTE_DEAD ? RP_LOG_INFO : RP_LOG_DEBUG, route_kind_name(route->kind),
           rp_f_str("topic", r->config->topics.failed_tasks), rp_f_int("partition", m->partition),
           rp_f_int("offset", m->offset), rp_f_bytes("task_id", route->task_id),
           rp_f_bytes("type", route->task_type), rp_f_int("attempt", route->attempt),
           rp_f_str("reason", route->kind == ROUTE_DEAD ? rp_reason_name(route->reason) : "-"),
           rp_f_str("why", route->why));
}

/* Sends what follows from the record, and takes it into the batch. */
static void take(struct router *r, const rd_kafka_message_t *m, struct route *route)
{
    struct rp_error err;
    if (rp_outbox_send(&r->outbox, r->config->topics.failed_tasks, m->partition, m->offset,
                       &route->out, &err) != 0) {
        fail_batch(r, &err);
        return;
    }
    batch_take(&r->batch, m->partition, m->offset);
    if (route->left_ms < r->config->router.linger_ms + URGENT_MS)
        r->batch.urgent = true;
    router_metrics_routed(&r->metrics, route);
    log_route(r, m, route);
}

static struct route_record record_of(const struct router *r, const rd_kafka_message_t *m,
                                     const struct rp_lesson *lesson)
{
    int64_t append_ms = rp_kafka_append_ms(m);
    return (struct route_record){
        .key = {m->key, m->key_len},
        .value = {m->payload, m->len},
        .topic = r->config->topics.failed_tasks,
        .partition = m->partition,
        .offset = m->offset,
        .append_ms = append_ms < 0 ? RP_NO_TIME : append_ms,
        .now_ms = rp_wall_ms(),
        .lesson = lesson,
    };
}

/* Where the registry has failed for longer than records wait, they are dead letters. */
static int judge(struct router *r, const struct route_record *record, struct route *route,
                 struct rp_error *err)
{
    int rc = route_record(&r->route, record, route, err);
    bool registry_fails = rc != 0 && err->code == RP_E_IO; /* brokers fail with RP_E_KAFKA */
    if (!registry_fails || rp_registry_failing_ms(r->registry) < r->config->registry.patience_ms)
        return rc;
    struct rp_error silent = *err;
    return route_undecodable(&r->route, record, silent.text, route, err);
}

/* Lets the batch reach the record, anew and alone where something was learned of it: `copy` then
 * holds that, and *lesson is it, else NULL. False: it is read again, or the worker ends. */
static bool reach(struct router *r, int32_t partition, int64_t offset, struct rp_lesson *copy,
                  const struct rp_lesson **lesson)
{
    struct rp_error err;
    *lesson =
        rp_lessons_find(&r->outbox.lessons, r->config->topics.failed_tasks, partition, offset);
    if (batch_reach(&r->batch, partition, offset, &err) != 0) {
        rp_outbox_give_up(&r->outbox, &err);
        return false;
    }
    if (*lesson == NULL)
        return true;
    *copy = **lesson; /* closing the batch may change the lessons */
    *lesson = copy;
    if (r->outbox.n == 0 && r->sent_off.n_spans == 0)
        return true;
    if (!close_batch(r))
        return false;
    if (batch_reach(&r->batch, partition, offset, &err) == 0)
        return true;
    rp_outbox_give_up(&r->outbox, &err);
    return false;
}

/* The log was cut: what is known of its records is of those that are gone. */
static void forget(struct router *r, const struct log_cut *cut)
{
    rp_outbox_forget(&r->outbox, r->config->topics.failed_tasks, cut->partition);
    if (r->route.guard != NULL)
        guard_log_cut(r->route.guard, cut->partition, cut->from, cut->expected);
}

/* What the batch has of them comes first, since it may yet teach something. False: it failed, and
 * is read again. */
static bool forget_cut(struct router *r)
{
    struct rp_error err;
    struct log_cut cut = r->intake.cut;
    int64_t begun = batch_first(&r->sent_off, cut.partition, cut.expected);
    begun = batch_first(&r->batch, cut.partition, begun);
    if (batch_reach(&r->batch, cut.partition, cut.from, &err) != 0) {
        rp_outbox_give_up(&r->outbox, &err);
        return false;
    }
    bool closed = close_batch(r);
    if (!closed)
        cut.expected = begun;
    forget(r, &cut);
    return closed;
}

static bool is_read_on(struct router *r, enum arrival arrival)
{
    return arrival == ARRIVAL_NONE || (arrival == ARRIVAL_CUT && forget_cut(r));
}

static void handle_record(struct router *r, const rd_kafka_message_t *m)
{
    struct rp_error err;
    struct route route;
    struct rp_lesson copy;
    const struct rp_lesson *lesson;
    if (!reach(r, m->partition, m->offset, &copy, &lesson))
        return;
    struct route_record record = record_of(r, m, lesson);
    rp_arena_reset(&r->headers);
    if (rp_kafka_headers(m, &r->headers, &record.headers, &record.n_headers, &err) != 0 ||
        judge(r, &record, &route, &err) != 0)
        postpone(r, m, &err);
    else
        take(r, m, &route);
}

static void recall(struct router *r, const rd_kafka_message_t *m)
{
    struct rp_error err;
    struct route_record record = record_of(r, m, NULL);
    rp_stall_heard(&r->stall, r->config->topics.failed_tasks, m->partition);
    rp_arena_reset(&r->headers);
    if (rp_kafka_headers(m, &r->headers, &record.headers, &record.n_headers, &err) != 0)
        return;
    while (route_recall(&r->route, &record, &err) != 0 && r->recall_waits_ms > 0 &&
           !rp_outbox_stopping(&r->outbox)) {
        (void)close_batch(r); /* its readers do not wait, too */
        r->recall_waits_ms -= RECALL_NAP_MS;
        (void)nanosleep(&(struct timespec){.tv_nsec = RECALL_NAP_MS * 1000000L}, NULL);
    }
}

/* A batch that librdkafka cannot unpack (it is no archive, or unpacks to more than
 * receive.message.max.bytes) would be fetched again and again. Each of its records becomes a dead
 * letter, without the bytes; the log keeps them. */
static void step_over(struct router *r, const rd_kafka_message_t *m, const struct rp_error *why)
{
    struct rp_error err;
    struct route route;
    enum arrival arrival;
    rd_kafka_message_t unread = {.partition = m->partition};
    int rc = intake_take_unread(&r->intake, m, &arrival, &unread.offset, &err);
    must(r, rc, &err);
    if (rc != 0 || !is_read_on(r, arrival))
        return;
    struct rp_lesson copy;
    const struct rp_lesson *lesson;
    if (!reach(r, unread.partition, unread.offset, &copy, &lesson))
        return;
    const struct route_record record = {.topic = r->config->topics.failed_tasks,
                                        .partition = unread.partition,
                                        .offset = unread.offset,
                                        .append_ms = RP_NO_TIME,
                                        .now_ms = rp_wall_ms(),
                                        .lesson = lesson};
    rp_arena_reset(&r->route.arena);
    if (route_undecodable(&r->route, &record, why->text, &route, &err) != 0) {
        postpone(r, &unread, &err);
        return;
    }
    take(r, &unread, &route);
    if (r->batch.n_spans > 0) /* else it failed, and is read again */
        must(r, intake_seek_one(&r->intake, unread.partition, unread.offset + 1, &err), &err);
}

static void handle(struct router *r, const rd_kafka_message_t *m)
{
    struct rp_error err;
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        enum arrival arrival;
        int rc = intake_take(&r->intake, m, &arrival, &err);
        must(r, rc, &err);
        if (rc != 0)
            return;
        if (arrival == ARRIVAL_RECALL)
            recall(r, m);
        else if (is_read_on(r, arrival))
            handle_record(r, m);
        return;
    }
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        must(r, intake_end_met(&r->intake, m, &err), &err);
        return;
    }
    rp_stall_heard(&r->stall, r->config->topics.failed_tasks, m->partition);
    (void)rp_consumer_fail(r->consumer, m, &err);
    rp_log(RP_LOG_WARN, "consumer-error", rp_f_str("error", err.text));
    if (err.cls == RP_FATAL)
        rp_outbox_give_up(&r->outbox, &err);
    else if (m->err == RD_KAFKA_RESP_ERR__BAD_COMPRESSION)
        step_over(r, m, &err);
}

/* How long the batch still waits for more. */
static int64_t linger_left_ms(const struct router *r)
{
    int64_t most = r->config->router.linger_ms;
    if (r->batch.urgent && most > URGENT_LINGER_MS)
        most = URGENT_LINGER_MS;
    return most - (rp_mono_ms() - r->batch.began_mono_ms);
}

static void assigned(void *opaque, const rd_kafka_topic_partition_list_t *parts)
{
    struct router *r = opaque;
    struct rp_error err;
    must(r, intake_add(&r->intake, parts, r->route.guard != NULL, &err), &err);
    heard(r, parts);
    r->recall_waits_ms = RECALL_WAITS_MS;
    r->joined = true;
    RP_CRASH_POINT(assigned);
    r->outbox.backoff_ms = 0;
}

static void revoked(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost)
{
    struct router *r = opaque;
    r->leaving = parts;
    RP_CRASH_POINT(revoked_before);
    if (lost) {
        rp_outbox_abort(&r->outbox);
        rewind_batches(r, false);
    } else {
        (void)close_batch(r);
    }
    r->joined = r->joined && !lost;
    intake_remove(&r->intake, parts);
    rp_outbox_revoked(&r->outbox, parts);
    r->leaving = NULL;
    RP_CRASH_POINT(revoked_after);
}

static void take_over(struct router *r)
{
    const struct log_cut *cut = intake_serve(&r->intake);
    if (cut != NULL)
        forget(r, cut);
    atomic_store(&r->w->ready, r->joined && r->outbox.backoff_ms == 0 &&
                                   arrivals_waiting(r->intake.arrivals) == 0);
}

/* All that was fetched has been taken up. */
static void look_for_stalls(struct router *r)
{
    struct rp_error err;
    if (rp_stall_due(&r->stall))
        must(r,
             rp_stall_look(&r->stall, rp_consumer_handle(r->consumer), intake_read(&r->intake),
                           &err),
             &err);
}

static void step(struct router *r)
{
    take_over(r);
    int64_t wait_ms = arrivals_waiting(r->intake.arrivals) > 0 ? ARRIVAL_MS : IDLE_MS;
    if (r->outbox.n > 0)
        wait_ms = linger_left_ms(r);
    if (r->outbox.n > 0 && (rp_outbox_full(&r->outbox) || wait_ms <= -CATCH_UP_MS)) {
        (void)send_off(r);
        return;
    }
    if (r->sent_off.n_spans > 0)
        wait_ms = 0;
    rd_kafka_message_t *m = rp_consumer_poll(r->consumer, wait_ms > 0 ? (int)wait_ms : 0);
    r->route.policies = rp_worker_policies(r->w);
    if (m != NULL) {
        if (!rp_outbox_stopping(&r->outbox)) /* else what failed while it came is not read again */
            handle(r, m);
        rd_kafka_message_destroy(m);
        if (r->sent_off.n_spans > 0 && r->outbox.n % LOOK_EVERY == 0 &&
            rp_publisher_acknowledged(r->outbox.publisher, 0))
            (void)commit_sent_off(r);
        return;
    }
    if (r->sent_off.n_spans > 0) {
        (void)commit_sent_off(r);
        return;
    }
    look_for_stalls(r);
    if (r->outbox.n > 0 && linger_left_ms(r) <= 0)
        (void)close_batch(r);
}

/* Where reporters send bit by bit, a fetch for each bit cost the brokers more than the transactions
 * did. This wait comes before `linger`, and URGENT_MS is far more than both. */
static const struct rp_property consumer_defaults[] = {
    {"fetch.min.bytes", "65536"},
    {"fetch.wait.max.ms", "10"},
};

static int set_up(struct router *r, struct rp_error *err)
{
    const struct rp_config *config = r->config;
    char group[300], id[400];
    const struct rp_consumer_owner owner = {r, assigned, revoked};
    (void)snprintf(group, sizeof group, "%sreprise-router", config->topics.prefix);
    /* Transactional ids are the cluster's, not the group's. */
    (void)snprintf(id, sizeof id, "%s-%s", group, r->w->instance);
    const struct rp_consumer_options options = {
        .group = group,
        .instance = r->w->instance,
        .topics = &config->topics.failed_tasks,
        .n_topics = 1,
        .eof = true,
        .defaults = consumer_defaults,
        .n_defaults = sizeof consumer_defaults / sizeof *consumer_defaults,
    };
    rp_rng_init_random(&r->route.rng);
    r->route.config = config;
    r->route.policies = rp_worker_policies(r->w);
    router_metrics_init(&r->metrics, r->w->metrics);
    if (rp_registry_open(config, &r->registry, err) != 0)
        return -1;
    if (config->loop_guard > 0 &&
        guard_new((size_t)config->loop_guard, config->clock_skew_ms, &r->route.guard, err) != 0)
        return -1;
    /* In a transaction all records are sent in one go, and shall go out while the next batch is
     * filled. Without one they are sent bit by bit (publisher.h). */
    const char *linger_ms = config->guarantee == RP_EXACTLY_ONCE ? "1" : "5";
    if (rp_codec_new(r->registry, &r->route.codec, err) != 0 ||
        rp_outbox_init(&r->outbox, r->w, id, linger_ms, (size_t)config->router.batch, err) != 0)
        return -1;
    r->route.targets = r->outbox.targets;
    rp_outbox_open(&r->outbox); /* who waits for that and is a member holds up all others */
    if (r->outbox.failed)
        return rp_fail_as(err, &r->outbox.failure);
    if (rp_outbox_stopping(&r->outbox))
        return 0; /* it has not joined, and does not */
    if (rp_consumer_new(config, &options, &owner, &r->consumer, err) != 0)
        return -1;
    return intake_init(&r->intake, config, rp_consumer_handle(r->consumer), group, err);
}

static void tear_down(struct router *r)
{
    rp_stall_clear(&r->stall);
    intake_close(&r->intake); /* while closing, partitions go, and may still come */
    rp_consumer_close(r->consumer);
    rp_outbox_clear(&r->outbox);
    rp_codec_free(r->route.codec);
    rp_registry_free(r->registry);
    guard_free(r->route.guard);
    rp_arena_clear(&r->route.arena);
    rp_arena_clear(&r->headers);
    rp_buf_clear(&r->route.letter);
    batch_clear(&r->batch);
    batch_clear(&r->sent_off);
    router_metrics_clear(&r->metrics);
    intake_clear(&r->intake);
}

int router_run(struct rp_worker *w, struct rp_error *err)
{
    struct router *r = calloc(1, sizeof *r);
    if (r == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a worker");
    r->w = w;
    r->config = w->config;
    int rc = set_up(r, err);
    if (rc == 0) {
        while (!rp_outbox_stopping(&r->outbox))
            step(r);
        (void)close_batch(r);
        if (r->outbox.failed) {
            *err = r->outbox.failure;
            rc = -1;
        }
    }
    tear_down(r);
    free(r);
    return rc;
}
