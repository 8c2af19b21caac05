/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "crash_point.h"
#include "log.h"

#define READ_MOST 512  /* records read of a partition between two looks at the clock */
#define READ_STEP 64   /* and between two looks at whether they are enough */
#define BEHIND_MS 1000 /* who is so late has a backlog of its own */

/* The part of the memory, and of the tasks that may be held, that goes to what is read ahead, and
 * what a lane may have of it at least: the less that is, the more often is it closed, and fetched
 * anew. */
#define AHEAD_PART  4
#define AHEAD_LEAST ((size_t)64 << 10)

static int make_room(struct lanes *l, size_t n, struct rp_error *err)
{
    if (l->all + n <= l->cap)
        return 0;
    size_t cap = 2 * l->cap + n;
    struct lane **items = realloc(l->items, cap * sizeof(struct lane *));
    if (items == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu partitions", cap);
    l->items = items;
    l->cap = cap;
    return 0;
}

int lanes_add(struct lanes *l, const rd_kafka_topic_partition_list_t *parts, struct rp_error *err)
{
    l->epoch++;
    if (make_room(l, (size_t)parts->cnt, err) != 0)
        return -1;
    for (int i = 0; i < parts->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &parts->elems[i];
        if (lane_tier_of(l->config, p->topic) == NULL) {
            rp_log(RP_LOG_WARN, "partition-unread", rp_f_str("topic", p->topic),
                   rp_f_int("partition", p->partition), rp_f_str("reason", "it is no tier's"));
            continue;
        }
        if (lane_new(l->consumer, l->config, p->topic, p->partition, l->wake_fd, l->hold,
                     &l->items[l->all], err) != 0)
            return -1;
        l->all++;
    }
    return 0;
}

static bool contains(const rd_kafka_topic_partition_list_t *parts, const struct lane *lane)
{
    return rd_kafka_topic_partition_list_find(parts, lane_topic(lane), lane_partition(lane)) !=
           NULL;
}

/* Keeps the order: those that were taken over, then those that wait. */
void lanes_remove(struct lanes *l, const rd_kafka_topic_partition_list_t *parts)
{
    size_t kept = 0, taken_over = 0;
    l->epoch++;
    for (size_t i = 0; i < l->all; i++) {
        struct lane *lane = l->items[i];
        if (contains(parts, lane)) {
            lane_free(lane);
            continue;
        }
        l->items[kept++] = lane;
        taken_over += lane_is_taken_over(lane);
    }
    l->all = kept;
    l->n = taken_over;
}

void lanes_let_go(struct lanes *l)
{
    for (size_t i = 0; i < l->n; i++)
        lane_let_go(l->items[i]);
    l->n = 0;
    l->epoch++;
}

void lanes_clear(struct lanes *l)
{
    while (l->all > 0)
        lane_free(l->items[--l->all]);
    free(l->items);
    l->items = NULL;
    l->n = l->cap = 0;
    rp_arena_clear(&l->headers);
}

static struct lane *find_waiting(const struct lanes *l, const rd_kafka_topic_partition_t *p,
                                 size_t *out_place)
{
    for (size_t i = l->n; i < l->all; i++)
        if (lane_partition(l->items[i]) == p->partition &&
            strcmp(lane_topic(l->items[i]), p->topic) == 0) {
            *out_place = i;
            return l->items[i];
        }
    return NULL;
}

static void take_over_all(struct lanes *l, const rd_kafka_topic_partition_list_t *parts)
{
    struct rp_error err;
    size_t place;
    for (int i = 0; i < parts->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &parts->elems[i];
        struct lane *lane = find_waiting(l, p, &place);
        if (lane == NULL || p->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        RP_CRASH_POINT(take_over_before);
        if (lane_take_over(lane, p, &err) != 0) {
            rp_log(RP_LOG_DEBUG, "take-over-waits", rp_f_str("topic", p->topic),
                   rp_f_int("partition", p->partition), rp_f_str("error", err.text));
            continue; /* it is asked for again */
        }
        l->items[place] = l->items[l->n];
        l->items[l->n++] = lane;
        RP_CRASH_POINT(take_over_after);
    }
}

static void ask(struct lanes *l)
{
    rd_kafka_topic_partition_list_t *parts = rd_kafka_topic_partition_list_new(8);
    for (size_t i = l->n; i < l->all; i++)
        rd_kafka_topic_partition_list_add(parts, lane_topic(l->items[i]),
                                          lane_partition(l->items[i]));
    rp_inquiry_ask(l->inquiry, parts, l->epoch);
    rd_kafka_topic_partition_list_destroy(parts);
}

void lanes_take_over(struct lanes *l)
{
    uint64_t epoch;
    rd_kafka_topic_partition_list_t *parts = rp_inquiry_answer(l->inquiry, &epoch);
    if (parts != NULL && epoch == l->epoch)
        take_over_all(l, parts);
    if (parts != NULL)
        rd_kafka_topic_partition_list_destroy(parts);
    if (l->n < l->all)
        ask(l);
}

static bool is_overdue(struct lane *lane, int64_t now_ms)
{
    struct frontier_entry head;
    return frontier_peek(lane_frontier(lane), &head) && head.settle_ms <= now_ms - BEHIND_MS;
}

/* Of what is overdue, a batch; where memory is scarce its share of one, which was read now or is
 * still there of the last. The rest would only be spilled. */
static bool has_enough(const struct lanes *l, struct lane *lane, bool behind, bool had_share,
                       int64_t now_ms)
{
    bool scarce = hold_memory_bytes(l->hold) >= (size_t)l->config->memory_bytes / 2;
    bool has_batch = frontier_held(lane_frontier(lane)) >= (size_t)l->config->delayer.batch;
    return ((behind && (scarce || has_batch)) || (scarce && had_share)) && is_overdue(lane, now_ms);
}

static size_t held_by_all(const struct lanes *l)
{
    size_t held = 0;
    for (size_t i = 0; i < l->n; i++)
        held += frontier_held(lane_frontier(l->items[i]));
    return held;
}

/* How many bytes a lane may read before they have to be. */
static size_t most_ahead(const struct lanes *l)
{
    size_t share = (size_t)l->config->memory_bytes / AHEAD_PART / l->n;
    if (held_by_all(l) >= (size_t)l->config->max_held / AHEAD_PART)
        return 0;
    return share < AHEAD_LEAST ? AHEAD_LEAST : share;
}

static int read_lane(struct lanes *l, struct lane *lane, bool behind, int64_t now_ms, size_t ahead,
                     struct rp_error *err)
{
    int share = (int)l->config->delayer.batch / (int)l->n + 1;
    int step = share < READ_STEP ? share : READ_STEP, n = step;
    for (int i = 0; i < READ_MOST && n == step; i += n) {
        if (has_enough(l, lane, behind, i >= share, now_ms))
            break;
        if ((n = lane_read(lane, now_ms, step, ahead, &l->headers, err)) < 0)
            return -1;
    }
    return 0;
}

bool lanes_full(const struct lanes *l)
{
    return held_by_all(l) >= (size_t)l->config->max_held || hold_is_over(l->hold);
}

/* With no more room, only recoveries go on: until they end they give nothing out. */
int lanes_read(struct lanes *l, bool behind, struct rp_error *err)
{
    int64_t now_ms = rp_wall_ms();
    bool full = lanes_full(l);
    size_t ahead = l->n > 0 ? most_ahead(l) : 0;
    for (size_t i = 0; i < l->n; i++) {
        struct lane *lane = l->items[i];
        if (full && !frontier_recovering(lane_frontier(lane)))
            continue;
        if (read_lane(l, lane, behind, now_ms, ahead, err) != 0)
            return -1;
    }
    return 0;
}

rd_kafka_topic_partition_list_t *lanes_emptied(const struct lanes *l)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)l->n);
    int64_t next;
    for (size_t i = 0; i < l->n; i++)
        if (lane_is_emptied(l->items[i], &next))
            rd_kafka_topic_partition_list_add(list, lane_topic(l->items[i]),
                                              lane_partition(l->items[i]))
                ->offset = next;
    return list;
}

static void add_state(rd_kafka_topic_partition_list_t *list, struct lane *lane)
{
    char metadata[FRONTIER_METADATA_MAX];
    int64_t low;
    frontier_state(lane_frontier(lane), &low, metadata);
    if (low < 0)
        return;
    rd_kafka_topic_partition_t *p =
        rd_kafka_topic_partition_list_add(list, lane_topic(lane), lane_partition(lane));
    p->offset = low;
    p->metadata = strdup(metadata); /* NULL: the state counts as lost, and tasks may double */
    p->metadata_size = p->metadata == NULL ? 0 : strlen(metadata);
}

rd_kafka_topic_partition_list_t *lanes_states(const struct lanes *l, bool all)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)l->n);
    for (size_t i = 0; i < l->n; i++) {
        struct lane *lane = l->items[i];
        struct frontier *f = lane_frontier(lane);
        if (all ? lane_is_dirty(lane) : frontier_in_flight(f) > frontier_sent_off(f))
            add_state(list, lane);
    }
    return list;
}

rd_kafka_topic_partition_list_t *lanes_cut_states(const struct lanes *l)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    for (size_t i = 0; i < l->n; i++)
        if (lane_was_cut(l->items[i]))
            add_state(list, l->items[i]);
    return list;
}

void lanes_send_off(struct lanes *l)
{
    for (size_t i = 0; i < l->n; i++)
        frontier_send_off(lane_frontier(l->items[i]));
}

void lanes_settled(struct lanes *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (frontier_sent_off(lane_frontier(l->items[i])) > 0) {
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

rd_kafka_topic_partition_list_t *lanes_trimmable(struct lanes *l, bool again)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)l->n);
    for (size_t i = 0; i < l->n; i++) {
        int64_t offset = lane_trim_to(l->items[i], again);
        if (offset >= 0)
            rd_kafka_topic_partition_list_add(list, lane_topic(l->items[i]),
                                              lane_partition(l->items[i]))
                ->offset = offset;
    }
    return list;
}
