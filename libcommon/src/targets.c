/* SPDX-License-Identifier: Apache-2.0 */
#include "targets.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "clock.h"
#include "record_size.h"

#define N_PLACES  1024u /* a power of two */
#define CHOICE    4u    /* of places for a topic; with fewer, two that alternate ask each time */
#define USABLE_MS 30000
/* For so long what was known is good while it is asked anew. */
#define STALE_MS 30000
/* Short, so that a topic made after its first task is found soon, and a larger limit too. */
#define REFUSED_MS 1000
/* What a delivery found out: asking again would only say that the topic is there. */
#define BLAMED_MS 30000
/* Who waits for one topic after another, while no broker answers, does nothing else. */
#define SILENT_MS 1000

struct place {
    char name[RP_MAX_TOPIC_NAME + 1]; /* empty: nothing is known */
    enum rp_target_state state;
    int64_t max_bytes;
    int64_t told_mono_ms, until_mono_ms;
};

struct rp_targets {
    rd_kafka_t *client;
    bool compressed;
    int64_t silent_until_mono_ms; /* nobody answered: not asked again before */
    /* One question at a time is asked behind the work. */
    struct rp_topic_question behind;
    char behind_name[RP_MAX_TOPIC_NAME + 1];
    int64_t behind_until_mono_ms;
    struct place places[N_PLACES];
};

int rp_targets_new(rd_kafka_t *client, bool compressed, struct rp_targets **out,
                   struct rp_error *err)
{
    struct rp_targets *t = calloc(1, sizeof *t);
    if (t == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the targets");
    t->client = client;
    t->compressed = compressed;
    *out = t;
    return 0;
}

void rp_targets_free(struct rp_targets *t)
{
    if (t == NULL)
        return;
    rp_topic_question_end(&t->behind);
    free(t);
}

static bool is_topic_name(struct rp_bytes topic)
{
    return topic.len > 0 && topic.len <= RP_MAX_TOPIC_NAME &&
           memchr(topic.data, '\0', topic.len) == NULL;
}

static void copy_name(char out[RP_MAX_TOPIC_NAME + 1], struct rp_bytes topic)
{
    memcpy(out, topic.data, topic.len);
    out[topic.len] = '\0';
}

static bool is_of(const struct place *p, struct rp_bytes topic)
{
    return memcmp(p->name, topic.data, topic.len) == 0 && p->name[topic.len] == '\0';
}

/* The topic's; where it has none, that of the one which would be asked for again first. */
static struct place *place_of(struct rp_targets *t, struct rp_bytes topic)
{
    uint64_t hash = XXH3_64bits(topic.data, topic.len);
    struct place *oldest = NULL;
    for (uint64_t i = 0; i < CHOICE; i++) {
        struct place *p = &t->places[(hash + i) & (N_PLACES - 1)];
        if (is_of(p, topic))
            return p;
        if (oldest == NULL || p->until_mono_ms < oldest->until_mono_ms)
            oldest = p;
    }
    return oldest;
}

static struct place *remember(struct rp_targets *t, struct rp_bytes topic,
                              enum rp_target_state state, int64_t max_bytes, int64_t for_ms)
{
    struct place *p = place_of(t, topic);
    copy_name(p->name, topic);
    p->state = state;
    p->max_bytes = max_bytes;
    p->told_mono_ms = rp_mono_tick_ms();
    p->until_mono_ms = p->told_mono_ms + for_ms;
    return p;
}

static struct place *remember_answer(struct rp_targets *t, struct rp_bytes topic,
                                     const struct rp_topic_question *q)
{
    return remember(t, topic, q->state, q->max_bytes,
                    q->state == RP_TARGET_USABLE ? USABLE_MS : REFUSED_MS);
}

/* NULL: nobody answers. */
static struct place *ask(struct rp_targets *t, struct rp_bytes topic)
{
    char name[RP_MAX_TOPIC_NAME + 1];
    struct rp_topic_question q;
    struct place *p = NULL;
    if (rp_mono_tick_ms() < t->silent_until_mono_ms)
        return NULL;
    copy_name(name, topic);
    rp_topic_question_ask(&q, t->client, name);
    (void)rp_topic_question_wait(&q, RP_TOPIC_QUESTION_MS + 1000);
    if (q.state == RP_TARGET_UNKNOWN)
        t->silent_until_mono_ms = rp_mono_tick_ms() + SILENT_MS;
    else
        p = remember_answer(t, topic, &q);
    rp_topic_question_end(&q);
    return p;
}

static void ask_behind(struct rp_targets *t, struct rp_bytes topic)
{
    if (t->behind.queue != NULL)
        return;
    copy_name(t->behind_name, topic);
    rp_topic_question_ask(&t->behind, t->client, t->behind_name);
    t->behind_until_mono_ms = rp_mono_tick_ms() + RP_TOPIC_QUESTION_MS;
}

static void serve_behind(struct rp_targets *t)
{
    if (t->behind.queue == NULL)
        return;
    bool answered = rp_topic_question_wait(&t->behind, 0);
    if (!answered && rp_mono_tick_ms() < t->behind_until_mono_ms)
        return;
    if (answered && t->behind.state != RP_TARGET_UNKNOWN)
        (void)remember_answer(t, rp_str(t->behind_name), &t->behind);
    rp_topic_question_end(&t->behind);
}

/* What is known of the topic, found out where that is nothing. NULL: nobody answers. */
static struct place *look_up(struct rp_targets *t, struct rp_bytes topic)
{
    struct place *p = place_of(t, topic);
    serve_behind(t);
    if (!is_of(p, topic))
        return ask(t, topic);
    int64_t old_ms = rp_mono_tick_ms() - p->until_mono_ms;
    if (old_ms < 0)
        return p;
    if (p->state != RP_TARGET_USABLE || old_ms >= STALE_MS)
        return ask(t, topic);
    ask_behind(t, topic);
    return p;
}

enum rp_target_state rp_targets_state(struct rp_targets *t, struct rp_bytes topic)
{
    if (!is_topic_name(topic))
        return RP_TARGET_MISSING;
    const struct place *p = look_up(t, topic);
    return p == NULL ? RP_TARGET_UNKNOWN : p->state;
}

int64_t rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic)
{
    const struct place *p = is_topic_name(topic) ? look_up(t, topic) : NULL;
    return p == NULL ? RP_NO_LIMIT : p->max_bytes;
}

bool rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record)
{
    record->batch_bytes = rp_record_batch_bytes(record);
    record->max_batch_bytes = rp_targets_max_bytes(t, record->topic);
    if (t->compressed || record->batch_bytes <= record->max_batch_bytes)
        return true;
    const struct place *p = place_of(t, record->topic);
    if (rp_mono_tick_ms() - p->told_mono_ms >= REFUSED_MS)
        p = ask(t, record->topic);
    if (p != NULL)
        record->max_batch_bytes = p->max_bytes;
    return p == NULL || record->batch_bytes <= p->max_bytes;
}

void rp_targets_forget(struct rp_targets *t)
{
    rp_topic_question_end(&t->behind);
    for (size_t i = 0; i < N_PLACES; i++)
        if (t->places[i].state == RP_TARGET_USABLE)
            t->places[i] = (struct place){0};
}

bool rp_targets_blame(struct rp_targets *t, struct rp_bytes topic, rd_kafka_resp_err_t code)
{
    enum rp_target_state state = rp_target_state_of(code);
    if (state != RP_TARGET_MISSING && state != RP_TARGET_DENIED)
        return false;
    (void)remember(t, topic, state, RP_NO_LIMIT,
                   state == RP_TARGET_DENIED ? BLAMED_MS : REFUSED_MS);
    return true;
}
