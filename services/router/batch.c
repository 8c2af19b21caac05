/* SPDX-License-Identifier: Apache-2.0 */
#include "batch.h"

#include <assert.h>
#include <stdlib.h>

#include "array.h"
#include "clock.h"

void batch_clear(struct batch *b)
{
    free(b->spans);
    *b = (struct batch){0};
}

void batch_reset(struct batch *b)
{
    b->n_spans = 0;
    b->urgent = false;
}

static struct batch_span *find(const struct batch *b, int32_t partition)
{
    for (size_t i = 0; i < b->n_spans; i++)
        if (b->spans[i].partition == partition)
            return &b->spans[i];
    return NULL;
}

int batch_reach(struct batch *b, int32_t partition, int64_t offset, struct rp_error *err)
{
    if (b->n_spans == 0)
        b->began_mono_ms = rp_mono_ms();
    struct batch_span *known = find(b, partition);
    if (known != NULL) { /* where it does not rise, the log was cut: what lay behind is gone */
        known->first = offset < known->first ? offset : known->first;
        known->next = offset < known->next ? offset : known->next;
        return 0;
    }
    struct batch_span *spans = rp_array_grow(b->spans, b->n_spans, &b->cap_spans, sizeof *spans);
    if (spans == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a partition");
    b->spans = spans;
    b->spans[b->n_spans++] = (struct batch_span){partition, offset, offset};
    return 0;
}

void batch_take(struct batch *b, int32_t partition, int64_t offset)
{
    struct batch_span *span = find(b, partition);
    assert(span != NULL);
    span->next = offset + 1;
}

int64_t batch_first(const struct batch *b, int32_t partition, int64_t offset)
{
    const struct batch_span *span = find(b, partition);
    return span != NULL && span->first < offset ? span->first : offset;
}

rd_kafka_topic_partition_list_t *batch_offsets(const struct batch *b, const char *topic)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)b->n_spans);
    for (size_t i = 0; i < b->n_spans; i++) {
        const struct batch_span *s = &b->spans[i];
        if (s->next > s->first)
            rd_kafka_topic_partition_list_add(list, topic, s->partition)->offset = s->next;
    }
    return list;
}

void batch_begins(const struct batch *b, const char *topic, rd_kafka_topic_partition_list_t *list)
{
    for (size_t i = 0; i < b->n_spans; i++) {
        const struct batch_span *s = &b->spans[i];
        rd_kafka_topic_partition_t *known =
            rd_kafka_topic_partition_list_find(list, topic, s->partition);
        if (known == NULL)
            rd_kafka_topic_partition_list_add(list, topic, s->partition)->offset = s->first;
        else if (s->first < known->offset)
            known->offset = s->first;
    }
}
