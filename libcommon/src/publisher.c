/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "crash_point.h"
#include "held.h"
#include "log.h"
#include "record_size.h"
#include "rounds.h"
#include "topic_handles.h"
#include "turns.h"

#define CALL_MS      RP_PRODUCER_CALL_MS
#define MAX_FAILURES 1024u

struct batch {
    bool open;
    rd_kafka_t *rk; /* whose it is, or was; NULL: nobody's */
    size_t unacknowledged;
    size_t records;          /* in it, and */
    int64_t bytes;           /* their size */
    struct rp_rounds rounds; /* to topics that take smaller batches than librdkafka's */
    int64_t waited_ms;       /* for their acknowledgements */
    bool holding;            /* its records, in */
    struct rp_held held;     /* librdkafka reads their bytes there until they are acknowledged */
    struct rp_buf out;       /* a byte a tag: 1 once it is acknowledged */
    struct rp_failure_report failures[MAX_FAILURES];
    size_t n_failures; /* may pass MAX_FAILURES: the rest is counted only */
    size_t purged;     /* records that went down with a batch that failed */
};

struct rp_publisher {
    const struct rp_config *config;
    char *id;
    const char *linger_ms;
    bool transactional;
    struct rp_turns turns; /* worn: to be made anew when no batch is under way */
    struct rp_topic_handles topics;
    int64_t batch_bytes;     /* librdkafka's batch.size */
    struct batch batches[2]; /* by turns: the one that is filled, and the one that was sent off */
    struct batch *b;         /* the first of these, whether it is open or not */
    struct batch *told;      /* whose failures are asked for; NULL: they were told */
    struct rp_consumer *consumer;             /* at-least-once: whose offsets wait */
    rd_kafka_topic_partition_list_t *offsets; /* for the commit */
};

static struct batch *other(struct rp_publisher *p)
{
    return p->b == &p->batches[0] ? &p->batches[1] : &p->batches[0];
}

static bool has_sent_off(struct rp_publisher *p)
{
    return other(p)->open;
}

/* Whose turn it is to end. */
static struct batch *oldest(struct rp_publisher *p)
{
    return has_sent_off(p) ? other(p) : p->b;
}

static void note_failure(struct batch *b, size_t tag, rd_kafka_resp_err_t code)
{
    if (b->n_failures < MAX_FAILURES)
        b->failures[b->n_failures] = (struct rp_failure_report){tag, code};
    b->n_failures++;
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct rp_publisher *p = opaque;
    struct batch *b = p->batches[0].rk == rk ? &p->batches[0] : &p->batches[1];
    size_t tag = (size_t)(uintptr_t)message->_private;
    b->unacknowledged--;
    if (!b->open)
        return;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        b->out.data[tag] = 1;
        return;
    }
    /* What a failed transaction purges is no failure of its own, and may be told before the record
     * that made it fail. */
    if (message->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
        message->err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
        b->purged++;
    else
        note_failure(b, tag, message->err);
}

int rp_publisher_new(const struct rp_config *config, const char *id, const char *linger_ms,
                     struct rp_publisher **out, struct rp_error *err)
{
    struct rp_publisher *p = calloc(1, sizeof *p);
    char *copy = strdup(id);
    if (p == NULL || copy == NULL) {
        free(p);
        free(copy);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a publisher");
    }
    p->config = config;
    p->id = copy;
    p->linger_ms = linger_ms;
    p->transactional = config->guarantee == RP_EXACTLY_ONCE;
    p->b = &p->batches[0];
    *out = p;
    return 0;
}

static void destroy_producers(struct rp_publisher *p)
{
    rp_topic_handles_clear(&p->topics);
    rp_turns_destroy(&p->turns);
    for (size_t i = 0; i < 2; i++) {
        p->batches[i].rk = NULL;
        p->batches[i].unacknowledged = 0;
    }
}

/* The brokers know the transactions of one producer apart by its epoch alone, which stays the same
 * from one to the next: a late copy of a commit would commit what there is of the next one. So a
 * producer with such a copy under way begins no other; the epoch of a new one fences it. */
static void renew_if_worn(struct rp_publisher *p)
{
    if (p->batches[0].open || p->batches[1].open)
        return;
    if (atomic_load(&p->turns.unanswered)) {
        rp_log(RP_LOG_INFO, "producer-made-anew",
               rp_f_str("error", "a request of its last transaction was not answered"));
        p->turns.worn = true;
    }
    if (p->turns.worn)
        destroy_producers(p);
}

static void end_batch(struct rp_publisher *p, struct batch *b)
{
    b->open = false;
    rp_held_drop(&b->held);
    if (p->offsets != NULL)
        rd_kafka_topic_partition_list_destroy(p->offsets);
    p->offsets = NULL;
}

void rp_publisher_free(struct rp_publisher *p)
{
    if (p == NULL)
        return;
    rp_publisher_abort(p, false);
    destroy_producers(p);
    for (size_t i = 0; i < 2; i++) {
        rp_held_clear(&p->batches[i].held);
        rp_buf_clear(&p->batches[i].out);
    }
    free(p->id);
    free(p);
}

static int make_producers(struct rp_publisher *p, struct rp_error *err)
{
    const struct rp_producer_spec spec = {
        .config = p->config,
        .id = p->id,
        .linger_ms = p->linger_ms,
        .transactional = p->transactional,
        .delivered = delivered,
        .opaque = p,
    };
    if (rp_turns_make(&p->turns, &spec, err) != 0)
        return -1;
    p->batch_bytes = rp_producer_batch_bytes(p->turns.producers[0]);
    return 0;
}

int rp_publisher_open(struct rp_publisher *p, struct rp_error *err)
{
    if (rp_turns_failed(&p->turns))
        destroy_producers(p);
    return p->turns.producers[0] != NULL ? 0 : make_producers(p, err);
}

int rp_publisher_begin(struct rp_publisher *p, struct rp_error *err)
{
    struct batch *b = p->b;
    if (b->open)
        return 0;
    assert(b->unacknowledged == 0);
    rp_held_reset(&b->held);
    b->n_failures = b->purged = b->out.len = b->records = 0;
    b->bytes = 0;
    rp_rounds_clear(&b->rounds);
    b->waited_ms = 0;
    p->told = b;
    if (!has_sent_off(p) && rp_publisher_open(p, err) != 0)
        return -1;
    b->rk = rp_turns_take(&p->turns);
    if (p->transactional) {
        rd_kafka_error_t *error = rd_kafka_begin_transaction(b->rk);
        if (error != NULL) {
            (void)rp_kafka_fail_error(err, error, "begin transaction");
            b->rk = NULL;
            p->turns.worn = true;
            renew_if_worn(p);
            err->cls = RP_RETRIABLE; /* a new producer can do what this one cannot */
            return -1;
        }
    }
    b->open = true;
    /* While the coordinator adds the offsets to the transaction, or still ends the producer's last
     * one, it refuses partitions. librdkafka then tries to add them again after 20 ms, but offsets
     * after retry.backoff.ms. And offsets that go to the broker behind records are answered after
     * them. So records wait here until the offsets have opened the transaction. */
    b->holding = p->transactional;
    return 0;
}

static enum rp_published wait_for(struct rp_publisher *p, struct batch *b, struct rp_error *err);

/* `copy`: RD_KAFKA_MSG_F_COPY, or 0 where the value stays until it is acknowledged. */
static rd_kafka_resp_err_t produce(struct rp_publisher *p, const struct rp_outgoing *record,
                                   rd_kafka_headers_t *headers, int copy)
{
    rd_kafka_topic_t *topic = rp_topic_handle(&p->topics, p->b->rk, record->topic);
    if (topic == NULL)
        return rd_kafka_last_error();
    return rd_kafka_producev(
        p->b->rk, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_MSGFLAGS(copy),
        RD_KAFKA_V_KEY(record->key.data, record->key.len),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)record->value.data, record->value.len),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE((void *)(uintptr_t)record->tag),
        RD_KAFKA_V_END);
}

static rd_kafka_resp_err_t produce_when_there_is_room(struct rp_publisher *p,
                                                      const struct rp_outgoing *record,
                                                      rd_kafka_headers_t *headers, int copy)
{
    int64_t end_mono_ms = rp_mono_ms() + CALL_MS;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__QUEUE_FULL;
    while (code == RD_KAFKA_RESP_ERR__QUEUE_FULL && rp_mono_ms() < end_mono_ms) {
        (void)rd_kafka_poll(p->b->rk, 10);
        code = produce(p, record, headers, copy);
    }
    return code;
}

/* Flushing sends at once what lingers. One failure fails a transaction; outside of one, what can
 * still go out need not go twice. */
static void await_acknowledgements(const struct rp_publisher *p, struct batch *b)
{
    int64_t end_mono_ms = rp_mono_ms() + CALL_MS;
    while (b->unacknowledged > 0 && (b->n_failures == 0 || !p->transactional) &&
           rp_mono_ms() < end_mono_ms)
        (void)rd_kafka_flush(b->rk, 10);
}

static int make_mark(struct batch *b, size_t tag, struct rp_error *err)
{
    while (b->out.len <= tag)
        if (rp_buf_append(&b->out, "", 1, err) != 0)
            return -1;
    return 0;
}

/* Waits where the record would not fit in one batch with what is under way. */
static int take_turn(struct rp_publisher *p, const struct rp_outgoing *record, int64_t bytes,
                     struct rp_error *err)
{
    if (record->max_batch_bytes == 0 || record->max_batch_bytes >= p->batch_bytes)
        return 0;
    struct batch *b = p->b;
    while (!rp_rounds_take(&b->rounds, record->topic, bytes, record->max_batch_bytes)) {
        int64_t began_mono_ms = rp_mono_ms();
        if (wait_for(p, b, err) != RP_PUBLISHED)
            return -1;
        b->waited_ms += rp_mono_ms() - began_mono_ms;
        rp_rounds_clear(&b->rounds);
    }
    return 0;
}

/* From the deliveries that failed: POISON where a record is to blame for one. */
static void tell_failure(const struct batch *b, struct rp_error *err)
{
    (void)rp_kafka_fail(err, b->failures[0].code, "delivery");
    size_t n = b->n_failures < MAX_FAILURES ? b->n_failures : MAX_FAILURES;
    for (size_t i = 0; i < n && err->cls != RP_POISON; i++)
        (void)rp_kafka_fail(err, b->failures[i].code, "delivery");
    if (err->cls == RP_FATAL)
        err->cls = RP_RETRIABLE; /* the producer is made anew */
}

/* A record that went out before this one has failed the transaction: that one is to blame. */
static bool has_failed_before(struct rp_publisher *p, rd_kafka_resp_err_t code)
{
    if (!p->transactional || code != RD_KAFKA_RESP_ERR__STATE)
        return false;
    await_acknowledgements(p, p->b);
    return p->b->n_failures > 0;
}

/* Takes `headers`. */
static int send_now(struct rp_publisher *p, const struct rp_outgoing *record,
                    rd_kafka_headers_t *headers, int copy, struct rp_error *err)
{
    RP_CRASH_POINT(produce_before);
    rd_kafka_resp_err_t code = produce(p, record, headers, copy);
    if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        code = produce_when_there_is_room(p, record, headers, copy);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        p->b->unacknowledged++;
        RP_CRASH_POINT(produce_after);
        return 0;
    }
    rd_kafka_headers_destroy(headers); /* taken only on success */
    if (!has_failed_before(p, code))
        note_failure(p->b, record->tag, code);
    tell_failure(p->b, err);
    return -1;
}

static int send_held(struct rp_publisher *p, struct rp_error *err)
{
    struct batch *b = p->b;
    int rc = 0;
    b->holding = false;
    for (size_t i = 0; i < b->held.n && rc == 0; i++) {
        struct rp_held_record *h = &b->held.items[i];
        rc = send_now(p, &h->record, h->headers, 0, err);
        h->headers = NULL;
    }
    rp_held_drop(&b->held);
    return rc;
}

int rp_publisher_send(struct rp_publisher *p, const struct rp_outgoing *record,
                      struct rp_error *err)
{
    struct batch *b = p->b;
    assert(b->open);
    if (record->topic.len > RP_MAX_TOPIC_NAME)
        return rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "no topic has so long a name");
    int64_t bytes = record->batch_bytes > 0 ? record->batch_bytes : rp_record_batch_bytes(record);
    if (make_mark(b, record->tag, err) != 0 || take_turn(p, record, bytes, err) != 0)
        return -1;
    b->records++;
    b->bytes += bytes;
    if (b->holding && b->bytes > p->batch_bytes && send_held(p, err) != 0)
        return -1;
    rd_kafka_headers_t *headers = rp_producer_headers(record->headers, record->n_headers);
    return b->holding ? rp_held_add(&b->held, record, headers, err)
                      : send_now(p, record, headers, RD_KAFKA_MSG_F_COPY, err);
}

int64_t rp_publisher_waited_ms(const struct rp_publisher *p)
{
    return p->b->open ? p->b->waited_ms : 0;
}

int64_t rp_publisher_bytes(const struct rp_publisher *p)
{
    return p->b->open ? p->b->bytes : 0;
}

bool rp_publisher_fills_request(const struct rp_publisher *p)
{
    const struct batch *b = p->b;
    return b->records > 0 && b->bytes + b->bytes / (int64_t)b->records > p->batch_bytes;
}

static void abort_batch(struct rp_publisher *p, struct batch *b)
{
    if (!b->open)
        return;
    end_batch(p, b);
    if (p->transactional) {
        RP_CRASH_POINT(abort_before);
        rd_kafka_error_t *error = rd_kafka_abort_transaction(b->rk, CALL_MS);
        RP_CRASH_POINT(abort_after);
        if (error != NULL) {
            struct rp_error err;
            (void)rp_kafka_fail_error(&err, error, "abort transaction");
            rp_log(RP_LOG_WARN, "abort-failed", rp_f_str("error", err.text));
            p->turns.worn = true;
        }
    }
    if (b->unacknowledged > 0)
        p->turns.worn = true;
    else
        b->rk = NULL;
    renew_if_worn(p);
}

/* Drops the batch, and one that was begun after it. */
static void drop_from(struct rp_publisher *p, struct batch *b)
{
    p->told = b;
    if (p->b != b)
        abort_batch(p, p->b);
    abort_batch(p, b);
}

static enum rp_published fail_delivery(struct rp_publisher *p, struct batch *b,
                                       struct rp_error *err)
{
    tell_failure(b, err);
    drop_from(p, b);
    return RP_NOT_PUBLISHED;
}

static enum rp_published send_held_or_abort(struct rp_publisher *p, struct rp_error *err)
{
    if (send_held(p, err) == 0)
        return RP_PUBLISHED;
    drop_from(p, p->b);
    return RP_NOT_PUBLISHED;
}

static enum rp_published wait_for(struct rp_publisher *p, struct batch *b, struct rp_error *err)
{
    if (b == p->b && send_held_or_abort(p, err) != RP_PUBLISHED)
        return RP_NOT_PUBLISHED;
    await_acknowledgements(p, b);
    if (b->n_failures > 0)
        return fail_delivery(p, b, err);
    if (b->unacknowledged == 0 && b->purged == 0) {
        RP_CRASH_POINT(acknowledged);
        return RP_PUBLISHED;
    }
    if (b->purged > 0)
        (void)rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "the transaction failed as a whole");
    else
        (void)rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "%zu records were not acknowledged in time",
                      b->unacknowledged);
    drop_from(p, b);
    return RP_NOT_PUBLISHED;
}

enum rp_published rp_publisher_wait(struct rp_publisher *p, struct rp_error *err)
{
    return wait_for(p, oldest(p), err);
}

bool rp_publisher_send_off(struct rp_publisher *p)
{
    assert(p->b->open && !has_sent_off(p));
    if (!p->transactional || p->turns.worn || atomic_load(&p->turns.unanswered))
        return false;
    p->b = other(p);
    return true;
}

bool rp_publisher_acknowledged(struct rp_publisher *p, int timeout_ms)
{
    struct batch *b = oldest(p);
    (void)(timeout_ms > 0 ? rd_kafka_flush(b->rk, timeout_ms) : rd_kafka_poll(b->rk, 0));
    return b->unacknowledged == 0 || b->n_failures > 0;
}

/* Takes `group`. */
static enum rp_published send_offsets(struct rp_publisher *p,
                                      rd_kafka_consumer_group_metadata_t *group,
                                      const rd_kafka_topic_partition_list_t *offsets,
                                      struct rp_error *err)
{
    int64_t end_mono_ms = rp_mono_ms() + CALL_MS;
    rd_kafka_error_t *error;
    RP_CRASH_POINT(offsets_before);
    while ((error = rd_kafka_send_offsets_to_transaction(p->b->rk, offsets, group, CALL_MS)) !=
               NULL &&
           rd_kafka_error_is_retriable(error) && rp_mono_ms() < end_mono_ms)
        rd_kafka_error_destroy(error);
    rd_kafka_consumer_group_metadata_destroy(group);
    RP_CRASH_POINT(offsets_after);
    if (has_sent_off(p))
        RP_CRASH_POINT(offsets_beside);
    if (error == NULL)
        return send_held_or_abort(p, err);
    rp_held_drop(&p->b->held);
    if (rd_kafka_error_txn_requires_abort(error))
        await_acknowledgements(p, p->b); /* they were purged, or have failed: that says more */
    if (p->b->n_failures > 0) {
        rd_kafka_error_destroy(error);
        return fail_delivery(p, p->b, err);
    }
    (void)rp_kafka_fail_error(err, error, "send offsets");
    err->cls = RP_RETRIABLE;
    drop_from(p, p->b);
    return RP_NOT_PUBLISHED;
}

enum rp_published rp_publisher_offsets(struct rp_publisher *p, struct rp_consumer *consumer,
                                       const rd_kafka_topic_partition_list_t *offsets,
                                       struct rp_error *err)
{
    assert(p->b->open && p->offsets == NULL);
    struct rp_error why;
    rd_kafka_consumer_group_metadata_t *group = rp_consumer_membership(consumer, &why);
    /* Who is not in the group must not commit: the coordinator lets anybody, while it is empty. */
    if (group == NULL && (p->transactional || why.cls == RP_FATAL)) {
        drop_from(p, p->b);
        (void)rp_fail_as(err, &why);
        return RP_NOT_PUBLISHED;
    }
    if (p->transactional)
        return send_offsets(p, group, offsets, err);
    if (group != NULL)
        rd_kafka_consumer_group_metadata_destroy(group);
    p->consumer = consumer;
    p->offsets = rd_kafka_topic_partition_list_copy(offsets);
    return RP_PUBLISHED;
}

enum rp_published rp_publisher_group_offsets(struct rp_publisher *p, const char *group,
                                             const rd_kafka_topic_partition_list_t *offsets,
                                             struct rp_error *err)
{
    assert(p->b->open && p->transactional);
    return send_offsets(p, rd_kafka_consumer_group_metadata_new(group), offsets, err);
}

uint64_t rp_publisher_made(const struct rp_publisher *p)
{
    return p->turns.made;
}

/* The records are out, and were acknowledged: a failed commit of the offsets only means that they
 * may be sent again, so it is retried with the next batch's. */
static enum rp_published commit_offsets(struct rp_publisher *p)
{
    struct rp_error err;
    RP_CRASH_POINT(commit_before);
    int rc = p->offsets == NULL ? 0 : rp_consumer_commit(p->consumer, p->offsets, true, &err);
    RP_CRASH_POINT(commit_after);
    if (rc != 0)
        rp_log(RP_LOG_WARN, "offset-commit-failed", rp_f_str("error", err.text));
    end_batch(p, p->b);
    p->b->rk = NULL;
    return RP_PUBLISHED;
}

enum rp_published rp_publisher_commit(struct rp_publisher *p, struct rp_error *err)
{
    struct batch *b = oldest(p);
    enum rp_published waited = wait_for(p, b, err);
    if (waited != RP_PUBLISHED)
        return waited;
    if (!p->transactional)
        return commit_offsets(p);
    int64_t end_mono_ms = rp_mono_ms() + CALL_MS;
    rd_kafka_error_t *error;
    RP_CRASH_POINT(commit_before);
    while ((error = rd_kafka_commit_transaction(b->rk, CALL_MS)) != NULL &&
           rd_kafka_error_is_retriable(error) && rp_mono_ms() < end_mono_ms)
        rd_kafka_error_destroy(error);
    RP_CRASH_POINT(commit_after);
    end_batch(p, b);
    b->rk = NULL;
    if (error == NULL) {
        if (p->b->open)
            RP_CRASH_POINT(committed_beside);
        renew_if_worn(p);
        return RP_PUBLISHED;
    }
    (void)rp_kafka_fail_error(err, error, "commit transaction");
    err->cls = RP_RETRIABLE;
    p->told = b;
    end_batch(p, p->b); /* what was begun after it goes with its producer */
    destroy_producers(p);
    return RP_UNKNOWN;
}

void rp_publisher_abort(struct rp_publisher *p, bool patiently)
{
    struct batch *b = oldest(p);
    if (b->open && patiently && !p->transactional)
        await_acknowledgements(p, b);
    if (b->open)
        drop_from(p, b);
}

const struct rp_failure_report *rp_publisher_failures(struct rp_publisher *p, size_t *n)
{
    struct batch *b = p->told;
    *n = b == NULL ? 0 : b->n_failures < MAX_FAILURES ? b->n_failures : MAX_FAILURES;
    p->told = NULL; /* told once */
    return b == NULL ? NULL : b->failures;
}

bool rp_publisher_is_out(const struct rp_publisher *p, size_t tag)
{
    const struct batch *b = p->b;
    return !p->transactional && tag < b->out.len && b->out.data[tag] == 1;
}
