/* SPDX-License-Identifier: Apache-2.0 */
#include "intake.h"

#include "clock.h"
#include "kafka.h"
#include "log.h"
#include "log_end.h"

#define WAIT_MS 1000 /* before records are looked at again that could not be judged */

int intake_init(struct intake *in, const struct rp_config *config, rd_kafka_t *client,
                const char *group, struct rp_error *err)
{
    in->client = client;
    in->topic = config->topics.failed_tasks;
    in->waiting = rd_kafka_topic_partition_list_new(4);
    return arrivals_new(config, client, group, &in->positions, &in->arrivals, err);
}

void intake_close(struct intake *in)
{
    arrivals_free(in->arrivals);
    in->arrivals = NULL;
}

void intake_clear(struct intake *in)
{
    intake_close(in);
    positions_clear(&in->positions);
    if (in->waiting != NULL)
        rd_kafka_topic_partition_list_destroy(in->waiting);
}

int intake_add(struct intake *in, const rd_kafka_topic_partition_list_t *parts, bool recall,
               struct rp_error *err)
{
    for (int i = 0; i < parts->cnt && in->arrivals != NULL; i++) {
        positions_forget(&in->positions, parts->elems[i].partition);
        if (arrivals_add(in->arrivals, parts->elems[i].partition, recall, err) != 0)
            return -1;
    }
    return 0;
}

void intake_remove(struct intake *in, const rd_kafka_topic_partition_list_t *parts)
{
    for (int i = 0; i < parts->cnt && in->arrivals != NULL; i++) {
        arrivals_remove(in->arrivals, parts->elems[i].partition);
        /* It may come again, held, and must not be let go for that. */
        (void)rd_kafka_topic_partition_list_del(in->waiting, in->topic, parts->elems[i].partition);
    }
}

int intake_seek(struct intake *in, rd_kafka_topic_partition_list_t *offsets, struct rp_error *err)
{
    if (rp_kafka_seek(in->client, offsets, err) != 0)
        return -1;
    for (int i = 0; i < offsets->cnt; i++)
        if (positions_set(&in->positions, offsets->elems[i].partition, offsets->elems[i].offset,
                          err) != 0)
            return -1;
    return 0;
}

int intake_seek_one(struct intake *in, int32_t partition, int64_t offset, struct rp_error *err)
{
    if (rp_kafka_seek_one(in->client, in->topic, partition, offset, err) != 0)
        return -1;
    return positions_set(&in->positions, partition, offset, err);
}

int intake_postpone(struct intake *in, int32_t partition, int64_t offset, struct rp_error *err)
{
    /* Once it is sought it is paused, too. A resume that came before would be passed over. */
    (void)rp_kafka_set_paused(in->client, in->topic, partition, true);
    if (intake_seek_one(in, partition, offset, err) != 0)
        return -1;
    if (in->waiting->cnt == 0)
        in->waiting_until_mono_ms = rp_mono_ms() + WAIT_MS;
    rd_kafka_topic_partition_list_add(in->waiting, in->topic, partition);
    return 0;
}

static void resume_waiting(struct intake *in)
{
    if (in->waiting->cnt == 0 || rp_mono_ms() < in->waiting_until_mono_ms)
        return;
    (void)rp_kafka_resume(in->client, in->waiting);
    rd_kafka_topic_partition_list_destroy(in->waiting);
    in->waiting = rd_kafka_topic_partition_list_new(4);
}

const struct log_cut *intake_serve(struct intake *in)
{
    resume_waiting(in);
    return arrivals_serve(in->arrivals);
}

int intake_end_met(struct intake *in, const rd_kafka_message_t *m, struct rp_error *err)
{
    arrivals_end_met(in->arrivals, m);
    if (positions_ended(&in->positions, m->partition, m->offset, err) != 0)
        return -1;
    struct position *known = positions_find(&in->positions, m->partition);
    if (rp_kafka_gone_to(in->client, in->topic, m->partition, known->next) < 0)
        known->whole = m->offset;
    return 0;
}

rd_kafka_topic_partition_list_t *intake_read(const struct intake *in)
{
    rd_kafka_topic_partition_list_t *all = NULL, *read = rd_kafka_topic_partition_list_new(8);
    if (arrivals_waiting(in->arrivals) == 0)
        (void)rd_kafka_assignment(in->client, &all);
    for (int i = 0; all != NULL && i < all->cnt; i++) {
        int32_t partition = all->elems[i].partition;
        if (rd_kafka_topic_partition_list_find(in->waiting, in->topic, partition) == NULL)
            rd_kafka_topic_partition_list_add(read, in->topic, partition)->offset =
                positions_reached(&in->positions, partition);
    }
    if (all != NULL)
        rd_kafka_topic_partition_list_destroy(all);
    return read;
}

static void note_cut(struct intake *in, const rd_kafka_message_t *m, int64_t expected)
{
    in->cut = (struct log_cut){m->partition, m->offset, expected};
    rp_log(RP_LOG_ERROR, "log-was-cut", rp_f_str("topic", in->topic),
           rp_f_int("partition", m->partition), rp_f_int("offset", m->offset),
           rp_f_int("expected", expected),
           rp_f_str("effect", "what lies from there on is routed, perhaps again"));
}

static enum position_kind look(const struct intake *in, struct position *known,
                               const rd_kafka_message_t *m)
{
    int64_t end;
    enum position_kind kind = position_look(known, m->offset, rd_kafka_message_leader_epoch(m));
    if (kind == POSITION_ASK && rp_log_end_ask(in->client, in->topic, m->partition, &end))
        kind = end < known->next ? POSITION_CUT : POSITION_REPEAT;
    if (kind == POSITION_REPEAT)
        known->repeated = m->offset;
    return kind;
}

/* The topic's retention took what nobody had routed: of what is lost the least is to say so. */
static void tell_of_gone(const struct intake *in, const rd_kafka_message_t *m,
                         const struct position *known)
{
    int64_t from = known->whole > known->next ? known->whole : known->next, to;
    if (known->next >= 0 && m->offset > from &&
        (to = rp_kafka_gone_to(in->client, in->topic, m->partition, from)) >= 0)
        rp_log(RP_LOG_ERROR, "events-gone", rp_f_str("topic", in->topic),
               rp_f_int("partition", m->partition), rp_f_int("from", from), rp_f_int("to", to));
}

int intake_take(struct intake *in, const rd_kafka_message_t *m, enum arrival *out,
                struct rp_error *err)
{
    *out = arrivals_take(in->arrivals, m);
    if (*out != ARRIVAL_NONE)
        return 0;
    struct position *known = positions_find(&in->positions, m->partition);
    int64_t expected = known == NULL ? -1 : known->next;
    bool back = false;
    if (known != NULL &&
        rp_kafka_look_back(in->client, m, expected, known->epoch, &known->looked, &back, err) != 0)
        return -1;
    if (back) {
        *out = ARRIVAL_DROP;
        return positions_set(&in->positions, m->partition, expected, err);
    }
    enum position_kind kind = look(in, known, m);
    if (kind == POSITION_REPEAT || kind == POSITION_ASK) {
        *out = ARRIVAL_DROP;
        rp_log(RP_LOG_DEBUG, "record-came-again", rp_f_str("topic", in->topic),
               rp_f_int("partition", m->partition), rp_f_int("offset", m->offset));
        /* With no answer it goes to where it was; from a log that was cut it comes back here. */
        return kind == POSITION_REPEAT ? 0 : intake_seek_one(in, m->partition, expected, err);
    }
    if (kind == POSITION_CUT) {
        note_cut(in, m, expected);
        *out = ARRIVAL_CUT;
    } else if (known != NULL) {
        tell_of_gone(in, m, known);
    }
    return positions_advance(&in->positions, m->partition, m->offset,
                             rd_kafka_message_leader_epoch(m), err);
}

int intake_take_unread(struct intake *in, const rd_kafka_message_t *m, enum arrival *out,
                       int64_t *offset, struct rp_error *err)
{
    int64_t until, end;
    *out = arrivals_cut(in->arrivals, m->partition, &until);
    if (*out == ARRIVAL_RECALL)
        return intake_seek_one(in, m->partition, until, err);
    int64_t next = positions_next(&in->positions, m->partition);
    bool within = next > m->offset;
    if (within && rp_log_end_ask(in->client, in->topic, m->partition, &end) && end < next) {
        note_cut(in, m, next);
        *out = ARRIVAL_CUT;
        within = false;
    }
    *offset = within ? next : m->offset;
    return 0;
}
