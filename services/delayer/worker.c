/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <xxhash.h>

#include "clock.h"
#include "consumer.h"
#include "crash_point.h"
#include "dispatch.h"
#include "log.h"
#include "registry.h"
#include "stall.h"
#include "strays.h"
#include "trim.h"

#define IDLE_MS         100
#define GAUGE_EVERY_MS  1000
#define COMMIT_EVERY_MS 100 /* at-least-once: how old a settled state grows before its commit */

struct delayer {
    struct rp_worker *w;
    const struct rp_config *config;
    struct rp_consumer *consumer;
    rd_kafka_queue_t *rebalances; /* the consumer's own queue */
    struct rp_registry *registry;
    struct trimmer *trimmer;
    struct lanes lanes;
    struct dispatch dispatch;
    struct rp_outbox *outbox; /* that of `dispatch` */
    struct rp_stall stall;
    int64_t gauge_mono_ms, commit_mono_ms;
    size_t next_end;  /* the lane whose log's end is checked next */
    bool joined;      /* the group has given us partitions, or none */
    bool committing;  /* a commit is under way */
    bool uncommitted; /* the last one failed; it is tried again and again */
    bool held_up;     /* what is done before anything is sent failed */
    pthread_t looker; /* for tiers that nobody reads, where */
    bool looks;       /* there is one */
    atomic_bool look_no_more;
};

static void assigned(void *opaque, const rd_kafka_topic_partition_list_t *parts)
{
    struct delayer *d = opaque;
    struct rp_error err;
    if (lanes_add(&d->lanes, parts, &err) != 0)
        rp_outbox_give_up(d->outbox, &err);
    d->joined = true;
    RP_CRASH_POINT(assigned);
    d->outbox->backoff_ms = 0;
}

/* What became of a commit; NULL: it succeeded. */
static void note_commit(struct delayer *d, const struct rp_error *failure)
{
    if (failure != NULL && !d->uncommitted)
        rp_log(RP_LOG_WARN, "offset-commit-failed", rp_f_str("error", failure->text));
    d->uncommitted = failure != NULL;
    if (failure != NULL && failure->code == RP_E_FENCED)
        rp_outbox_give_up(d->outbox, failure);
}

static void committed(rd_kafka_t *consumer, rd_kafka_resp_err_t code,
                      rd_kafka_topic_partition_list_t *offsets, void *opaque)
{
    struct delayer *d = opaque;
    struct rp_error err;
    (void)consumer;
    RP_CRASH_POINT(states_answered);
    for (int i = 0; offsets != NULL && i < offsets->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        code = offsets->elems[i].err;
    bool failed = code != RD_KAFKA_RESP_ERR_NO_ERROR;
    if (failed)
        (void)rp_kafka_fail(&err, code, "commit offsets");
    note_commit(d, failed ? &err : NULL);
    for (size_t i = 0; i < d->lanes.n; i++)
        lane_commit_answered(d->lanes.items[i], failed);
    d->committing = false;
}

/* Commits what was acknowledged, where the guarantee lets that wait. */
static void commit_states(struct delayer *d, bool async)
{
    if (d->config->guarantee == RP_EXACTLY_ONCE || (async && d->committing))
        return;
    rd_kafka_topic_partition_list_t *states = lanes_states(&d->lanes, true);
    struct rp_error err;
    int rc = 0;
    if (states->cnt > 0) {
        RP_CRASH_POINT(states_before);
        rc = async ? rp_consumer_commit_told(d->consumer, states, committed, d, &err)
                   : rp_consumer_commit(d->consumer, states, false, &err);
        RP_CRASH_POINT(states_sent);
    }
    if (rc != 0 || !async)
        note_commit(d, rc != 0 ? &err : NULL);
    else
        d->committing = states->cnt > 0;
    for (size_t i = 0; i < d->lanes.n && rc == 0; i++)
        if (async)
            lane_set_committing(d->lanes.items[i]);
        else
            lane_set_committed(d->lanes.items[i]);
    rd_kafka_topic_partition_list_destroy(states);
    d->commit_mono_ms = rp_mono_ms();
}

static void revoked(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost)
{
    struct delayer *d = opaque;
    RP_CRASH_POINT(revoked_before);
    if (lost) {
        dispatch_abort(&d->dispatch);
    } else {
        dispatch_finish(&d->dispatch);
        commit_states(d, false);
    }
    d->joined = d->joined && !lost;
    lanes_remove(&d->lanes, parts);
    rp_outbox_revoked(d->outbox, parts);
    RP_CRASH_POINT(revoked_after);
}

/* Records have queues of their own; here come rebalances and errors. */
static void serve_consumer(struct delayer *d)
{
    rd_kafka_message_t *m;
    while (!d->outbox->failed && (m = rp_consumer_poll(d->consumer, 0)) != NULL) {
        struct rp_error err;
        if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            (void)rp_fail(&err, RP_E_KAFKA, RP_FATAL, "a record came past its partition's queue");
        else
            (void)rp_consumer_fail(d->consumer, m, &err);
        rp_log(RP_LOG_WARN, "consumer-error", rp_f_str("error", err.text));
        if (err.cls == RP_FATAL)
            rp_outbox_give_up(d->outbox, &err);
        rd_kafka_message_destroy(m);
    }
}

static bool any_lane(const struct delayer *d, bool (*is)(const struct lane *lane))
{
    for (size_t i = 0; i < d->lanes.n; i++)
        if (is(d->lanes.items[i]))
            return true;
    return false;
}

/* Others come at the offsets that are known. */
static void forget(struct delayer *d, const struct lane *lane)
{
    rp_outbox_forget(d->outbox, lane_topic(lane), lane_partition(lane));
}

static void hold_up(struct delayer *d, const struct rp_error *err)
{
    rp_outbox_back_off(d->outbox, err);
    d->held_up = true;
}

/* Until their state says that a log was cut, another owner would pass over what is new in it. */
static bool commit_cuts(struct delayer *d)
{
    struct rp_error err;
    if (!any_lane(d, lane_was_cut))
        return true;
    rd_kafka_topic_partition_list_t *states = lanes_cut_states(&d->lanes);
    int rc = states->cnt > 0 ? rp_consumer_commit(d->consumer, states, false, &err) : 0;
    rd_kafka_topic_partition_list_destroy(states);
    note_commit(d, rc != 0 ? &err : NULL);
    for (size_t i = 0; i < d->lanes.n && rc == 0; i++)
        if (lane_was_cut(d->lanes.items[i]))
            lane_cut_committed(d->lanes.items[i]);
    if (rc != 0)
        hold_up(d, &err);
    return rc == 0;
}

/* What is known of the old log's records is of no use any more, nor is what is held of others: with
 * what is committed all are taken over again. */
static void serve_cuts(struct delayer *d)
{
    if (!any_lane(d, lane_is_cut))
        return;
    dispatch_finish(&d->dispatch);
    commit_states(d, false);
    for (size_t i = 0; i < d->lanes.n; i++)
        if (lane_is_cut(d->lanes.items[i]))
            forget(d, d->lanes.items[i]);
    lanes_let_go(&d->lanes);
}

static void read_lanes(struct delayer *d)
{
    struct rp_error err;
    if (lanes_read(&d->lanes, d->dispatch.behind, &err) == 0) {
        if (d->held_up)
            d->outbox->backoff_ms = 0; /* it is ready again, though nothing may be due for hours */
        d->held_up = false;
        return;
    }
    dispatch_finish(&d->dispatch);
    hold_up(d, &err);
}

/* When there is something to do again; the eventfd may say so before. */
static int64_t next_us(const struct delayer *d)
{
    int64_t next = rp_wall_us() + IDLE_MS * 1000;
    bool full = lanes_full(&d->lanes);
    for (size_t i = 0; i < d->lanes.n; i++) {
        struct frontier_entry head;
        struct lane *lane = d->lanes.items[i];
        bool waits = full && !frontier_recovering(lane_frontier(lane));
        int64_t read_ms = waits ? INT64_MAX : lane_read_at_ms(lane);
        if (read_ms < next / 1000)
            next = read_ms * 1000;
        if (frontier_peek(lane_frontier(lane), &head) &&
            head.settle_ms < (next + dispatch_lead_us(&d->dispatch)) / 1000)
            next = head.settle_ms * 1000 - dispatch_lead_us(&d->dispatch);
    }
    return next;
}

static void wait(struct delayer *d)
{
    uint64_t drained;
    int64_t left_us = next_us(d) - rp_wall_us();
    struct pollfd fd = {.fd = d->lanes.wake_fd, .events = POLLIN};
    struct timespec timeout = {.tv_nsec = 1000 * (left_us < 0 ? 0 : left_us)};
    if (left_us > 0 && ppoll(&fd, 1, &timeout, NULL) > 0)
        (void)!read(d->lanes.wake_fd, &drained, sizeof drained);
}

static void take_over(struct delayer *d)
{
    lanes_take_over(&d->lanes);
    atomic_store(&d->w->ready,
                 d->joined && d->outbox->backoff_ms == 0 && d->lanes.n == d->lanes.all);
}

/* One a call, since each may wait for its answer. */
static void check_an_end(struct delayer *d)
{
    if (d->lanes.n == 0)
        return;
    struct lane *lane = d->lanes.items[d->next_end++ % d->lanes.n];
    if (lane_check_end(lane))
        forget(d, lane);
}

static void keep_house(struct delayer *d)
{
    struct rp_error err;
    int64_t now_mono_ms = rp_mono_ms();
    check_an_end(d);
    if (rp_stall_due(&d->stall) &&
        rp_stall_look(&d->stall, d->lanes.consumer, lanes_emptied(&d->lanes), &err) != 0)
        rp_outbox_give_up(d->outbox, &err);
    if (now_mono_ms - d->commit_mono_ms >= COMMIT_EVERY_MS)
        commit_states(d, true);
    if (now_mono_ms - d->gauge_mono_ms >= GAUGE_EVERY_MS) {
        delayer_metrics_gauge(&d->dispatch.metrics, d->config, d->lanes.items, d->lanes.n,
                              d->lanes.hold, rp_wall_ms());
        d->gauge_mono_ms = now_mono_ms;
    }
    if (trimmer_is_due(d->trimmer)) {
        rd_kafka_topic_partition_list_t *offsets =
            lanes_trimmable(&d->lanes, trimmer_failed(d->trimmer));
        trimmer_start(d->trimmer, offsets);
        rd_kafka_topic_partition_list_destroy(offsets);
    }
}

static void step(struct delayer *d)
{
    serve_consumer(d);
    take_over(d);
    if (!commit_cuts(d))
        return;
    read_lanes(d);
    serve_cuts(d);
    d->dispatch.settle.policies = rp_worker_policies(d->w);
    bool settled = dispatch_due(&d->dispatch);
    keep_house(d);
    if (!settled)
        wait(d);
}

/* What is fetched ahead waits in memory, by partition: little of it, since the log is the waiting
 * room; and room that comes free is filled soon, since the default of a second is a second late. */
static const struct rp_property consumer_defaults[] = {
    {"queued.min.messages", "2000"},
    {"queued.max.messages.kbytes", "512"},
    {"fetch.message.max.bytes", "262144"},
    {"fetch.queue.backoff.ms", "5"},
    /* A partition that comes is fetched when the fetch under way has ended, which may wait; so is
     * one that was left out for having enough, and what it had must last until then: a backlog
     * of large tasks waits for that. With less it goes quicker, and at 10,000 tasks a second the
     * latest hundredth comes later. */
    {"fetch.wait.max.ms", "20"},
};

/* The coordinator gives a static member that comes back what it had, whatever it subscribes to now:
 * so who reads other tiers is another member. */
static void name_member(const char *instance, char *const *topics, size_t n, char out[128])
{
    uint64_t sum = 0; /* in whatever order they are named */
    for (size_t i = 0; i < n; i++)
        sum += XXH3_64bits(topics[i], strlen(topics[i]));
    (void)snprintf(out, 128, "%s-%08x", instance, (unsigned)(sum >> 32));
}

static int connect_kafka(struct delayer *d, struct rp_error *err)
{
    static const uint64_t one = 1;
    char group[300], id[400], member[128];
    char *topics[2 * RP_MAX_TIERS];
    size_t n_topics = d->config->n_tiers + d->config->n_retired;
    const struct rp_consumer_owner owner = {d, assigned, revoked};
    for (size_t i = 0; i < n_topics; i++)
        topics[i] = d->config->tiers[i].topic;
    (void)snprintf(group, sizeof group, "%sreprise-delayer", d->config->topics.prefix);
    /* Transactional ids are the cluster's, not the group's. */
    (void)snprintf(id, sizeof id, "%s-%s", group, d->w->instance);
    name_member(d->w->instance, topics, n_topics, member);
    const struct rp_consumer_options options = {
        .group = group,
        .instance = member,
        .topics = topics,
        .n_topics = n_topics,
        .eof = true,
        .defaults = consumer_defaults,
        .n_defaults = sizeof consumer_defaults / sizeof *consumer_defaults,
    };
    if (dispatch_init(&d->dispatch, d->w, id, &d->lanes, d->registry, err) != 0)
        return -1;
    rp_outbox_open(d->outbox); /* who waits for that and is a member holds up all others */
    if (d->outbox->failed)
        return rp_fail_as(err, &d->outbox->failure);
    if (rp_outbox_stopping(d->outbox))
        return 0; /* it has not joined, and does not */
    if (rp_consumer_new(d->config, &options, &owner, &d->consumer, err) != 0)
        return -1;
    d->dispatch.consumer = d->consumer;
    d->lanes.consumer = rp_consumer_handle(d->consumer);
    d->rebalances = rd_kafka_queue_get_consumer(d->lanes.consumer);
    rd_kafka_queue_io_event_enable(d->rebalances, d->lanes.wake_fd, &one, sizeof one);
    if (trimmer_new(d->lanes.consumer, &d->trimmer, err) != 0)
        return -1;
    return rp_inquiry_new(d->config, d->lanes.consumer, group, d->lanes.wake_fd, &d->lanes.inquiry,
                          err);
}

static void report_stray(void *opaque, const char *topic, bool retired, int64_t records)
{
    (void)opaque;
    if (retired)
        rp_log(RP_LOG_INFO, "tier-retired", rp_f_str("topic", topic), rp_f_int("records", records));
    else
        rp_log(RP_LOG_ERROR, "tier-unread", rp_f_str("topic", topic), rp_f_int("records", records),
               rp_f_str("effect", "its tasks wait for ever"),
               rp_f_str("mend", "name it in tiers, or in tiers_retired to have it emptied"));
}

static void *report_strays(void *opaque)
{
    struct delayer *d = opaque;
    struct rp_error err;
    if (rp_strays_find(d->config, &d->look_no_more, report_stray, NULL, &err) != 0 &&
        !atomic_load(&d->look_no_more))
        rp_log(RP_LOG_WARN, "unread-tiers-unknown", rp_f_str("error", err.text));
    return NULL;
}

/* It takes seconds, which no task shall wait for. */
static void look_for_strays(struct delayer *d)
{
    int failed = pthread_create(&d->looker, NULL, report_strays, d);
    d->looks = failed == 0;
    if (failed != 0)
        rp_log(RP_LOG_WARN, "unread-tiers-unknown", rp_f_str("error", strerror(failed)));
}

static int set_up(struct delayer *d, struct rp_error *err)
{
    const struct rp_config *config = d->config;
    d->lanes.config = config;
    d->lanes.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (d->lanes.wake_fd < 0)
        return rp_fail(err, RP_E_IO, RP_FATAL, "no descriptor for a worker");
    if (rp_registry_open(config, &d->registry, err) != 0 ||
        hold_new((size_t)config->memory_bytes, config->spill_dir, &d->lanes.hold, err) != 0)
        return -1;
    if (d->w->index == 0)
        look_for_strays(d);
    return connect_kafka(d, err);
}

static void tear_down(struct delayer *d)
{
    atomic_store(&d->look_no_more, true);
    trimmer_free(d->trimmer);
    rp_stall_clear(&d->stall);
    if (d->rebalances != NULL) {
        rd_kafka_queue_io_event_enable(d->rebalances, -1, NULL, 0);
        rd_kafka_queue_destroy(d->rebalances);
    }
    lanes_clear(&d->lanes);
    rp_inquiry_free(d->lanes.inquiry);
    rp_consumer_close(d->consumer);
    lanes_clear(&d->lanes); /* partitions may have come and gone meanwhile */
    dispatch_clear(&d->dispatch);
    rp_registry_free(d->registry);
    hold_free(d->lanes.hold);
    if (d->looks)
        (void)pthread_join(d->looker, NULL);
    if (d->lanes.wake_fd >= 0)
        (void)close(d->lanes.wake_fd);
}

int delayer_run(struct rp_worker *w, struct rp_error *err)
{
    struct delayer *d = calloc(1, sizeof *d);
    if (d == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a worker");
    d->w = w;
    d->config = w->config;
    d->outbox = &d->dispatch.outbox;
    int rc = set_up(d, err);
    if (rc == 0) {
        while (!rp_outbox_stopping(d->outbox))
            step(d);
        dispatch_finish(&d->dispatch);
        commit_states(d, false);
        if (d->outbox->failed) {
            *err = d->outbox->failure;
            rc = -1;
        }
    }
    tear_down(d);
    free(d);
    return rc;
}
