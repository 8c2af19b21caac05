/* SPDX-License-Identifier: Apache-2.0 */
#include "outbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "record_size.h"

#define BACKOFF_MS     50
#define BACKOFF_MAX_MS 5000
/* A batch that waited so long for acknowledgements takes no more. */
#define PATIENCE_MS 100
/* Bytes of a batch: as much as links and quotas that are slow take within a transaction's time. */
#define MOST_BYTES  (INT64_C(16) << 20)
#define MOST_HALVED 16

int rp_outbox_init(struct rp_outbox *o, struct rp_worker *worker, const char *id,
                   const char *linger_ms, size_t most, struct rp_error *err)
{
    *o = (struct rp_outbox){.worker = worker, .config = worker->config, .most = most};
    o->items = calloc(most, sizeof *o->items);
    o->sent_off = calloc(most, sizeof *o->sent_off);
    if (o->items == NULL || o->sent_off == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for batches of %zu", most);
    if (rp_publisher_new(o->config, id, linger_ms, &o->publisher, err) != 0 ||
        rp_kafka_new_admin(o->config, &o->admin, err) != 0)
        return -1;
    return rp_targets_new(o->admin, rp_kafka_compresses(o->config), &o->targets, err);
}

void rp_outbox_clear(struct rp_outbox *o)
{
    rp_targets_free(o->targets);
    if (o->admin != NULL)
        rd_kafka_destroy(o->admin);
    rp_publisher_free(o->publisher);
    rp_lessons_clear(&o->lessons);
    rp_sent_clear(&o->sent);
    free(o->items);
    free(o->sent_off);
    *o = (struct rp_outbox){0};
}

void rp_outbox_give_up(struct rp_outbox *o, const struct rp_error *err)
{
    if (!o->failed)
        o->failure = *err;
    o->failed = true;
}

bool rp_outbox_stopping(const struct rp_outbox *o)
{
    return rp_worker_stopping(o->worker) || o->failed;
}

void rp_outbox_back_off(struct rp_outbox *o, const struct rp_error *err)
{
    if (o->learned) { /* one bad record must not hold up the others */
        rp_log(RP_LOG_INFO, "batch-divided", rp_f_str("error", err->text));
        o->learned = false;
        return;
    }
    o->backoff_ms = o->backoff_ms == 0 ? BACKOFF_MS : 2 * o->backoff_ms;
    if (o->backoff_ms > BACKOFF_MAX_MS)
        o->backoff_ms = BACKOFF_MAX_MS;
    atomic_store(&o->worker->ready, false);
    rp_log(RP_LOG_WARN, "batch-failed", rp_f_str("error", err->text),
           rp_f_int("retry_in_ms", o->backoff_ms));
    for (int64_t end = rp_mono_ms() + o->backoff_ms; rp_mono_ms() < end && !rp_outbox_stopping(o);)
        (void)usleep(10000);
}

void rp_outbox_open(struct rp_outbox *o)
{
    struct rp_error err;
    while (!rp_outbox_stopping(o) && rp_publisher_open(o->publisher, &err) != 0) {
        if (err.cls == RP_FATAL)
            rp_outbox_give_up(o, &err);
        else
            rp_outbox_back_off(o, &err);
    }
}

static void copy_name(char out[RP_OUTBOX_NAME], struct rp_bytes topic)
{
    size_t n = topic.len < RP_OUTBOX_NAME ? topic.len : RP_OUTBOX_NAME - 1;
    if (n > 0)
        memcpy(out, topic.data, n);
    out[n] = '\0';
}

/* With what a header takes of librdkafka's memory, be it empty. */
static int64_t batch_bytes(const struct rp_outbox *o)
{
    return rp_publisher_bytes(o->publisher) + RP_HEADER_MEMORY * (int64_t)o->n_headers;
}

/* A request's worth of bytes is enough, unless that is so few records that transactions cost more
 * than what it saves. */
bool rp_outbox_full(const struct rp_outbox *o)
{
    size_t most = o->most >> o->halved;
    return o->alone ||
           (o->n > 0 && (o->n >= most || batch_bytes(o) >= MOST_BYTES >> o->halved ||
                         (o->n >= most / 2 && rp_publisher_fills_request(o->publisher)))) ||
           rp_publisher_waited_ms(o->publisher) >= PATIENCE_MS;
}

int rp_outbox_send(struct rp_outbox *o, const char *topic, int32_t partition, int64_t offset,
                   struct rp_outgoing *out, struct rp_error *err)
{
    assert(o->n < o->most && !o->alone);
    if (rp_publisher_begin(o->publisher, err) != 0)
        return -1;
    struct rp_outbox_item *item = &o->items[o->n];
    item->topic = topic;
    item->partition = partition;
    item->offset = offset;
    copy_name(item->to, out->topic);
    o->alone = rp_lessons_find(&o->lessons, topic, partition, offset) != NULL;
    assert(!o->alone || o->n == 0);
    out->tag = o->n++;
    if (out->topic.len == 0 || rp_sent_has(&o->sent, topic, partition, offset))
        return 0;
    if (out->max_batch_bytes == 0)
        out->max_batch_bytes = rp_targets_max_bytes(o->targets, out->topic);
    o->n_headers += out->n_headers;
    return rp_publisher_send(o->publisher, out, err);
}

static void end_batch(struct rp_outbox *o)
{
    o->n = o->n_headers = 0;
    o->alone = false;
}

bool rp_outbox_send_off(struct rp_outbox *o)
{
    if (o->alone || !rp_publisher_send_off(o->publisher))
        return false;
    struct rp_outbox_item *items = o->items;
    o->items = o->sent_off;
    o->sent_off = items;
    o->n_sent_off = o->n;
    end_batch(o);
    return true;
}

/* Of the batch that ends next: the one that was sent off, or else the one at hand. */
static const struct rp_outbox_item *oldest(const struct rp_outbox *o, size_t *out_n)
{
    *out_n = o->n_sent_off > 0 ? o->n_sent_off : o->n;
    return o->n_sent_off > 0 ? o->sent_off : o->items;
}

void rp_outbox_done(struct rp_outbox *o)
{
    size_t n;
    const struct rp_outbox_item *items = oldest(o, &n);
    for (size_t i = 0; i < n; i++) {
        const struct rp_outbox_item *item = &items[i];
        rp_lessons_forget(&o->lessons, item->topic, item->partition, item->offset);
        rp_sent_forget(&o->sent, item->topic, item->partition, item->offset);
    }
    if (o->n_sent_off == 0)
        end_batch(o);
    o->n_sent_off = 0;
    o->backoff_ms = 0;
    o->halved -= o->halved > 0;
}

static void drop_batches(struct rp_outbox *o)
{
    end_batch(o);
    o->n_sent_off = 0;
}

/* One delivery failed. What its topic is to blame for is news as soon as it is known; what the
 * record may be to blame for, once it failed alone. */
static void learn_from(struct rp_outbox *o, const struct rp_outbox_item *item, bool alone,
                       rd_kafka_resp_err_t code)
{
    struct rp_error err;
    (void)rp_kafka_fail(&err, code, item->to);
    if (err.cls != RP_POISON)
        return;
    if (rp_targets_blame(o->targets, rp_str(item->to), code)) {
        if (rp_config_owns_topic(o->config, rp_str(item->to)))
            rp_log(RP_LOG_ERROR, "own-topic-refused", rp_f_str("error", err.text),
                   rp_f_str("mend", "reprise topics check"));
        else
            o->learned = true;
        return;
    }
    bool letter = strcmp(item->to, o->config->topics.dead_letter) == 0;
    int news = rp_lessons_add(&o->lessons, item->topic, item->partition, item->offset, alone,
                              letter, code, &err);
    if (news < 0)
        rp_outbox_give_up(o, &err);
    o->learned = o->learned || news > 0;
}

/* Outside of a transaction, what was acknowledged is out, whatever becomes of the others. */
static void mark_sent(struct rp_outbox *o)
{
    struct rp_error err;
    for (size_t i = 0; i < o->n; i++) {
        const struct rp_outbox_item *item = &o->items[i];
        if (rp_publisher_is_out(o->publisher, i) &&
            rp_sent_add(&o->sent, item->topic, item->partition, item->offset, &err) != 0)
            rp_log(RP_LOG_WARN, "may-be-sent-twice", rp_f_str("error", err.text));
    }
}

void rp_outbox_failed(struct rp_outbox *o, const struct rp_error *err)
{
    size_t n, n_items;
    rp_publisher_abort(o->publisher, true);
    const struct rp_failure_report *failures = rp_publisher_failures(o->publisher, &n);
    const struct rp_outbox_item *items = oldest(o, &n_items);
    bool alone = o->alone && o->n_sent_off == 0; /* what is sent off never is */
    for (size_t i = 0; i < n; i++)
        if (failures[i].tag < n_items)
            learn_from(o, &items[failures[i].tag], alone, failures[i].code);
    mark_sent(o);
    rp_targets_forget(o->targets);
    /* It may have been too large for the link, or a quota. */
    if (!o->learned && n_items > 0)
        o->halved += o->halved < MOST_HALVED;
    drop_batches(o);
    if (err->cls == RP_FATAL)
        rp_outbox_give_up(o, err);
    else
        rp_outbox_back_off(o, err);
}

void rp_outbox_abort(struct rp_outbox *o)
{
    rp_publisher_abort(o->publisher, false);
    drop_batches(o);
}

void rp_outbox_forget(struct rp_outbox *o, const char *topic, int32_t partition)
{
    rp_lessons_forget_partition(&o->lessons, topic, partition);
    rp_sent_forget_partition(&o->sent, topic, partition);
}

void rp_outbox_revoked(struct rp_outbox *o, const rd_kafka_topic_partition_list_t *parts)
{
    for (int i = 0; i < parts->cnt; i++)
        rp_outbox_forget(o, parts->elems[i].topic, parts->elems[i].partition);
}
