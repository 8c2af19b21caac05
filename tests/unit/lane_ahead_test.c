/* SPDX-License-Identifier: Apache-2.0 */
/* What a lane reads before it must, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "clock.h"
#include "lane_fixture.h"
#include "lanes.h"
#include "reprise/task.h"
#include "units.h"

/* Beside a shorter tier. */
static struct lane *new_lane_of_length(int64_t length_ms)
{
    static char topic[] = TOPIC, shorter[] = "t";
    fx.config.tiers[1] =
        (struct rp_tier){.topic = topic, .length_ms = length_ms, .reach_ms = 10 * length_ms};
    fx.config.tiers[0] = (struct rp_tier){.topic = shorter, .length_ms = 100, .reach_ms = 500};
    fx.config.n_tiers = 2;
    fx.config.slack_ms = 1000;
    return begun_lane(0);
}

/* It is due within the slack from its append on. */
static void a_tier_that_is_shorter_than_the_slack_is_read_as_it_comes(void **state)
{
    (void)state;
    struct lane *lane = new_lane_of_length(500);
    read_at(lane, rp_wall_ms(), 10);
    lane_free(lane);
}

/* Until the lane knows when to go on. */
static int64_t read_until_closed(struct lane *lane, size_t most_ahead)
{
    int64_t now_ms = rp_wall_ms();
    for (int i = 0; i < MOST_POLLS && lane_read_at_ms(lane) <= now_ms; i++)
        read_once(lane, now_ms, most_ahead);
    for (int i = 0; i < MOST_POLLS && lane_read_at_ms(lane) == INT64_MAX; i++)
        read_once(lane, now_ms, most_ahead);
    return lane_read_at_ms(lane);
}

/* What librdkafka has fetched keeps in memory what came with it, of other partitions, too. */
static void nothing_is_fetched_of_what_must_wait_for_long(void **state)
{
    (void)state;
    int64_t began_ms = rp_wall_ms() - 10000, next;
    struct lane *lane = new_lane_of_length(60000);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_partition(fx.consumer, TOPIC, 0);
    int64_t open_ms = read_until_closed(lane, 1 << 20);
    assert_in_range(open_ms, began_ms + 58000, rp_wall_ms() + 59000);
    assert_int_equal(frontier_held(lane_frontier(lane)), 0);

    mock_produce(&fx.mock, TOPIC, 2);
    for (int i = 0; i < 20; i++)
        serve();
    rd_kafka_message_t *none;
    assert_int_equal(rd_kafka_consume_batch_queue(queue, 0, &none, 1), 0);
    assert_false(lane_is_emptied(lane, &next)); /* so it does not count as stalled */
    assert_false(lane_is_emptied(lane, &next));
    read_once(lane, open_ms - 1, 1 << 20);
    assert_int_equal(frontier_held(lane_frontier(lane)), 0);
    assert_int_equal(lane_read_at_ms(lane), open_ms);

    read_at(lane, open_ms + 60000, 12);
    assert_int_equal(frontier_held(lane_frontier(lane)), 12);
    rd_kafka_queue_destroy(queue);
    lane_free(lane);
}

/* So that a few tasks that wait for long are not fetched again and again. */
static void a_lane_reads_ahead_as_much_as_it_may(void **state)
{
    (void)state;
    struct lane *lane = new_lane_of_length(4000);
    int64_t open_ms = read_until_closed(lane, 300);
    size_t held = frontier_held(lane_frontier(lane));
    assert_in_range(held, 1, 8);
    for (int i = 0; i < MOST_POLLS && frontier_held(lane_frontier(lane)) < 10; i++)
        read_once(lane, open_ms + 600, 300); /* the first has to be read: there is room again */
    assert_int_equal(frontier_held(lane_frontier(lane)), 10);
    lane_let_go(lane);
    take_over(lane, 0);
    for (int i = 0; i < MOST_POLLS && frontier_held(lane_frontier(lane)) < 10; i++)
        read_once(lane, rp_wall_ms(), 1 << 20);
    assert_int_equal(frontier_held(lane_frontier(lane)), 10);
    lane_free(lane);
}

/* A group may give a member what one of this name had subscribed to before. */
static void a_partition_of_no_tier_is_left_alone(void **state)
{
    (void)state;
    struct rp_error err;
    struct lanes l = {
        .config = &fx.config, .consumer = fx.consumer, .hold = fx.hold, .wake_fd = fx.wake_fd};
    rd_kafka_topic_partition_list_t *parts = mock_at("stranger", 0);
    rd_kafka_topic_partition_list_add(parts, TOPIC, 0);
    assert_int_equal(lanes_add(&l, parts, &err), 0);
    assert_int_equal(l.all, 1);
    assert_string_equal(lane_topic(l.items[0]), TOPIC);
    lanes_remove(&l, parts);
    assert_int_equal(l.all, 0);
    lanes_clear(&l);
    rd_kafka_topic_partition_list_destroy(parts);
}

static void produce_due(int64_t due_ms)
{
    char text[RP_UNIT_TEXT];
    assert_int_equal(
        rd_kafka_producev(fx.mock.producer, RD_KAFKA_V_TOPIC(TOPIC),
                          RD_KAFKA_V_HEADER(RP_HDR_DUE, rp_format_int(due_ms, text), -1),
                          RD_KAFKA_V_END),
        0);
}

/* Reads what comes, up to `offset`; returns how far it came. */
static int64_t read_lanes(struct lanes *l, bool behind, int64_t offset, int polls)
{
    struct rp_error err;
    for (int i = 0; i < polls && frontier_high(lane_frontier(l->items[0])) < offset; i++) {
        serve();
        assert_int_equal(lanes_read(l, behind, &err), 0);
    }
    return frontier_high(lane_frontier(l->items[0]));
}

/* While more is due than a batch takes. */
static int64_t read_behind(struct lanes *l, int64_t offset, int polls)
{
    return read_lanes(l, true, offset, polls);
}

/* One that is overdue comes behind eleven that were read, and `more`; then two, which are left. */
static void check_left_alone(struct lanes *l, int more)
{
    produce_due(1);
    mock_produce(&fx.mock, TOPIC, more);
    assert_true(read_behind(l, 12, MOST_POLLS) >= 12);
    int64_t high = frontier_high(lane_frontier(l->items[0]));
    mock_produce(&fx.mock, TOPIC, 2);
    assert_int_equal(read_behind(l, 14 + more, 30), high);
}

/* The rest of its backlog waits in the log. Who has nothing overdue is read: what comes may be due
 * before what is held. */
static void who_holds_a_batch_that_is_overdue_is_left_alone(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    struct lanes l = {.config = &fx.config, .hold = fx.hold, .items = &lane, .n = 1};
    fx.config.max_held = 1000;
    fx.config.delayer.batch = 5;
    fx.config.memory_bytes = 32 << 20;
    mock_assign(fx.consumer, TOPIC);
    take_over(lane, 0);
    read_to(lane, 10);
    mock_produce(&fx.mock, TOPIC, 1);
    assert_int_equal(read_behind(&l, 11, MOST_POLLS), 11);

    check_left_alone(&l, 2);
    fx.config.delayer.batch = 500;
    assert_int_equal(read_behind(&l, 16, MOST_POLLS), 16);
    rp_arena_clear(&l.headers);
    lane_free(lane);
}

/* What is read would only be spilled. Who is not behind has sent what is due, and takes a batch
 * more at a time. */
static void who_has_something_overdue_is_left_alone_where_memory_is_scarce(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    struct lanes l = {.config = &fx.config, .hold = fx.hold, .items = &lane, .n = 1};
    fx.config.max_held = 1000;
    fx.config.delayer.batch = 500;
    fx.config.memory_bytes = 1 << 20; /* of which a segment is as much */
    mock_assign(fx.consumer, TOPIC);
    take_over(lane, 10);
    produce_due(rp_wall_ms() + 9000);
    assert_int_equal(read_behind(&l, 11, MOST_POLLS), 11);
    check_left_alone(&l, 1);
    assert_int_equal(read_lanes(&l, false, 15, MOST_POLLS), 15);
    mock_produce(&fx.mock, TOPIC, 2);
    fx.config.memory_bytes = 32 << 20;
    assert_int_equal(read_behind(&l, 17, MOST_POLLS), 17);
    rp_arena_clear(&l.headers);
    lane_free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, lane_set_up, lane_tear_down)
        TEST(a_tier_that_is_shorter_than_the_slack_is_read_as_it_comes),
        TEST(nothing_is_fetched_of_what_must_wait_for_long),
        TEST(a_lane_reads_ahead_as_much_as_it_may),
        TEST(a_partition_of_no_tier_is_left_alone),
        TEST(who_holds_a_batch_that_is_overdue_is_left_alone),
        TEST(who_has_something_overdue_is_left_alone_where_memory_is_scarce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
