/* SPDX-License-Identifier: Apache-2.0 */
#include "arrivals.h"

#include <stdlib.h>

#include "array.h"
#include "inquiry.h"
#include "kafka.h"
#include "log.h"
#include "log_end.h"

#define RECALL_MOST  10000             /* records, and */
#define RECALL_BYTES (4 * 1024 * 1024) /* bytes that are read again of a partition in one go */

struct arriving {
    int32_t partition;
    bool recall;           /* wanted */
    int64_t until;         /* the committed offset; -1: not known yet */
    int64_t first;         /* where the recall began; -1: not known yet */
    int64_t records;       /* recalled */
    int64_t stretch;       /* of them, since there were RECALL_BYTES, and */
    size_t bytes;          /* their bytes */
    struct rp_log_end end; /* where it comes before `until` */
};

struct arrivals {
    rd_kafka_t *client;
    struct positions *positions;
    struct rp_inquiry *inquiry;
    const char *topic;
    uint64_t generation; /* of the answers that still hold */
    struct arriving *items;
    size_t n, cap;
    struct log_cut cut; /* found last */
};

int arrivals_new(const struct rp_config *config, rd_kafka_t *client, const char *group,
                 struct positions *positions, struct arrivals **out, struct rp_error *err)
{
    struct arrivals *a = calloc(1, sizeof *a);
    if (a == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for partitions that come");
    *a = (struct arrivals){
        .client = client, .positions = positions, .topic = config->topics.failed_tasks};
    if (rp_inquiry_new(config, client, group, -1, &a->inquiry, err) != 0) {
        arrivals_free(a);
        return -1;
    }
    *out = a;
    return 0;
}

void arrivals_free(struct arrivals *a)
{
    if (a == NULL)
        return;
    rp_inquiry_free(a->inquiry);
    free(a->items);
    free(a);
}

/* Where it is; `n` where it is not. */
static size_t place_of(const struct arrivals *a, int32_t partition)
{
    size_t i = 0;
    while (i < a->n && a->items[i].partition != partition)
        i++;
    return i;
}

static void drop(struct arrivals *a, size_t place)
{
    a->items[place] = a->items[--a->n];
}

int arrivals_add(struct arrivals *a, int32_t partition, bool recall, struct rp_error *err)
{
    size_t place = place_of(a, partition);
    a->generation++;
    struct arriving *grown = rp_array_grow(a->items, place, &a->cap, sizeof *grown);
    if (grown == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a partition");
    a->items = grown;
    a->n += place == a->n;
    a->items[place] =
        (struct arriving){.partition = partition, .recall = recall, .until = -1, .first = -1};
    return 0;
}

void arrivals_end_met(struct arrivals *a, const rd_kafka_message_t *m)
{
    size_t place = place_of(a, m->partition);
    if (place == a->n)
        return;
    struct arriving *p = &a->items[place];
    if (m->offset >= p->until)
        return;
    if (p->first < 0)
        p->first = m->offset;
    rp_log_end_met(&p->end);
}

void arrivals_remove(struct arrivals *a, int32_t partition)
{
    size_t place = place_of(a, partition);
    a->generation++;
    if (place == a->n)
        return;
    drop(a, place);
}

static int seek(const struct arrivals *a, int32_t partition, int64_t offset, struct rp_error *err)
{
    return rp_kafka_seek_one(a->client, a->topic, partition, offset, err);
}

/* `committed` < 0: there is none. */
static int begin(struct arrivals *a, size_t place, int64_t committed, struct rp_error *err)
{
    struct arriving *p = &a->items[place];
    int64_t from = committed;
    if (p->recall && committed > 0)
        from = committed > RECALL_MOST ? committed - RECALL_MOST : 0;
    if ((committed >= 0 && positions_set(a->positions, p->partition, committed, err) != 0) ||
        rp_kafka_begin(a->client, a->topic, p->partition, from, err) != 0)
        return -1;
    if (committed < 0)
        rp_log(RP_LOG_INFO, "no-offset", rp_f_str("topic", a->topic),
               rp_f_int("partition", p->partition),
               rp_f_str("effect", "it is routed from the log's beginning"));
    p->until = committed;
    if (from == committed)
        drop(a, place);
    return 0;
}

/* Begins with the partitions that have an offset; the others are asked for again. */
static void begin_all(struct arrivals *a, const rd_kafka_topic_partition_list_t *parts)
{
    struct rp_error err;
    for (int i = 0; i < parts->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &parts->elems[i];
        size_t place = place_of(a, p->partition);
        if (place == a->n || a->items[place].until >= 0 || p->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        if (begin(a, place, p->offset, &err) != 0) /* librdkafka has not begun with it */
            rp_log(RP_LOG_DEBUG, "take-over-waits", rp_f_str("topic", p->topic),
                   rp_f_int("partition", p->partition), rp_f_str("error", err.text));
    }
}

/* Nothing tells what was appended since the log was cut from what was there before, and to route
 * again is better than to lose. */
static const struct log_cut *read_on_cut_log(struct arrivals *a, size_t place, int64_t end)
{
    struct rp_error err;
    const struct arriving *p = &a->items[place];
    if (seek(a, p->partition, p->first, &err) != 0)
        return NULL; /* it is tried again at the next look */
    rp_log(RP_LOG_ERROR, "log-was-cut", rp_f_str("topic", a->topic),
           rp_f_int("partition", p->partition), rp_f_int("committed", p->until),
           rp_f_int("end", end), rp_f_int("from", p->first),
           rp_f_str("effect", "what lies from there on is routed, perhaps again"));
    positions_forget(a->positions, p->partition);
    a->cut = (struct log_cut){p->partition, end, p->until};
    drop(a, place);
    return &a->cut;
}

/* One a call, since each waits for its answer. */
static const struct log_cut *check_end(struct arrivals *a)
{
    int64_t end;
    size_t i = 0;
    while (i < a->n && !rp_log_end_due(&a->items[i].end))
        i++;
    if (i == a->n)
        return NULL;
    struct arriving *p = &a->items[i];
    return rp_log_end_look(&p->end, a->client, a->topic, p->partition, &end) && end < p->until
               ? read_on_cut_log(a, i, end)
               : NULL;
}

const struct log_cut *arrivals_serve(struct arrivals *a)
{
    const struct log_cut *cut = check_end(a);
    uint64_t generation;
    rd_kafka_topic_partition_list_t *parts = rp_inquiry_answer(a->inquiry, &generation);
    if (parts != NULL && generation == a->generation)
        begin_all(a, parts);
    if (parts != NULL)
        rd_kafka_topic_partition_list_destroy(parts);
    if (arrivals_waiting(a) == 0)
        return cut;
    parts = rd_kafka_topic_partition_list_new((int)a->n);
    for (size_t i = 0; i < a->n; i++)
        if (a->items[i].until < 0)
            rd_kafka_topic_partition_list_add(parts, a->topic, a->items[i].partition);
    rp_inquiry_ask(a->inquiry, parts, a->generation);
    rd_kafka_topic_partition_list_destroy(parts);
    return cut;
}

size_t arrivals_waiting(const struct arrivals *a)
{
    size_t waiting = 0;
    for (size_t i = 0; i < a->n; i++)
        waiting += a->items[i].until < 0;
    return waiting;
}

/* Where the log ends before the committed offset, what is nearer to that may lie behind the end:
 * librdkafka would go to the log's beginning, and nobody would wait whether the end only lags. */
static bool may_shorten(const struct arrivals *a, struct arriving *p)
{
    int64_t end;
    if (!rp_log_end_ask(a->client, a->topic, p->partition, &end))
        return false;
    if (end < p->until)
        rp_log_end_met(&p->end);
    return end >= p->until;
}

/* The records are large: passes over all but the last before the committed offset, as many as took
 * up all the bytes. Those may be smaller again, so at least half of what is left is kept; it soon
 * comes to its end all the same. */
static void shorten(struct arrivals *a, struct arriving *p, int64_t next)
{
    struct rp_error err;
    int64_t half = (p->until - next) / 2;
    int64_t from = p->until - (p->stretch > half ? p->stretch : half);
    if (from > next && may_shorten(a, p))
        (void)!seek(a, p->partition, from, &err); /* it is tried again after as many bytes */
    p->stretch = 0;
    p->bytes = 0;
}

enum arrival arrivals_take(struct arrivals *a, const rd_kafka_message_t *m)
{
    size_t place = place_of(a, m->partition);
    if (place == a->n)
        return ARRIVAL_NONE;
    struct arriving *p = &a->items[place];
    if (p->until < 0)
        return ARRIVAL_DROP;
    if (m->offset >= p->until) {
        drop(a, place);
        return ARRIVAL_NONE;
    }
    if (p->first < 0)
        p->first = m->offset;
    p->records++;
    p->stretch++;
    p->bytes += m->len + m->key_len;
    if (m->offset + 1 == p->until) {
        rp_log(RP_LOG_DEBUG, "partition-recalled", rp_f_str("topic", a->topic),
               rp_f_int("partition", p->partition), rp_f_int("records", p->records));
        drop(a, place);
    } else if (p->bytes > RECALL_BYTES) {
        shorten(a, p, m->offset + 1);
    }
    return ARRIVAL_RECALL;
}

enum arrival arrivals_cut(struct arrivals *a, int32_t partition, int64_t *until)
{
    size_t place = place_of(a, partition);
    if (place == a->n)
        return ARRIVAL_NONE;
    if (a->items[place].until < 0)
        return ARRIVAL_DROP;
    *until = a->items[place].until;
    drop(a, place);
    return ARRIVAL_RECALL;
}
