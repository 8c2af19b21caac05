/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#include <stdlib.h>
#include <string.h>

#include "kafka.h"

#define STATE_MS 5000

int lanes_read_state(const struct lanes *l, rd_kafka_topic_partition_list_t *parts,
                     struct rp_error *err)
{
    rd_kafka_resp_err_t code = rd_kafka_committed(l->consumer, parts, STATE_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, code, "read committed state");
    for (int i = 0; i < parts->cnt; i++)
        if (parts->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR)
            return rp_kafka_fail(err, parts->elems[i].err, "read committed state");
    return 0;
}

static int make_room(struct lanes *l, size_t n, struct rp_error *err)
{
    if (l->n + n <= l->cap)
        return 0;
    size_t cap = 2 * l->cap + n;
    struct lane **items = realloc(l->items, cap * sizeof(struct lane *));
    if (items == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu partitions", cap);
    l->items = items;
    l->cap = cap;
    return 0;
}

int lanes_add(struct lanes *l, rd_kafka_topic_partition_list_t *parts, struct rp_error *err)
{
    if (make_room(l, (size_t)parts->cnt, err) != 0)
        return -1;
    for (int i = 0; i < parts->cnt; i++) {
        rd_kafka_topic_partition_t *p = &parts->elems[i];
        struct lane *lane;
        if (lane_new(l->consumer, l->config, p, l->wake_fd, l->hold, &lane, err) != 0)
            return -1;
        l->items[l->n++] = lane;
        p->offset = lane_start(lane);
    }
    return 0;
}

void lanes_remove(struct lanes *l, const rd_kafka_topic_partition_list_t *parts)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct lane *lane = l->items[i];
        if (rd_kafka_topic_partition_list_find(
                (rd_kafka_topic_partition_list_t *)(uintptr_t)parts, lane_topic(lane),
                lane_partition(lane)) != NULL)
            lane_free(lane);
        else
            l->items[kept++] = lane;
    }
    l->n = kept;
}

void lanes_clear(struct lanes *l)
{
    while (l->n > 0)
        lane_free(l->items[--l->n]);
    free(l->items);
    l->items = NULL;
    l->cap = 0;
}

rd_kafka_topic_partition_list_t *lanes_list(const struct lanes *l)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)l->n);
    for (size_t i = 0; i < l->n; i++)
        rd_kafka_topic_partition_list_add(list, lane_topic(l->items[i]),
                                          lane_partition(l->items[i]));
    return list;
}

rd_kafka_topic_partition_list_t *lanes_states(const struct lanes *l, bool all)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)l->n);
    for (size_t i = 0; i < l->n; i++) {
        struct lane *lane = l->items[i];
        char metadata[FRONTIER_METADATA_MAX];
        int64_t low;
        if (all ? !lane_is_dirty(lane) : frontier_in_flight(lane_frontier(lane)) == 0)
            continue;
        frontier_state(lane_frontier(lane), &low, metadata);
        if (low < 0)
            continue;
        rd_kafka_topic_partition_t *p =
            rd_kafka_topic_partition_list_add(list, lane_topic(lane), lane_partition(lane));
        p->offset = low;
        p->metadata = strdup(metadata); /* NULL: the state counts as lost, and tasks may double */
        p->metadata_size = p->metadata == NULL ? 0 : strlen(metadata);
    }
    return list;
}

void lanes_settled(struct lanes *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (frontier_in_flight(lane_frontier(l->items[i])) > 0) {
            frontier_settled(lane_frontier(l->items[i]));
            lane_set_settled(l->items[i]);
        }
}

void lanes_untake(struct lanes *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (frontier_in_flight(lane_frontier(l->items[i])) > 0)
            frontier_untake(lane_frontier(l->items[i]));
}

rd_kafka_topic_partition_list_t *lanes_trimmable(struct lanes *l)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)l->n);
    for (size_t i = 0; i < l->n; i++) {
        int64_t offset = lane_trim_to(l->items[i]);
        if (offset >= 0)
            rd_kafka_topic_partition_list_add(list, lane_topic(l->items[i]),
                                              lane_partition(l->items[i]))
                ->offset = offset;
    }
    return list;
}

size_t lanes_held(const struct lanes *l)
{
    size_t held = 0;
    for (size_t i = 0; i < l->n; i++)
        held += frontier_held(lane_frontier(l->items[i]));
    return held;
}
