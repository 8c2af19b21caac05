/* SPDX-License-Identifier: Apache-2.0 */
#include "lane_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lane_fixture fx;

int lane_set_up(void **state)
{
    static char topic[] = TOPIC;
    struct rp_error err;
    (void)state;
    fx.config = (struct rp_config){
        .tiers = {{.topic = topic, .length_ms = 1000, .reach_ms = 10000}}, .n_tiers = 1};
    mock_start(&fx.mock, 1, TOPIC);
    fx.consumer = mock_consumer(&fx.mock, "group");
    fx.wake_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(fx.wake_fd >= 0);
    mock_produce(&fx.mock, TOPIC, 10);
    return hold_new(1 << 20, "/tmp", &fx.hold, &err);
}

int lane_tear_down(void **state)
{
    (void)state;
    hold_free(fx.hold);
    rd_kafka_destroy(fx.consumer);
    mock_stop(&fx.mock);
    (void)close(fx.wake_fd);
    return 0;
}

struct lane *new_lane(void)
{
    struct rp_error err;
    struct lane *lane;
    assert_int_equal(lane_new(fx.consumer, &fx.config, TOPIC, 0, fx.wake_fd, fx.hold, &lane, &err),
                     0);
    return lane;
}

void serve(void)
{
    rd_kafka_message_t *m = rd_kafka_consumer_poll(fx.consumer, POLL_MS);
    if (m != NULL)
        rd_kafka_message_destroy(m);
}

void take_over_with(struct lane *lane, int64_t offset, const char *metadata)
{
    struct rp_error err;
    char text[FRONTIER_METADATA_MAX];
    (void)snprintf(text, sizeof text, "%s", metadata);
    const rd_kafka_topic_partition_t position = {.topic = (char[]){TOPIC},
                                                 .partition = 0,
                                                 .offset = offset,
                                                 .metadata = text,
                                                 .metadata_size = strlen(text)};
    int polls = 0;
    while (lane_take_over(lane, &position, &err) != 0 && polls++ < MOST_POLLS)
        serve();
    assert_true(lane_is_taken_over(lane));
}

void take_over(struct lane *lane, int64_t offset)
{
    take_over_with(lane, offset, "");
}

struct lane *begun_lane(int64_t offset)
{
    struct lane *lane = new_lane();
    mock_assign(fx.consumer, TOPIC);
    take_over(lane, offset);
    return lane;
}

void read_once(struct lane *lane, int64_t now_ms, size_t most_ahead)
{
    struct rp_error err;
    struct rp_arena arena = {0};
    serve();
    assert_true(lane_read(lane, now_ms, 100, most_ahead, &arena, &err) >= 0);
    rp_arena_clear(&arena);
}

void read_at(struct lane *lane, int64_t now_ms, int64_t offset)
{
    for (int i = 0; i < MOST_POLLS && frontier_high(lane_frontier(lane)) != offset; i++)
        read_once(lane, now_ms, 0);
    assert_int_equal(frontier_high(lane_frontier(lane)), offset);
}

void read_to(struct lane *lane, int64_t offset)
{
    read_at(lane, INT64_MAX, offset);
}
