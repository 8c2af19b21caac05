/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch.h"

#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "crash_point.h"
#include "log.h"

/* A transaction takes what is due until so much after the last one's: fewer of them keep the
 * brokers freer for the next, and a task that nothing was due before waits for no other. */
#define APART_US    5000
#define AWAIT_US    10000   /* between two looks at the clock */
#define PATIENCE_US 1000000 /* then the next batch does not begin before this one is committed */

/* A record in the batch under way. */
struct taken {
    struct lane *lane;
    int64_t due_ms;
    uint64_t handle;
    enum settle_kind kind;
    enum rp_reason reason;
};

int dispatch_init(struct dispatch *d, struct rp_worker *worker, const char *id, struct lanes *lanes,
                  struct rp_registry *registry, struct rp_error *err)
{
    size_t most = (size_t)worker->config->delayer.batch;
    *d = (struct dispatch){.config = worker->config, .lanes = lanes};
    d->settle.config = d->config;
    d->batch.taken = calloc(most, sizeof *d->batch.taken);
    d->sent_off.taken = calloc(most, sizeof *d->sent_off.taken);
    delayer_metrics_init(&d->metrics, worker->metrics, worker->index);
    if (d->batch.taken == NULL || d->sent_off.taken == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for batches of %zu", most);
    /* What is left is flushed. Without lingering a full batch goes out in so many requests that
     * librdkafka's thread spins (publisher.h). */
    if (rp_codec_new(registry, &d->settle.codec, err) != 0 ||
        rp_outbox_init(&d->outbox, worker, id, "2", most, err) != 0)
        return -1;
    d->settle.targets = d->outbox.targets;
    return 0;
}

void dispatch_clear(struct dispatch *d)
{
    rp_outbox_clear(&d->outbox);
    rp_codec_free(d->settle.codec);
    rp_arena_clear(&d->settle.arena);
    rp_buf_clear(&d->settle.letter);
    rp_buf_clear(&d->scratch);
    free(d->batch.taken);
    free(d->sent_off.taken);
    *d = (struct dispatch){0};
}

static bool is_exactly_once(const struct dispatch *d)
{
    return d->config->guarantee == RP_EXACTLY_ONCE;
}

/* What the batches before settled need not come again. */
static void commit_settled(struct dispatch *d)
{
    struct rp_error err;
    rd_kafka_topic_partition_list_t *states = lanes_states(d->lanes, true);
    if (states->cnt > 0 && rp_consumer_commit(d->consumer, states, false, &err) != 0)
        rp_log(RP_LOG_WARN, "offset-commit-failed", rp_f_str("error", err.text));
    rd_kafka_topic_partition_list_destroy(states);
}

static void fail_batch(struct dispatch *d, bool unknown, const struct rp_error *err)
{
    delayer_metrics_failed(&d->metrics);
    d->batch.n = d->sent_off.n = 0;
    rp_outbox_failed(&d->outbox, err);
    lanes_untake(d->lanes);
    /* What the spill file does not give back (RP_E_IO), the log does. */
    if (!unknown && err->code != RP_E_IO)
        return;
    /* As another owner would: drops what is held, and begins with what is committed. A new producer
     * comes first, since that ends whatever is still under way. */
    rp_outbox_open(&d->outbox);
    if (unknown)
        d->outbox.backoff_ms = 0; /* it may be out after all, and nothing may come to show it */
    if (!is_exactly_once(d))
        commit_settled(d);
    lanes_let_go(d->lanes);
}

static struct settle_record record_of(const struct dispatch *d, struct lane *lane,
                                      const struct frontier_entry *entry, struct rp_bytes bytes,
                                      const struct rp_lesson *lesson)
{
    struct settle_record r = {
        .topic = lane_topic(lane),
        .partition = lane_partition(lane),
        .offset = entry->offset,
        .lap = entry->lap,
        .now_ms = d->began_ms,
        .lesson = lesson,
    };
    parcel_read(bytes, &r.parcel);
    if (r.parcel.passage.due_ms == RP_NO_TIME)
        r.parcel.passage.due_ms = entry->settle_ms;
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
static int take(struct dispatch *d, struct lane *lane, const struct frontier_entry *entry,
                const struct rp_lesson *lesson, struct rp_error *err)
{
    struct rp_bytes bytes;
    struct settlement s;
    if (hold_get(d->lanes->hold, entry->handle, &d->scratch, &bytes, err) != 0)
        return -1;
    struct settle_record r = record_of(d, lane, entry, bytes, lesson);
    if (settle_record(&d->settle, &r, &s, err) != 0 ||
        rp_outbox_send(&d->outbox, r.topic, r.partition, r.offset, &s.out, err) != 0)
        return -1;
    if (entry->settle_ms > d->batch.last_ms)
        d->batch.last_ms = entry->settle_ms;
    d->batch.taken[d->batch.n++] = (struct taken){.lane = lane,
                                                  .due_ms = r.parcel.passage.due_ms,
                                                  .handle = entry->handle,
                                                  .kind = s.kind,
                                                  .reason = s.reason};
    frontier_take(lane_frontier(lane));
    log_settlement(&r, &s);
    rp_buf_reset(&d->scratch, RP_BUF_KEEP); /* what was sent was copied */
    return 0;
}

/* Takes what the lane has to settle until `horizon_us`. */
static int take_due(struct dispatch *d, struct lane *lane, int64_t horizon_us, struct rp_error *err)
{
    struct frontier_entry entry;
    const struct rp_outbox *o = &d->outbox;
    while (!rp_outbox_full(o) && !rp_outbox_stopping(o) &&
           frontier_peek(lane_frontier(lane), &entry) && entry.settle_ms <= horizon_us / 1000) {
        const struct rp_lesson *lesson =
            rp_lessons_find(&o->lessons, lane_topic(lane), lane_partition(lane), entry.offset);
        if (lesson != NULL && o->n > 0)
            return 0;
        if (take(d, lane, &entry, lesson, err) != 0)
            return -1;
    }
    return 0;
}

static int take_all_due(struct dispatch *d, int64_t horizon_us, struct rp_error *err)
{
    const struct lanes *l = d->lanes;
    size_t i = 0;
    d->began_ms = rp_wall_ms();
    d->batch.n = 0;
    d->batch.last_ms = 0;
    d->batch.acknowledged = false;
    d->batch.began_mono_us = rp_mono_us();
    for (; i < l->n && !rp_outbox_full(&d->outbox); i++)
        if (take_due(d, l->items[(d->first_lane + i) % l->n], horizon_us, err) != 0)
            return -1;
    /* The next goes on behind this one; but a record that must come first waits for its lane's
     * turn. */
    d->first_lane += i == l->n || d->outbox.lessons.n > 0 ? 1 : i;
    d->behind = rp_outbox_full(&d->outbox);
    if (d->outbox.n > 0)
        d->until_us = d->behind ? 0 : horizon_us;
    return 0;
}

/* A re-invocation can be read once its transaction is committed, so that waits until the last of
 * the batch is due. False: that is further away than it can be, so the clock was set back. */
static bool wait_until_due(const struct dispatch *d, int64_t last_ms)
{
    int64_t left_us;
    while ((left_us = last_ms * 1000 - rp_wall_us()) > 0) {
        if (left_us > d->config->prepare_ahead_ms * 1000)
            return false;
        (void)usleep((useconds_t)left_us);
    }
    return true;
}

/* The lead follows what it takes to get here. */
static void note_acknowledged(struct dispatch *d, struct dispatch_batch *b)
{
    if (!b->acknowledged)
        d->took_us += (rp_mono_us() - b->began_mono_us - d->took_us) / 8;
    b->acknowledged = true;
}

static void account(struct dispatch *d, const struct dispatch_batch *b)
{
    int64_t now_us = rp_wall_us();
    for (size_t i = 0; i < b->n; i++) {
        const struct taken *t = &b->taken[i];
        hold_drop(d->lanes->hold, t->handle);
        delayer_metrics_settled(&d->metrics, t->kind, lane_topic(t->lane), t->reason);
        if (t->kind == SETTLE_SENT)
            delayer_metrics_late(&d->metrics, now_us - t->due_ms * 1000);
    }
    delayer_metrics_committed(&d->metrics, rp_mono_us() - b->began_mono_us);
}

/* `us`, or as much before the due time as a transaction may begin. */
static int64_t ahead_us(const struct dispatch *d, int64_t us)
{
    int64_t most = is_exactly_once(d) ? d->config->prepare_ahead_ms * 1000 : 0;
    return us < most ? us : most;
}

int64_t dispatch_lead_us(const struct dispatch *d)
{
    return ahead_us(d, d->took_us);
}

static int64_t horizon_us(const struct dispatch *d)
{
    int64_t now_us = rp_wall_us(), apart_us = d->until_us + APART_US - now_us;
    if (d->until_us - now_us > d->config->prepare_ahead_ms * 1000)
        apart_us = 0; /* the clock was set back */
    return now_us + ahead_us(d, d->took_us > apart_us ? d->took_us : apart_us);
}

static enum rp_published commit(struct dispatch *d, struct dispatch_batch *b, struct rp_error *err)
{
    if (is_exactly_once(d)) {
        enum rp_published result = rp_publisher_wait(d->outbox.publisher, err);
        if (result != RP_PUBLISHED)
            return result;
        note_acknowledged(d, b);
        if (!wait_until_due(d, b->last_ms)) {
            (void)rp_fail(err, RP_E_RANGE, RP_RETRIABLE, "the clock was set back");
            return RP_NOT_PUBLISHED;
        }
    }
    return rp_publisher_commit(d->outbox.publisher, err);
}

/* Commits the batch that is the publisher's oldest. False: it failed, and all is held again. */
static bool end_batch(struct dispatch *d, struct dispatch_batch *b)
{
    struct rp_error err;
    enum rp_published result = commit(d, b, &err);
    if (result != RP_PUBLISHED) {
        fail_batch(d, result == RP_UNKNOWN, &err);
        return false;
    }
    lanes_settled(d->lanes);
    RP_CRASH_POINT(settled);
    account(d, b);
    b->n = 0;
    rp_outbox_done(&d->outbox);
    if (is_exactly_once(d))
        for (size_t i = 0; i < d->lanes->n; i++)
            lane_set_committed(d->lanes->items[i]);
    return true;
}

static bool end_sent_off(struct dispatch *d)
{
    return d->sent_off.n == 0 || end_batch(d, &d->sent_off);
}

static enum rp_published send_offsets(struct dispatch *d, struct rp_error *err)
{
    if (!is_exactly_once(d))
        return RP_PUBLISHED;
    rd_kafka_topic_partition_list_t *states = lanes_states(d->lanes, false);
    enum rp_published result = rp_publisher_offsets(d->outbox.publisher, d->consumer, states, err);
    rd_kafka_topic_partition_list_destroy(states);
    return result;
}

/* Commits what was sent off where that needs no wait. False: it failed, and all is held again. */
static bool end_if_ready(struct dispatch *d)
{
    struct dispatch_batch *b = &d->sent_off;
    if (b->n == 0 || !rp_publisher_acknowledged(d->outbox.publisher, 0))
        return true;
    note_acknowledged(d, b);
    return b->last_ms * 1000 > rp_wall_us() || end_sent_off(d);
}

/* Takes what is due, and sends it off once the batch before is committed. False: nothing is due. */
static bool send_off(struct dispatch *d)
{
    struct rp_error err;
    int rc = take_all_due(d, horizon_us(d), &err);
    if (rc == 0 && d->outbox.n == 0)
        return false;
    if (!end_if_ready(d))
        return true;
    if (rc == 0)
        rc = send_offsets(d, &err) == RP_PUBLISHED ? 0 : -1;
    if (!end_sent_off(d))
        return true;
    if (rc != 0) {
        fail_batch(d, false, &err);
        return true;
    }
    lanes_send_off(d->lanes);
    if (!rp_outbox_send_off(&d->outbox)) {
        (void)end_batch(d, &d->batch);
        return true;
    }
    struct dispatch_batch batch = d->batch;
    d->batch = d->sent_off;
    d->sent_off = batch;
    return true;
}

/* How long until the next batch is begun, beside the one that was sent off. */
static int64_t left_us(const struct dispatch *d)
{
    struct frontier_entry head;
    int64_t next_ms = INT64_MAX / 1000;
    if (d->behind)
        return 0;
    for (size_t i = 0; i < d->lanes->n; i++)
        if (frontier_peek(lane_frontier(d->lanes->items[i]), &head) && head.settle_ms < next_ms)
            next_ms = head.settle_ms;
    return next_ms * 1000 - dispatch_lead_us(d) - rp_wall_us();
}

/* Commits what was sent off, unless more is due before that can be. */
static void await(struct dispatch *d)
{
    struct dispatch_batch *b = &d->sent_off;
    int64_t most_us = d->config->prepare_ahead_ms * 1000, left, due;
    while (!b->acknowledged && rp_mono_us() - b->began_mono_us < PATIENCE_US) {
        left = left_us(d);
        int ms = left > AWAIT_US ? AWAIT_US / 1000 : (int)(left + 999) / 1000;
        if (rp_publisher_acknowledged(d->outbox.publisher, left > 0 ? ms : 0))
            note_acknowledged(d, b);
        else if (left <= 0)
            return;
    }
    left = left_us(d);
    due = b->last_ms * 1000 - rp_wall_us();
    if (left >= due || due <= 0 || due > most_us)
        (void)end_sent_off(d);
    else if (left > 0)
        (void)usleep((useconds_t)left);
}

bool dispatch_due(struct dispatch *d)
{
    bool due = send_off(d);
    if (d->sent_off.n == 0)
        return due;
    await(d);
    return true;
}

void dispatch_finish(struct dispatch *d)
{
    (void)end_sent_off(d);
}

void dispatch_abort(struct dispatch *d)
{
    d->sent_off.n = 0;
    rp_outbox_abort(&d->outbox);
    lanes_untake(d->lanes);
}
