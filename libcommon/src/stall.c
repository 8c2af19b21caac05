/* SPDX-License-Identifier: Apache-2.0 */
#include "stall.h"

#include <inttypes.h>

#include "clock.h"
#include "kafka.h"

#define LOOK_MS    30000 /* longer than a leader takes to change, or an answer to come */
#define ANSWER_MS  5000  /* to find the leaders; to hear of them, as long again */
#define MOST_LOOKS 20

bool rp_stall_due(const struct rp_stall *s)
{
    return rp_mono_ms() >= s->look_mono_ms;
}

/* At how many looks in a row the partition has stood where it stands: 0 where it moved. */
static intptr_t looks_stood(const struct rp_stall *s, const rd_kafka_topic_partition_t *p)
{
    const rd_kafka_topic_partition_t *before =
        s->before == NULL ? NULL
                          : rd_kafka_topic_partition_list_find(s->before, p->topic, p->partition);
    return before != NULL && before->offset == p->offset ? (intptr_t)before->opaque + 1 : 0;
}

static void ask(struct rp_stall *s, rd_kafka_t *consumer,
                const rd_kafka_topic_partition_list_t *parts)
{
    rd_kafka_topic_partition_list_t *asked = rd_kafka_topic_partition_list_new(parts->cnt);
    for (int i = 0; i < parts->cnt; i++)
        if (parts->elems[i].opaque != NULL)
            (void)rd_kafka_topic_partition_list_add(asked, parts->elems[i].topic,
                                                    parts->elems[i].partition);
    if (asked->cnt > 0) {
        s->answer = rd_kafka_queue_new(consumer);
        rp_kafka_ask_ends(consumer, asked, RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED, ANSWER_MS,
                          s->answer);
    }
    rd_kafka_topic_partition_list_destroy(asked);
}

/* An answer that comes later meets nobody. */
static void end_question(struct rp_stall *s)
{
    if (s->answer != NULL)
        rd_kafka_queue_destroy(s->answer);
    s->answer = NULL;
}

/* How far the partition's log goes by what was fetched last; -1: that was refused, or nothing was.
 */
static int64_t fetched_end(rd_kafka_t *consumer, const rd_kafka_topic_partition_t *p)
{
    int64_t low, high;
    return rd_kafka_get_watermark_offsets(consumer, p->topic, p->partition, &low, &high) ==
                   RD_KAFKA_RESP_ERR_NO_ERROR
               ? high
               : -1;
}

/* The partition still stands where it was asked about, and the log ends behind that. Where what is
 * fetched tells of that end, it may be passing what was aborted, which nobody gets to see. */
static bool is_stalled(rd_kafka_t *consumer, const rd_kafka_topic_partition_list_t *parts,
                       const rd_kafka_topic_partition_t *end, struct rp_error *err)
{
    if (end->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    const rd_kafka_topic_partition_t *p =
        rd_kafka_topic_partition_list_find(parts, end->topic, end->partition);
    if (p == NULL || (intptr_t)p->opaque < 2 || end->offset <= p->offset)
        return false;
    if (fetched_end(consumer, p) >= end->offset && (intptr_t)p->opaque < MOST_LOOKS)
        return false;
    (void)rp_fail(err, RP_E_FENCED, RP_FATAL,
                  "nothing comes of %s [%" PRId32 "] behind offset %" PRId64
                  ", and it ends at %" PRId64,
                  p->topic, p->partition, p->offset, end->offset);
    return true;
}

static bool find_stalled(const struct rp_stall *s, rd_kafka_t *consumer,
                         const rd_kafka_topic_partition_list_t *parts, struct rp_error *err)
{
    size_t n = 0;
    bool found = false;
    rd_kafka_event_t *event = s->answer == NULL ? NULL : rd_kafka_queue_poll(s->answer, 0);
    if (event == NULL)
        return false;
    if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_ListOffsetsResultInfo_t **ends =
            rd_kafka_ListOffsets_result_infos(rd_kafka_event_ListOffsets_result(event), &n);
        for (size_t i = 0; i < n && !found; i++)
            found = is_stalled(consumer, parts,
                               rd_kafka_ListOffsetsResultInfo_topic_partition(ends[i]), err);
    }
    rd_kafka_event_destroy(event);
    return found;
}

int rp_stall_look(struct rp_stall *s, rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *parts,
                  struct rp_error *err)
{
    for (int i = 0; i < parts->cnt; i++)
        parts->elems[i].opaque = (void *)looks_stood(s, &parts->elems[i]);
    bool found = find_stalled(s, consumer, parts, err);
    end_question(s);
    if (!found)
        ask(s, consumer, parts);
    if (s->before != NULL)
        rd_kafka_topic_partition_list_destroy(s->before);
    s->before = parts;
    s->look_mono_ms = rp_mono_ms() + LOOK_MS;
    return found ? -1 : 0;
}

void rp_stall_heard(struct rp_stall *s, const char *topic, int32_t partition)
{
    if (s->before != NULL)
        (void)rd_kafka_topic_partition_list_del(s->before, topic, partition);
}

void rp_stall_clear(struct rp_stall *s)
{
    end_question(s);
    if (s->before != NULL)
        rd_kafka_topic_partition_list_destroy(s->before);
    s->before = NULL;
}
