/* SPDX-License-Identifier: Apache-2.0 */
#include "lessons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

static struct rp_lesson *find(const struct rp_lessons *l, const char *topic, int32_t partition,
                              int64_t offset)
{
    for (size_t i = 0; i < l->n; i++) {
        struct rp_lesson *item = &l->items[i];
        if (item->offset == offset && item->partition == partition && item->topic == topic)
            return item;
    }
    return NULL;
}

const struct rp_lesson *rp_lessons_find(const struct rp_lessons *l, const char *topic,
                                        int32_t partition, int64_t offset)
{
    return find(l, topic, partition, offset);
}

static struct rp_lesson *make(struct rp_lessons *l)
{
    struct rp_lesson *items = rp_array_grow(l->items, l->n, &l->cap, sizeof *items);
    if (items == NULL)
        return NULL;
    l->items = items;
    return &l->items[l->n++];
}

static void refuse(struct rp_lesson *item, rd_kafka_resp_err_t code)
{
    struct rp_error words;
    (void)rp_kafka_fail(&words, code, "the brokers refuse it");
    item->refused = true;
    item->reason = words.code == RP_E_RANGE ? RP_OVERSIZED : RP_OTHER;
    (void)snprintf(item->refusal, sizeof item->refusal, "%.*s", (int)sizeof item->refusal - 1,
                   words.text);
}

int rp_lessons_add(struct rp_lessons *l, const char *topic, int32_t partition, int64_t offset,
                   bool alone, bool letter, rd_kafka_resp_err_t code, struct rp_error *err)
{
    struct rp_lesson *item = find(l, topic, partition, offset);
    int news = item == NULL;
    if (item == NULL) {
        item = make(l);
        if (item == NULL)
            return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a lesson");
        *item = (struct rp_lesson){.topic = topic, .partition = partition, .offset = offset};
    }
    if (!alone || (letter ? item->letters_refused == RP_BURY_MOST : item->refused))
        return news;
    if (letter)
        item->letters_refused++;
    else
        refuse(item, code);
    return 1;
}

void rp_lessons_forget(struct rp_lessons *l, const char *topic, int32_t partition, int64_t offset)
{
    struct rp_lesson *item = l->n == 0 ? NULL : find(l, topic, partition, offset);
    if (item != NULL)
        *item = l->items[--l->n];
}

void rp_lessons_forget_partition(struct rp_lessons *l, const char *topic, int32_t partition)
{
    for (size_t i = l->n; i-- > 0;)
        if (l->items[i].partition == partition && strcmp(l->items[i].topic, topic) == 0)
            l->items[i] = l->items[--l->n];
}

void rp_lessons_clear(struct rp_lessons *l)
{
    free(l->items);
    *l = (struct rp_lessons){0};
}
