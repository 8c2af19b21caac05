/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "batch.h"
#include "clock.h"
#include "consumer.h"
#include "jobs.h"
#include "kafka.h"
#include "keeper.h"
#include "crash_point.h"
#include "log.h"
#include "stall.h"
#include "store.h"
#include "topic_id.h"
#include "writer.h"

/* How long the database is left alone after a failure: doubling from the first to the last. */
#define FIRST_WAIT_MS INT64_C(100)
#define LAST_WAIT_MS  INT64_C(5000)
/* How long a partition that has a newer owner is left to it. If it is still assigned to us then,
 * the other one was the zombie, or an operator's mistake. */
#define FENCED_WAIT_MS INT64_C(30000)
/* A partition that was assigned a moment ago cannot be sought in yet. */
#define SEEK_AGAIN_MS  INT64_C(50)
#define TOPIC_AGAIN_MS INT64_C(1000)
#define IDLE_POLL_MS   100
/* The sooner a commit is known, the sooner the next one begins. */
#define BUSY_POLL_MS 1
/* How long PostgreSQL has the beginning of a batch at most, however long the batch may linger: who
 * drops a day waits for it, and gives up after 2 s. */
#define SENT_MS INT64_C(500)
/* Meanwhile PostgreSQL reads less than what the socket holds. */
#define PUSH_MS 1
#define ASK_MS  1000 /* between two questions whether to stop, at most */

/* A batch and the connection that it goes by. */
struct lane {
    struct batch *batch;
    struct store *store;
};

struct worker {
    struct rp_worker *service;
    const struct rp_service_config *section;
    struct metrics_archiver metrics;
    struct rp_series *database_up;
    struct rp_consumer *consumer;
    struct lane lanes[2];
    struct lane *filling; /* the other one is the writer's, or empty */
    struct writer *writer;
    struct parts parts;
    struct keeper *keeper; /* worker 0 has one */
    char owner[128];
    char topic_id[TOPIC_ID_SIZE];
    bool connected;        /* both lanes are, as far as we know */
    bool topic_known;      /* topic_id was asked for since partitions came */
    int64_t topic_mono_ms; /* it is not asked for before */
    bool joined;           /* the group has told us our partitions, if any */
    struct rp_stall stall;
    int64_t due_mono_ms;     /* the batch is written then, if it has rows */
    int64_t recall_mono_ms;  /* PostgreSQL has the beginning of it until then, if it has that */
    int64_t given_mono_ms;   /* when the writer got what it has */
    bool slow;               /* it took the last batch longer than the next one may wait, sent */
    int64_t connect_mono_ms; /* the database is left alone until then */
    int64_t wait_ms;
    struct rp_error failure; /* of what the group's callbacks did */
};

static char *topic_of(const struct worker *w)
{
    return w->service->config->topics.dead_letter;
}

/* All that is not committed is forgotten; it is read again from where PostgreSQL says. */
static void stand_still(struct worker *w)
{
    store_disconnect(w->filling->store); /* the writer may wait for what was sent on it */
    writer_drop(w->writer);
    w->connected = false;
    for (size_t i = 0; i < 2; i++) {
        batch_drop(w->lanes[i].batch);
        store_disconnect(w->lanes[i].store);
    }
    for (size_t i = 0; i < w->parts.n; i++)
        w->parts.items[i].live = w->parts.items[i].claimed = false;
}

static void database_failed(struct worker *w, const struct rp_error *err)
{
    stand_still(w);
    w->wait_ms = w->wait_ms == 0 ? FIRST_WAIT_MS : 2 * w->wait_ms;
    if (w->wait_ms > LAST_WAIT_MS)
        w->wait_ms = LAST_WAIT_MS;
    w->connect_mono_ms = rp_mono_ms() + w->wait_ms;
    rp_series_set(w->database_up, 0);
    rp_series_add(w->metrics.database_errors, 1);
    rp_log(RP_LOG_WARN, "database-away", rp_f_str("error", err->text),
           rp_f_int("next_try_ms", w->wait_ms));
}

/* 0 also where the database is away; -1 where going on makes no sense. */
static int serve_connection(struct worker *w, struct rp_error *err)
{
    if (w->connected || rp_mono_ms() < w->connect_mono_ms)
        return 0;
    if (store_connect(w->lanes[0].store, err) == 0 && store_connect(w->lanes[1].store, err) == 0) {
        w->connected = true;
        rp_series_set(w->database_up, 1);
        rp_log(RP_LOG_INFO, "database-connected", rp_f_int("worker", w->service->index));
        return 0;
    }
    if (err->cls == RP_FATAL)
        return -1;
    database_failed(w, err);
    return 0;
}

static void fenced(struct worker *w, struct part *part)
{
    part->live = part->claimed = false;
    part->claim.epoch = 0;
    part->claim_mono_ms = rp_mono_ms() + FENCED_WAIT_MS;
    rp_series_add(w->metrics.fenced, 1);
    rp_log(RP_LOG_WARN, "partition-fenced", rp_f_str("topic", topic_of(w)),
           rp_f_int("partition", part->claim.partition));
}

/* While a partition is not live nothing of it is fetched; polling goes on for the group's sake. */
static void pause_part(struct worker *w, struct part *part, bool pause)
{
    if (rp_kafka_set_paused(rp_consumer_handle(w->consumer), topic_of(w), part->claim.partition,
                            pause) == RD_KAFKA_RESP_ERR_NO_ERROR)
        part->paused = pause;
}

/* It is sought when this returns: what was fetched before is not polled any more. */
static bool begin(struct worker *w, struct part *part)
{
    struct rp_error err;
    int64_t next = part->claim.next_offset;
    if (rp_kafka_begin(rp_consumer_handle(w->consumer), topic_of(w), part->claim.partition,
                       next > 0 ? next : RD_KAFKA_OFFSET_BEGINNING, &err) != 0)
        return false;
    part->paused = false;
    return true;
}

static bool know_topic(struct worker *w)
{
    struct rp_error err;
    if (w->topic_known || rp_mono_ms() < w->topic_mono_ms)
        return w->topic_known;
    w->topic_known =
        topic_id_query(rp_consumer_handle(w->consumer), topic_of(w), w->topic_id, &err) == 0;
    if (!w->topic_known) {
        w->topic_mono_ms = rp_mono_ms() + TOPIC_AGAIN_MS; /* not for each partition */
        rp_log(RP_LOG_WARN, "topic-unknown", rp_f_str("topic", topic_of(w)),
               rp_f_str("error", err.text));
    }
    return w->topic_known;
}

/* For those who watch the group's lag; it is never read back. */
static void commit_to_kafka(struct worker *w)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)w->parts.n);
    for (size_t i = 0; i < w->parts.n; i++)
        if (w->parts.items[i].live && w->parts.items[i].claim.next_offset > 0)
            rd_kafka_topic_partition_list_add(list, topic_of(w), w->parts.items[i].claim.partition)
                ->offset = w->parts.items[i].claim.next_offset;
    if (list->cnt > 0)
        (void)rd_kafka_commit(rp_consumer_handle(w->consumer), list, 1);
    rd_kafka_topic_partition_list_destroy(list);
}

static void tell_lag(struct worker *w, struct part *part)
{
    int64_t low, high, done = part->claim.next_offset;
    if (part->end > done && part->position <= done)
        done = part->end; /* behind the last record are only marks of transactions */
    if (rd_kafka_get_watermark_offsets(rp_consumer_handle(w->consumer), topic_of(w),
                                       part->claim.partition, &low,
                                       &high) == RD_KAFKA_RESP_ERR_NO_ERROR)
        rp_series_set(part->lag, high > done ? (double)(high - done) : 0);
}

static struct lane *other_lane(struct worker *w)
{
    return w->filling == w->lanes ? w->lanes + 1 : w->lanes;
}

static void heed_fences(struct worker *w)
{
    for (size_t i = 0; i < w->parts.n; i++)
        if (w->parts.items[i].live && w->parts.items[i].claim.epoch == 0)
            fenced(w, &w->parts.items[i]);
}

/* By the lane that is empty while the writer has nothing; by the other a batch may be under way. */
static void tell_ends(struct worker *w)
{
    bool lost;
    struct rp_error err;
    if (!w->connected || writer_busy(w->writer))
        return;
    if (parts_tell_ends(&w->parts, other_lane(w)->store, rp_mono_tick_ms(), &lost, &err) != 0)
        database_failed(w, &err);
    else if (lost)
        heed_fences(w);
}

/* Waits for the writer, as long as PostgreSQL may have the beginning of the next batch: of that it
 * gets the rest meanwhile, and so both of its processes work. */
static bool wait_for_writer(struct worker *w)
{
    while (store_push(w->filling->store) && rp_mono_ms() < w->recall_mono_ms)
        if (writer_wait(w->writer, rp_mono_ms() + PUSH_MS))
            return true;
    return writer_wait(w->writer, w->recall_mono_ms);
}

/* Ends what the writer has: it is committed, or the database has failed. */
static void settle(struct worker *w)
{
    struct rp_error err;
    if (!writer_busy(w->writer))
        return;
    if (!wait_for_writer(w))
        batch_recall(w->filling->batch, w->filling->store);
    /* Rows that are refused are found one by one, which may take minutes. */
    while (!writer_wait(w->writer, rp_mono_ms() + ASK_MS))
        (void)rp_worker_stopping(w->service);
    if (writer_take(w->writer, &w->parts, &err) != 0) {
        database_failed(w, &err);
        return;
    }
    w->slow = rp_mono_ms() - w->given_mono_ms > SENT_MS;
    w->wait_ms = 0;
    heed_fences(w);
    for (size_t i = 0; i < w->parts.n; i++)
        if (w->parts.items[i].live)
            tell_lag(w, &w->parts.items[i]);
    tell_ends(w);
    commit_to_kafka(w);
    RP_CRASH_POINT(watched_offsets_after);
}

/* The rows of a batch stand behind those of the one before: it is written when that is committed.
 */
static void write_batch(struct worker *w)
{
    struct rp_error err;
    settle(w);
    if (batch_rows(w->filling->batch) == 0)
        return;
    if (writer_give(w->writer, w->filling->batch, w->filling->store, &w->parts, &err) != 0) {
        database_failed(w, &err);
        return;
    }
    w->given_mono_ms = rp_mono_ms();
    w->filling = other_lane(w);
    RP_CRASH_POINT(batch_given);
}

static void write_all(struct worker *w)
{
    write_batch(w);
    settle(w);
}

/* Nothing is in hand when a partition is claimed: what was read of it under an older epoch may
 * stand behind records that are now read again. */
static int claim_part(struct worker *w, struct part *part, struct rp_error *err)
{
    write_all(w);
    if (!w->connected)
        return 0;
    if (store_claim(w->filling->store, w->topic_id, &part->claim, err) == 0) {
        part->claimed = true;
        return 0;
    }
    if (err->code != RP_E_FENCED)
        return -1;
    fenced(w, part);
    return 0;
}

static int go_live(struct worker *w, struct part *part, struct rp_error *err)
{
    if (!part->paused)
        pause_part(w, part, true);
    if (!part->paused || rp_mono_ms() < part->claim_mono_ms || !know_topic(w))
        return 0;
    if (!part->claimed && claim_part(w, part, err) != 0)
        return -1;
    if (!part->claimed)
        return 0;
    part->claim_mono_ms = rp_mono_ms() + SEEK_AGAIN_MS;
    if (!begin(w, part))
        return 0;
    part->position = part->claim.next_offset;
    part->end = part->whole = 0;
    part->epoch = -1;
    part->looked = 0;
    rp_stall_heard(&w->stall, topic_of(w), part->claim.partition);
    part->live = true;
    rp_log(RP_LOG_INFO, "partition-claimed", rp_f_str("topic", topic_of(w)),
           rp_f_int("partition", part->claim.partition), rp_f_int("epoch", part->claim.epoch),
           rp_f_int("next_offset", part->claim.next_offset));
    return 0;
}

/* Brings each partition to life that is not, or keeps it still while there is no database. */
static void serve_parts(struct worker *w)
{
    struct rp_error err;
    for (size_t i = 0; i < w->parts.n && !rp_worker_stopping(w->service); i++) {
        struct part *part = &w->parts.items[i];
        if (!w->connected) {
            if (!part->paused)
                pause_part(w, part, true);
        } else if (!part->live) {
            if (go_live(w, part, &err) != 0)
                database_failed(w, &err);
        } else if (part->paused) {
            pause_part(w, part, false);
        }
    }
}

static void send_batch(struct worker *w)
{
    struct rp_error err;
    struct batch *b = w->filling->batch;
    bool sent = batch_sent(b);
    int64_t latest = rp_mono_tick_ms() + SENT_MS;
    /* It would be taken back and sent twice, and what is sent in vain makes the writer slower. */
    if (w->slow && writer_busy(w->writer))
        return;
    if (batch_send(b, w->filling->store, &w->parts, &err) != 0) {
        database_failed(w, &err);
        return;
    }
    if (sent || !batch_sent(b))
        return;
    w->recall_mono_ms = latest;
    if (w->due_mono_ms > latest)
        w->due_mono_ms = latest;
}

static void on_assigned(void *opaque, const rd_kafka_topic_partition_list_t *list)
{
    struct worker *w = opaque;
    RP_CRASH_POINT(assigned);
    w->joined = true;
    w->topic_known = false;
    for (int i = 0; i < list->cnt; i++)
        if (parts_add(&w->parts, list->elems[i].partition, &w->metrics, &w->failure) != 0)
            return;
}

/* What is in hand is written once more, whoever owns the partitions by now: the epoch decides. */
static void on_revoked(void *opaque, const rd_kafka_topic_partition_list_t *list, bool lost)
{
    struct worker *w = opaque;
    w->joined = w->joined && !lost;
    RP_CRASH_POINT(revoked_before);
    write_all(w);
    RP_CRASH_POINT(revoked_after);
    for (int i = 0; i < list->cnt; i++)
        parts_remove(&w->parts, list->elems[i].partition);
}

static void log_jump(const struct worker *w, enum rp_log_level level, const char *event,
                     const struct part *part, int64_t from, int64_t to)
{
    rp_log(level, event, rp_f_str("topic", topic_of(w)),
           rp_f_int("partition", part->claim.partition), rp_f_int("from", from),
           rp_f_int("to", to));
}

static int64_t gone_to(const struct worker *w, const struct part *part, int64_t from)
{
    return rp_kafka_gone_to(rp_consumer_handle(w->consumer), topic_of(w), part->claim.partition,
                            from);
}

/* Offsets have gaps, of transactions' marks and of what was aborted. But what the topic's retention
 * took before it was archived is lost, and nothing is worse than not to say so. They go back when
 * the broker lost what it once confirmed, or when the topic was deleted and created again; what the
 * archive has already is then passed over by its primary key. */
static void check_order(const struct worker *w, const struct part *part, int64_t offset)
{
    int64_t from = part->whole > part->position ? part->whole : part->position, to;
    if (offset < part->position)
        log_jump(w, RP_LOG_WARN, "offset-went-back", part, part->position, offset);
    if (offset > from && from > 0 && (to = gone_to(w, part, from)) >= 0)
        log_jump(w, RP_LOG_ERROR, "dead-letters-gone", part, from, to);
}

static int take_row(struct worker *w, rd_kafka_message_t *message, struct rp_error *err)
{
    struct part *part = parts_find(&w->parts, message->partition);
    int64_t offset = message->offset, now_ms;
    int32_t epoch = rd_kafka_message_leader_epoch(message);
    if (part == NULL || !part->live) {
        rd_kafka_message_destroy(message);
        return 0;
    }
    bool back;
    if (rp_kafka_look_back(rp_consumer_handle(w->consumer), message, part->position, part->epoch,
                           &part->looked, &back, err) != 0) {
        rp_log(RP_LOG_WARN, "consumer-error", rp_f_str("error", err->text));
        part->live = part->claimed = false; /* it is claimed anew, once nothing is in hand */
    }
    if (!part->live || back) {
        rd_kafka_message_destroy(message);
        return 0;
    }
    if (store_now_ms(w->filling->store, &now_ms, err) != 0) {
        rd_kafka_message_destroy(message);
        database_failed(w, err);
        return 0;
    }
    check_order(w, part, offset);
    if (batch_rows(w->filling->batch) == 0)
        w->due_mono_ms = rp_mono_ms() + w->section->linger_ms;
    if (batch_add(w->filling->batch, message, now_ms, err) != 0)
        return -1;
    if (offset < part->end)
        part->end = 0; /* the log was cut */
    part->position = offset + 1;
    part->epoch = epoch;
    return 0;
}

static int take_error(struct worker *w, rd_kafka_message_t *message, struct rp_error *err)
{
    struct part *part = parts_find(&w->parts, message->partition);
    rd_kafka_resp_err_t code = message->err;
    if (code == RD_KAFKA_RESP_ERR__PARTITION_EOF && part != NULL) {
        part->end = message->offset;
        if (gone_to(w, part, part->position) < 0)
            part->whole = part->end;
        tell_lag(w, part);
    }
    if (code != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        rp_stall_heard(&w->stall, topic_of(w), message->partition);
        (void)rp_consumer_fail(w->consumer, message, err);
    }
    rd_kafka_message_destroy(message);
    if (code == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        return 0;
    rp_log(RP_LOG_WARN, "consumer-error", rp_f_str("error", err->text));
    return err->cls == RP_FATAL ? -1 : 0;
}

static int poll_timeout(const struct worker *w)
{
    int64_t most = writer_busy(w->writer)       ? BUSY_POLL_MS
                   : !parts_all_live(&w->parts) ? SEEK_AGAIN_MS
                                                : IDLE_POLL_MS;
    int64_t left = w->due_mono_ms - rp_mono_tick_ms();
    if (batch_rows(w->filling->batch) == 0 || left > most)
        return (int)most;
    return left < 0 ? 0 : (int)left;
}

static bool batch_is_due(const struct worker *w)
{
    const struct batch *b = w->filling->batch;
    return batch_full(b) || (batch_rows(b) > 0 && rp_mono_tick_ms() >= w->due_mono_ms);
}

/* All that was fetched has been taken up. */
static int look_for_stalls(struct worker *w, struct rp_error *err)
{
    if (!rp_stall_due(&w->stall))
        return 0;
    rd_kafka_topic_partition_list_t *read = rd_kafka_topic_partition_list_new((int)w->parts.n);
    for (size_t i = 0; i < w->parts.n; i++) {
        const struct part *part = &w->parts.items[i];
        if (part->live && !part->paused)
            rd_kafka_topic_partition_list_add(read, topic_of(w), part->claim.partition)->offset =
                part->end > part->position ? part->end : part->position;
    }
    return rp_stall_look(&w->stall, rp_consumer_handle(w->consumer), read, err);
}

/* While nothing comes, nothing else tells that the database is away. */
static void look_for_database(struct worker *w)
{
    int64_t now_ms;
    struct rp_error err;
    if (w->connected && store_now_ms(w->filling->store, &now_ms, &err) != 0)
        database_failed(w, &err);
}

static int poll_once(struct worker *w, struct rp_error *err)
{
    rd_kafka_message_t *message = rp_consumer_poll(w->consumer, poll_timeout(w));
    if (w->failure.code != RP_OK) {
        *err = w->failure;
        if (message != NULL)
            rd_kafka_message_destroy(message);
        return -1;
    }
    if (message == NULL) {
        look_for_database(w);
        return look_for_stalls(w, err);
    }
    return message->err != RD_KAFKA_RESP_ERR_NO_ERROR ? take_error(w, message, err)
                                                      : take_row(w, message, err);
}

static int run(struct worker *w, struct rp_error *err)
{
    while (!rp_worker_stopping(w->service)) {
        if (serve_connection(w, err) != 0)
            return -1;
        serve_parts(w);
        atomic_store(&w->service->ready, w->joined && w->connected && parts_all_live(&w->parts));
        if (poll_once(w, err) != 0)
            return -1;
        if (writer_busy(w->writer) && writer_wait(w->writer, 0))
            settle(w);
        if (batch_is_due(w))
            write_batch(w);
        else if (w->connected)
            send_batch(w);
        tell_ends(w);
    }
    write_all(w);
    return 0;
}

static int init(struct worker *w, struct rp_error *err)
{
    const struct rp_config *config = w->service->config;
    const struct rp_consumer_owner callbacks = {w, on_assigned, on_revoked};
    const struct batch_options options = {.max_rows = (size_t)w->section->batch,
                                          .keep_ms = config->retention.keep_ms,
                                          .metrics = &w->metrics};
    char group[512];
    struct rp_rng rng;
    rp_rng_init_random(&rng);
    /* A process that takes the name of a dead one is another owner all the same. */
    (void)snprintf(w->owner, sizeof w->owner, "%s/%08" PRIx32, w->service->instance,
                   (uint32_t)rp_rng_next(&rng));
    (void)snprintf(group, sizeof group, "%sreprise-archiver", config->topics.prefix);
    metrics_archiver_init(&w->metrics, w->service->metrics);
    w->database_up = metrics_archiver_database_up(&w->metrics, w->service->index);
    for (struct lane *lane = w->lanes; lane < w->lanes + 2; lane++)
        if (batch_new(&options, &lane->batch, err) != 0 ||
            store_new(config->postgres.dsn, topic_of(w), w->owner, &lane->store, err) != 0)
            return -1;
    w->filling = w->lanes;
    if (writer_new(&w->writer, err) != 0)
        return -1;
    const struct rp_consumer_options member = {
        .group = group,
        .instance = w->service->instance,
        .topics = &config->topics.dead_letter,
        .n_topics = 1,
        .eof = true,
    };
    return rp_consumer_new(config, &member, &callbacks, &w->consumer, err);
}

int worker_run(struct rp_worker *service, struct rp_error *err)
{
    struct worker w = {.service = service, .section = &service->config->archiver};
    struct jobs *jobs = NULL;
    int failed = init(&w, err);
    if (failed == 0 && service->index == 0)
        failed = jobs_start(service, &jobs, err);
    if (failed == 0 && service->index == 0)
        failed = keeper_start(service->config, &w.metrics, &w.keeper, err);
    if (failed == 0)
        failed = run(&w, err);
    keeper_stop(w.keeper, !rp_worker_stopping(service));
    rp_stall_clear(&w.stall);
    rp_consumer_close(w.consumer);
    jobs_stop(jobs);
    parts_clear(&w.parts);
    writer_free(w.writer);
    for (struct lane *lane = w.lanes; lane < w.lanes + 2; lane++) {
        batch_free(lane->batch);
        store_free(lane->store);
    }
    return failed;
}
