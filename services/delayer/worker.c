/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "consumer.h"
#include "crash_point.h"
#include "lanes.h"
#include "log.h"
#include "metrics_delayer.h"
#include "registry.h"
#include "strays.h"
#include "trim.h"

#define IDLE_MS         100
#define BACKOFF_MS      50
#define BACKOFF_MAX_MS  5000
#define READ_MOST       512   /* records read of a partition between two looks at the clock */
#define GAUGE_EVERY_MS  1000
#define COMMIT_EVERY_MS 100   /* at-least-once: how old a settled state grows before its commit */

/* A record in the batch under way. */
struct taken {
    struct lane *lane;
    int64_t offset, due_ms;
    uint64_t handle;
    enum settle_kind kind;
    enum rp_reason reason;
    char topic[250]; /* where it goes; for blame */
};

struct delayer {
    struct rp_worker *w;
    const struct rp_config *config;
    bool exactly_once;
    struct rp_consumer *consumer;
    rd_kafka_queue_t *rebalances; /* the consumer's own queue */
    struct rp_publisher *publisher;
    rd_kafka_t *admin;
    struct rp_registry *registry;
    struct trimmer *trimmer;
    struct settle_context settle;
    struct delayer_metrics metrics;
    struct rp_lessons lessons;
    struct lanes lanes;
    size_t first_lane; /* where the next batch begins, so that none is always last */
    struct rp_arena headers;
    struct rp_buf scratch;

    struct taken *batch;
    size_t n, most;
    bool alone; /* the batch is closed: its one record goes by itself */
    int64_t lead_us; /* how much before its due time a batch is begun; what that takes, averaged */

    int64_t backoff_ms, gauge_mono_ms, commit_mono_ms;
    bool learned; /* the last failure says what to do otherwise, so that is tried at once */
    bool joined; /* the group has given us partitions, or none */
    bool failed; /* `failure` ends the worker */
    struct rp_error failure;
};

static void give_up(struct delayer *d, const struct rp_error *err)
{
    if (!d->failed)
        d->failure = *err;
    d->failed = true;
}

static bool stopping(const struct delayer *d)
{
    return d->failed || atomic_load(d->w->stop);
}

static void back_off(struct delayer *d, const struct rp_error *err)
{
    if (d->learned) { /* one bad record must not hold up the others */
        rp_log(RP_LOG_INFO, "batch-divided", rp_f_str("error", err->text));
        d->learned = false;
        return;
    }
    d->backoff_ms = d->backoff_ms == 0 ? BACKOFF_MS : 2 * d->backoff_ms;
    if (d->backoff_ms > BACKOFF_MAX_MS)
        d->backoff_ms = BACKOFF_MAX_MS;
    atomic_store(&d->w->ready, false);
    rp_log(RP_LOG_WARN, "batch-failed", rp_f_str("error", err->text),
           rp_f_int("retry_in_ms", d->backoff_ms));
    for (int64_t end = rp_mono_ms() + d->backoff_ms; rp_mono_ms() < end && !stopping(d);)
        (void)usleep(10000);
}

/* The producer before all: it aborts what a predecessor of the same name left open, which would hold
 * up the state of the partitions. */
static void open_publisher(struct delayer *d)
{
    struct rp_error err;
    while (!stopping(d) && rp_publisher_open(d->publisher, &err) != 0) {
        if (err.cls == RP_FATAL)
            give_up(d, &err);
        else
            back_off(d, &err);
    }
}

static void assigned(void *opaque, rd_kafka_topic_partition_list_t *parts)
{
    struct delayer *d = opaque;
    struct rp_error err;
    if (lanes_add(&d->lanes, parts, &err) != 0)
        give_up(d, &err);
    /* Each lane seeks once its state is known. librdkafka would look the offset up itself, but when the
     * assignment changes while it is not known (a transaction is under way), it takes that for none,
     * and begins at the log's beginning. */
    for (int i = 0; i < parts->cnt; i++)
        parts->elems[i].offset = RD_KAFKA_OFFSET_END;
    d->joined = true;
    RP_CRASH_POINT(assigned);
    d->backoff_ms = 0;
}

/* Commits what was acknowledged, where the guarantee lets that wait. */
static void commit_states(struct delayer *d, bool async)
{
    if (d->exactly_once)
        return;
    rd_kafka_topic_partition_list_t *states = lanes_states(&d->lanes, true);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (states->cnt > 0)
        code = rd_kafka_commit(rp_consumer_handle(d->consumer), states, async);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        rp_log(RP_LOG_WARN, "offset-commit-failed", rp_f_str("error", rd_kafka_err2str(code)));
    for (size_t i = 0; i < d->lanes.n && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        lane_set_committed(d->lanes.items[i]);
    rd_kafka_topic_partition_list_destroy(states);
    d->commit_mono_ms = rp_mono_ms();
}

static void revoked(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost)
{
    struct delayer *d = opaque;
    RP_CRASH_POINT(revoked_before);
    if (!lost)
        commit_states(d, false);
    lanes_remove(&d->lanes, parts);
    RP_CRASH_POINT(revoked_after);
}

static void learn(struct delayer *d)
{
    size_t n;
    struct rp_error err;
    const struct rp_failure_report *failures = rp_publisher_failures(d->publisher, &n);
    for (size_t i = 0; i < n; i++) {
        if (failures[i].tag >= d->n)
            continue;
        const struct taken *t = &d->batch[failures[i].tag];
        struct rp_bytes topic = rp_str(t->topic);
        (void)rp_kafka_fail(&err, failures[i].code, t->topic);
        if (err.cls != RP_POISON)
            continue;
        if (rp_targets_blame(d->settle.targets, topic, failures[i].code)) {
            if (rp_config_owns_topic(d->config, topic))
                rp_log(RP_LOG_ERROR, "own-topic-refused", rp_f_str("error", err.text),
                       rp_f_str("mend", "reprise topics check"));
            else
                d->learned = true;
            continue;
        }
        int news = rp_lessons_add(&d->lessons, lane_topic(t->lane), lane_partition(t->lane),
                                  t->offset, d->alone, failures[i].code, &err);
        if (news < 0)
            give_up(d, &err);
        d->learned = d->learned || news > 0;
    }
}

static void fail_batch(struct delayer *d, bool unknown, const struct rp_error *err)
{
    delayer_metrics_failed(&d->metrics);
    learn(d);
    rp_targets_forget(d->settle.targets);
    d->n = 0;
    if (err->cls == RP_FATAL)
        give_up(d, err);
    else
        back_off(d, err);
    if (!unknown) {
        lanes_untake(&d->lanes);
        return;
    }
    /* As another owner would: drops what is held, and begins with what is committed. A new producer
     * comes first, since that ends whatever is still under way. */
    open_publisher(d);
    lanes_let_go(&d->lanes);
}

static struct settle_record record_of(struct lane *lane, const struct frontier_entry *entry,
                                      struct rp_bytes bytes, const struct rp_lesson *lesson)
{
    struct settle_record r = {
        .topic = lane_topic(lane),
        .partition = lane_partition(lane),
        .offset = entry->offset,
        .lap = entry->lap,
        .now_ms = rp_wall_ms(),
        .lesson = lesson,
    };
    parcel_read(bytes, &r.parcel);
    return r;
}

static void log_settlement(const struct settle_record *r, const struct settlement *s)
{
    rp_log(s->kind == SETTLE_DEAD ? RP_LOG_INFO : RP_LOG_DEBUG, settle_kind_name(s->kind),
           rp_f_str("topic", r->topic), rp_f_int("partition", r->partition),
           rp_f_int("offset", r->offset), rp_f_bytes("task_id", s->task_id),
           rp_f_str("reason", s->kind == SETTLE_DEAD ? rp_reason_name(s->reason) : "-"),
           rp_f_str("why", s->why));
}

/* Sends what follows from the lane's next record, and takes it into the batch. */
static int take(struct delayer *d, struct lane *lane, const struct frontier_entry *entry,
                const struct rp_lesson *lesson, struct rp_error *err)
{
    struct rp_bytes bytes;
    struct settlement s;
    if (hold_get(d->lanes.hold, entry->handle, &d->scratch, &bytes, err) != 0)
        return -1;
    struct settle_record r = record_of(lane, entry, bytes, lesson);
    if (settle_record(&d->settle, &r, &s, err) != 0 ||
        rp_publisher_begin(d->publisher, err) != 0)
        return -1;
    struct taken *t = &d->batch[d->n];
    *t = (struct taken){.lane = lane,
                        .offset = entry->offset,
                        .due_ms = entry->settle_ms,
                        .handle = entry->handle,
                        .kind = s.kind,
                        .reason = s.reason};
    (void)snprintf(t->topic, sizeof t->topic, "%.*s", (int)s.out.topic.len,
                   (const char *)s.out.topic.data);
    s.out.tag = d->n++;
    frontier_take(lane_frontier(lane));
    log_settlement(&r, &s);
    return rp_publisher_send(d->publisher, &s.out, err);
}

/* Takes what the lane has to settle until `horizon_us`. */
static int take_due(struct delayer *d, struct lane *lane, int64_t horizon_us, struct rp_error *err)
{
    struct frontier_entry entry;
    while (!d->alone && d->n < d->most && frontier_peek(lane_frontier(lane), &entry) &&
           entry.settle_ms <= horizon_us / 1000) {
        const struct rp_lesson *lesson =
            d->lessons.n == 0 ? NULL
                              : rp_lessons_find(&d->lessons, lane_topic(lane),
                                                lane_partition(lane), entry.offset);
        if (lesson != NULL && d->n > 0)
            return 0;
        d->alone = lesson != NULL;
        if (take(d, lane, &entry, lesson, err) != 0)
            return -1;
    }
    return 0;
}

static int take_all_due(struct delayer *d, int64_t horizon_us, struct rp_error *err)
{
    struct lanes *l = &d->lanes;
    d->n = 0;
    d->alone = false;
    for (size_t i = 0; i < l->n; i++)
        if (take_due(d, l->items[(d->first_lane + i) % l->n], horizon_us, err) != 0)
            return -1;
    d->first_lane++;
    return 0;
}

/* A re-invocation can be read once its transaction is committed, so that waits until the last of
 * the batch is due. False: that is further away than it can be, so the clock was set back. */
static bool wait_until_due(const struct delayer *d)
{
    int64_t due_ms = 0, left_us;
    for (size_t i = 0; i < d->n; i++)
        if (d->batch[i].due_ms > due_ms)
            due_ms = d->batch[i].due_ms;
    while ((left_us = due_ms * 1000 - rp_wall_us()) > 0) {
        if (left_us > d->config->prepare_ahead_ms * 1000)
            return false;
        (void)usleep((useconds_t)left_us);
    }
    return true;
}

static enum rp_published publish(struct delayer *d, int64_t began_mono_us, struct rp_error *err)
{
    if (d->exactly_once) {
        rd_kafka_topic_partition_list_t *states = lanes_states(&d->lanes, false);
        enum rp_published result = rp_publisher_offsets(
            d->publisher, rp_consumer_handle(d->consumer), states, err);
        rd_kafka_topic_partition_list_destroy(states);
        if (result == RP_PUBLISHED)
            result = rp_publisher_wait(d->publisher, err);
        if (result != RP_PUBLISHED)
            return result;
        /* The lead follows what it takes to get here. */
        d->lead_us += (rp_mono_us() - began_mono_us - d->lead_us) / 8;
        if (!wait_until_due(d)) {
            rp_publisher_abort(d->publisher);
            (void)rp_fail(err, RP_E_RANGE, RP_RETRIABLE, "the clock was set back");
            return RP_NOT_PUBLISHED;
        }
    }
    return rp_publisher_commit(d->publisher, err);
}

static void account(struct delayer *d, int64_t began_mono_us)
{
    int64_t now_us = rp_wall_us();
    for (size_t i = 0; i < d->n; i++) {
        const struct taken *t = &d->batch[i];
        hold_drop(d->lanes.hold, t->handle);
        rp_lessons_forget(&d->lessons, lane_topic(t->lane), lane_partition(t->lane), t->offset);
        delayer_metrics_settled(&d->metrics, t->kind, lane_topic(t->lane), t->reason);
        if (t->kind == SETTLE_SENT)
            delayer_metrics_late(&d->metrics, now_us - t->due_ms * 1000);
    }
    delayer_metrics_committed(&d->metrics, rp_mono_us() - began_mono_us);
}

static int64_t lead_us(const struct delayer *d)
{
    int64_t most = d->exactly_once ? d->config->prepare_ahead_ms * 1000 : 0;
    return d->lead_us < most ? d->lead_us : most;
}

/* Settles one batch of what is due. False: nothing is. */
static bool settle_due(struct delayer *d)
{
    struct rp_error err;
    int64_t began_mono_us = rp_mono_us();
    enum rp_published result = RP_NOT_PUBLISHED;
    if (take_all_due(d, rp_wall_us() + lead_us(d), &err) == 0) {
        if (d->n == 0)
            return false;
        result = publish(d, began_mono_us, &err);
    } else {
        rp_publisher_abort(d->publisher);
    }
    if (result != RP_PUBLISHED) {
        fail_batch(d, result == RP_UNKNOWN, &err);
        return true;
    }
    lanes_settled(&d->lanes);
    RP_CRASH_POINT(settled);
    account(d, began_mono_us);
    if (d->exactly_once)
        for (size_t i = 0; i < d->lanes.n; i++)
            lane_set_committed(d->lanes.items[i]);
    d->backoff_ms = 0;
    return true;
}

/* Records have queues of their own; here come rebalances and errors. */
static void serve_consumer(struct delayer *d)
{
    rd_kafka_message_t *m;
    while (!d->failed && (m = rp_consumer_poll(d->consumer, 0)) != NULL) {
        struct rp_error err;
        if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            (void)rp_fail(&err, RP_E_KAFKA, RP_FATAL, "a record came past its partition's queue");
        else
            (void)rp_consumer_fail(d->consumer, m, &err);
        rp_log(RP_LOG_WARN, "consumer-error", rp_f_str("error", err.text));
        if (err.cls == RP_FATAL)
            give_up(d, &err);
        rd_kafka_message_destroy(m);
    }
}

static bool is_full(const struct delayer *d)
{
    return lanes_held(&d->lanes) >= (size_t)d->config->max_held;
}

/* With no more room, only recoveries go on: until they end they give nothing out. */
static void read_lanes(struct delayer *d)
{
    struct rp_error err;
    int64_t now_ms = rp_wall_ms();
    bool full = is_full(d);
    for (size_t i = 0; i < d->lanes.n; i++) {
        struct lane *lane = d->lanes.items[i];
        if (full && !frontier_recovering(lane_frontier(lane)))
            continue;
        if (lane_read(lane, now_ms, READ_MOST, &d->headers, &err) < 0) {
            back_off(d, &err);
            return;
        }
    }
}

/* When there is something to do again; the eventfd may say so before. */
static int64_t next_us(const struct delayer *d)
{
    int64_t next = rp_wall_us() + IDLE_MS * 1000;
    bool full = is_full(d);
    for (size_t i = 0; i < d->lanes.n; i++) {
        struct frontier_entry head;
        struct lane *lane = d->lanes.items[i];
        int64_t read_ms = full ? INT64_MAX : lane_read_at_ms(lane);
        if (read_ms < next / 1000)
            next = read_ms * 1000;
        if (frontier_peek(lane_frontier(lane), &head) &&
            head.settle_ms < (next + lead_us(d)) / 1000)
            next = head.settle_ms * 1000 - lead_us(d);
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
    atomic_store(&d->w->ready, d->joined && d->backoff_ms == 0 && d->lanes.n == d->lanes.all);
}

static void keep_house(struct delayer *d)
{
    int64_t now_mono_ms = rp_mono_ms();
    for (size_t i = 0; i < d->lanes.n; i++)
        lane_check_end(d->lanes.items[i], d->lanes.consumer);
    if (now_mono_ms - d->commit_mono_ms >= COMMIT_EVERY_MS)
        commit_states(d, true);
    if (now_mono_ms - d->gauge_mono_ms >= GAUGE_EVERY_MS) {
        delayer_metrics_gauge(&d->metrics, d->config, d->lanes.items, d->lanes.n, d->lanes.hold,
                              rp_wall_ms());
        d->gauge_mono_ms = now_mono_ms;
    }
    if (trimmer_is_due(d->trimmer)) {
        rd_kafka_topic_partition_list_t *offsets = lanes_trimmable(&d->lanes);
        trimmer_start(d->trimmer, offsets);
        rd_kafka_topic_partition_list_destroy(offsets);
    }
}

static void step(struct delayer *d)
{
    serve_consumer(d);
    take_over(d);
    read_lanes(d);
    d->settle.policies = rp_worker_policies(d->w);
    bool settled = settle_due(d);
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
};

static int connect_kafka(struct delayer *d, struct rp_error *err)
{
    static const uint64_t one = 1;
    char group[300], id[400];
    char *topics[2 * RP_MAX_TIERS];
    size_t n_topics = d->config->n_tiers + d->config->n_retired;
    const struct rp_consumer_owner owner = {d, assigned, revoked};
    for (size_t i = 0; i < n_topics; i++)
        topics[i] = d->config->tiers[i].topic;
    (void)snprintf(group, sizeof group, "%sreprise-delayer", d->config->topics.prefix);
    /* Transactional ids are the cluster's, not the group's. */
    (void)snprintf(id, sizeof id, "%s-%s", group, d->w->instance);
    const struct rp_consumer_options options = {
        .group = group,
        .instance = d->w->instance,
        .topics = topics,
        .n_topics = n_topics,
        .eof = true,
        .defaults = consumer_defaults,
        .n_defaults = sizeof consumer_defaults / sizeof *consumer_defaults,
    };
    /* A batch is queued in one go, so hardly any lingering brings it together. */
    if (rp_publisher_new(d->config, id, "0.5", &d->publisher, err) != 0 ||
        rp_consumer_new(d->config, &options, &owner, &d->consumer, err) != 0)
        return -1;
    d->lanes.consumer = rp_consumer_handle(d->consumer);
    d->rebalances = rd_kafka_queue_get_consumer(d->lanes.consumer);
    rd_kafka_queue_io_event_enable(d->rebalances, d->lanes.wake_fd, &one, sizeof one);
    if (trimmer_new(d->lanes.consumer, &d->trimmer, err) != 0 ||
        rp_inquiry_new(d->lanes.consumer, group, d->lanes.wake_fd, &d->lanes.inquiry, err) != 0)
        return -1;
    if (rp_kafka_new_admin(d->config, &d->admin, err) != 0)
        return -1;
    return rp_targets_new(d->admin, &d->settle.targets, err);
}

static int set_up(struct delayer *d, struct rp_error *err)
{
    const struct rp_config *config = d->config;
    d->exactly_once = config->guarantee == RP_EXACTLY_ONCE;
    d->most = (size_t)config->delayer.batch;
    d->batch = calloc(d->most, sizeof *d->batch);
    d->lanes.config = d->settle.config = config;
    d->settle.policies = rp_worker_policies(d->w);
    d->lanes.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    delayer_metrics_init(&d->metrics, d->w->metrics, d->w->index);
    if (d->batch == NULL || d->lanes.wake_fd < 0)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory or descriptor for a worker");
    if (rp_registry_open(config, &d->registry, err) != 0)
        return -1;
    if (hold_new((size_t)config->memory_bytes, config->spill_dir, &d->lanes.hold, err) != 0 ||
        rp_codec_new(d->registry, &d->settle.codec, err) != 0)
        return -1;
    return connect_kafka(d, err);
}

static void tear_down(struct delayer *d)
{
    rp_targets_free(d->settle.targets);
    if (d->admin != NULL)
        rd_kafka_destroy(d->admin);
    trimmer_free(d->trimmer);
    if (d->rebalances != NULL) {
        rd_kafka_queue_io_event_enable(d->rebalances, -1, NULL, 0);
        rd_kafka_queue_destroy(d->rebalances);
    }
    lanes_clear(&d->lanes);
    rp_inquiry_free(d->lanes.inquiry);
    rp_consumer_close(d->consumer);
    rp_publisher_free(d->publisher);
    rp_codec_free(d->settle.codec);
    rp_registry_free(d->registry);
    hold_free(d->lanes.hold);
    rp_arena_clear(&d->settle.arena);
    rp_arena_clear(&d->headers);
    rp_buf_clear(&d->settle.letter);
    rp_buf_clear(&d->scratch);
    rp_lessons_clear(&d->lessons);
    free(d->batch);
    if (d->lanes.wake_fd >= 0)
        (void)close(d->lanes.wake_fd);
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

static void report_strays(const struct delayer *d)
{
    struct rp_error err;
    if (rp_strays_find(d->config, report_stray, NULL, &err) != 0)
        rp_log(RP_LOG_WARN, "unread-tiers-unknown", rp_f_str("error", err.text));
}

int delayer_run(struct rp_worker *w, struct rp_error *err)
{
    struct delayer *d = calloc(1, sizeof *d);
    if (d == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a worker");
    d->w = w;
    d->config = w->config;
    int rc = set_up(d, err);
    if (rc == 0 && w->index == 0)
        report_strays(d);
    if (rc == 0) {
        open_publisher(d);
        while (!stopping(d))
            step(d);
        commit_states(d, false);
        if (d->failed) {
            *err = d->failure;
            rc = -1;
        }
    }
    tear_down(d);
    free(d);
    return rc;
}
