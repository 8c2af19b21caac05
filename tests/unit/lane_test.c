/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "lanes.h"
#include "log.h"
#include "mock_fixture.h"
#include "reprise/task.h"
#include "units.h"

#define TOPIC      "tier"
#define POLL_MS    10
#define MOST_POLLS 3000

static int n_lost, n_queries;
static int64_t log_begin, written_anew_from = INT64_MAX;
static bool true_epochs;

void __wrap_rp_log_fields(enum rp_log_level level, const char *event,
                          const struct rp_field *fields);
rd_kafka_resp_err_t __wrap_rd_kafka_query_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                            int32_t partition, int64_t *low,
                                                            int64_t *high, int timeout_ms);
rd_kafka_resp_err_t __wrap_rd_kafka_get_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                          int32_t partition, int64_t *low,
                                                          int64_t *high);

void __wrap_rp_log_fields(enum rp_log_level level, const char *event, const struct rp_field *fields)
{
    (void)level;
    (void)fields;
    n_lost += strcmp(event, "state-lost") == 0;
}

rd_kafka_resp_err_t __wrap_rd_kafka_query_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                            int32_t partition, int64_t *low,
                                                            int64_t *high, int timeout_ms)
{
    (void)rk;
    (void)topic;
    (void)partition;
    (void)low;
    (void)high;
    (void)timeout_ms;
    n_queries++;
    return RD_KAFKA_RESP_ERR__TIMED_OUT;
}

/* The mock cuts no logs. */
rd_kafka_resp_err_t __wrap_rd_kafka_get_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                          int32_t partition, int64_t *low,
                                                          int64_t *high)
{
    (void)rk;
    (void)topic;
    (void)partition;
    *low = log_begin;
    *high = 10;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

int32_t __real_rd_kafka_message_leader_epoch(const rd_kafka_message_t *m);
int32_t __wrap_rd_kafka_message_leader_epoch(const rd_kafka_message_t *m);

int32_t __wrap_rd_kafka_message_leader_epoch(const rd_kafka_message_t *m)
{
    if (true_epochs)
        return __real_rd_kafka_message_leader_epoch(m);
    return m->offset >= written_anew_from ? 6 : 5;
}

static struct rp_config config = {
    .tiers = {{.topic = (char[]){TOPIC}, .length_ms = 1000, .reach_ms = 10000}}, .n_tiers = 1};
static struct rp_config before;
static struct mock mock;
static rd_kafka_t *consumer;
static int wake_fd;
static struct hold *hold;

static int set_up(void **state)
{
    struct rp_error err;
    (void)state;
    before = config;
    mock_start(&mock, 1, TOPIC);
    consumer = mock_consumer(&mock, "group");
    wake_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(wake_fd >= 0);
    mock_produce(&mock, TOPIC, 10);
    return hold_new(1 << 20, "/tmp", &hold, &err);
}

static int tear_down(void **state)
{
    (void)state;
    config = before;
    true_epochs = false;
    hold_free(hold);
    rd_kafka_destroy(consumer);
    mock_stop(&mock);
    (void)close(wake_fd);
    return 0;
}

static struct lane *new_lane(void)
{
    struct rp_error err;
    struct lane *lane;
    assert_int_equal(lane_new(consumer, &config, TOPIC, 0, wake_fd, hold, &lane, &err), 0);
    return lane;
}

static void serve(void)
{
    rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
    if (m != NULL)
        rd_kafka_message_destroy(m);
}

static void take_over_with(struct lane *lane, int64_t offset, const char *metadata)
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

static void take_over(struct lane *lane, int64_t offset)
{
    take_over_with(lane, offset, "");
}

static struct lane *begun_lane(int64_t offset)
{
    struct lane *lane = new_lane();
    mock_assign(consumer, TOPIC);
    take_over(lane, offset);
    return lane;
}

static void read_once(struct lane *lane, int64_t now_ms, size_t most_ahead)
{
    struct rp_error err;
    struct rp_arena arena = {0};
    serve();
    assert_true(lane_read(lane, now_ms, 100, most_ahead, &arena, &err) >= 0);
    rp_arena_clear(&arena);
}

static void read_at(struct lane *lane, int64_t now_ms, int64_t offset)
{
    for (int i = 0; i < MOST_POLLS && frontier_high(lane_frontier(lane)) != offset; i++)
        read_once(lane, now_ms, 0);
    assert_int_equal(frontier_high(lane_frontier(lane)), offset);
}

static void read_to(struct lane *lane, int64_t offset)
{
    read_at(lane, INT64_MAX, offset);
}

/* What was fetched for an earlier assignment stays in the queue until somebody takes it out. */
static void what_is_left_of_an_earlier_assignment_is_not_read(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    rd_kafka_topic_partition_list_t *first = mock_at(TOPIC, 0);
    assert_int_equal(rd_kafka_assign(consumer, first), 0);
    rd_kafka_topic_partition_list_destroy(first);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_partition(consumer, TOPIC, 0);
    for (int i = 0; i < MOST_POLLS && rd_kafka_queue_length(queue) < 10; i++)
        serve();
    assert_true(rd_kafka_queue_length(queue) >= 10); /* else this shows nothing */
    lane_free(lane);
    assert_int_equal(rd_kafka_assign(consumer, NULL), 0);

    lane = new_lane();
    mock_assign(consumer, TOPIC);
    take_over(lane, 3);
    read_to(lane, 10);
    assert_int_equal(frontier_held(lane_frontier(lane)), 7);
    rd_kafka_queue_destroy(queue);
    lane_free(lane);
}

/* It goes where it is told to, later, past all that was not read. */
static void librdkafka_is_not_asked_where_anything_begins_or_ends(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    rd_kafka_mock_start_request_tracking(mock.cluster);
    mock_assign(consumer, TOPIC);
    take_over(lane, 3);
    read_to(lane, 10);
    assert_true(mock_requests(&mock, MOCK_FETCH) > 0);
    assert_int_equal(mock_requests(&mock, MOCK_LIST_OFFSETS), 0);
    lane_free(lane);
}

/* The broker would be asked by the worker's thread, a partition after the other. What was fetched
 * says as much. */
static void that_state_was_lost_is_told_with_the_first_record(void **state)
{
    (void)state;
    n_queries = 0;
    for (log_begin = 0; log_begin < 2; log_begin++) {
        struct lane *lane = new_lane();
        n_lost = 0;
        mock_assign(consumer, TOPIC);
        take_over(lane, RD_KAFKA_OFFSET_INVALID);
        assert_int_equal(n_lost, 0);
        read_to(lane, 10);
        assert_int_equal(n_lost, log_begin);
        lane_free(lane);
        assert_int_equal(rd_kafka_assign(consumer, NULL), 0);
    }
    assert_int_equal(n_queries, 0);
}

/* The topic was made anew. */
static void that_a_log_begins_before_the_committed_offset_is_told(void **state)
{
    (void)state;
    static const char at_3[] = "reprise/1 high=3 settled=- reach=0:10000",
                      at_50[] = "reprise/1 high=50 settled=- reach=0:10000";
    struct lane *lane = new_lane();
    n_lost = 0;
    mock_assign(consumer, TOPIC);
    take_over_with(lane, 3, at_3);
    read_to(lane, 10);
    lane_let_go(lane);
    assert_int_equal(n_lost, 0);
    take_over_with(lane, 50, at_50);
    read_to(lane, 10);
    assert_int_equal(n_lost, 1);
    lane_free(lane);
}

static void read_again_from(int64_t offset)
{
    rd_kafka_topic_partition_list_t *at = mock_at(TOPIC, offset);
    rd_kafka_error_t *error = rd_kafka_seek_partitions(consumer, at, POLL_MS * MOST_POLLS);
    assert_null(error);
    rd_kafka_topic_partition_list_destroy(at);
}

static void read_until_cut(struct lane *lane, int most)
{
    for (int i = 0; i < most && !lane_is_cut(lane); i++)
        read_once(lane, INT64_MAX, 0);
}

/* `committed`: what the last owner, or this one, had settled of the old log. */
static void check_cut(int64_t cut_at, int64_t committed, const char *metadata, int64_t low,
                      size_t held)
{
    struct lane *lane = new_lane();
    mock_assign(consumer, TOPIC);
    take_over_with(lane, committed, metadata);
    read_to(lane, 10);
    written_anew_from = cut_at;
    read_again_from(cut_at);
    read_until_cut(lane, MOST_POLLS);
    assert_true(lane_is_cut(lane));
    assert_false(lane_was_cut(lane));
    lane_let_go(lane);
    take_over_with(lane, committed, metadata);
    assert_true(lane_was_cut(lane));
    read_to(lane, 10);
    assert_false(lane_is_cut(lane)); /* by the same records */
    assert_int_equal(frontier_low(lane_frontier(lane)), low);
    assert_int_equal(frontier_held(lane_frontier(lane)), held);
    assert_false(frontier_recovering(lane_frontier(lane)));
    lane_cut_committed(lane);
    lane_let_go(lane);
    assert_false(lane_was_cut(lane));
    written_anew_from = INT64_MAX;
    lane_free(lane);
    assert_int_equal(rd_kafka_assign(consumer, NULL), 0);
}

static void what_a_later_leader_wrote_where_the_log_was_cut_is_unsettled(void **state)
{
    (void)state;
    static const char at_9[] = "reprise/1 high=9 settled=- reach=0:10000";
    static const char all_but_3[] = "reprise/1 high=9 settled=9223372036854775806:8 reach=0:10000";
    check_cut(6, 9, at_9, 6, 4);      /* from there on, also what had been settled */
    check_cut(6, 3, all_but_3, 6, 4); /* 3 to 5 are settled as before */
    check_cut(6, 3, at_9, 3, 7);
}

static void what_comes_again_is_no_sign_of_a_cut(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    mock_assign(consumer, TOPIC);
    written_anew_from = 5; /* long ago */
    take_over(lane, 0);
    read_to(lane, 10);
    read_again_from(3);
    read_until_cut(lane, 20);
    assert_false(lane_is_cut(lane));
    assert_int_equal(frontier_held(lane_frontier(lane)), 10);
    written_anew_from = INT64_MAX;
    lane_free(lane);
}

/* librdkafka goes to where a log was cut, also past what it had not handed out. */
static void what_a_later_leader_comes_behind_is_looked_for(void **state)
{
    (void)state;
    struct lane *lane = begun_lane(0);
    read_to(lane, 10);
    mock_produce(&mock, TOPIC, 5);
    written_anew_from = 12;
    read_again_from(12);
    read_to(lane, 15);
    assert_int_equal(frontier_held(lane_frontier(lane)), 15);
    mock_produce(&mock, TOPIC, 5);
    read_again_from(17); /* a gap that the same leader leaves is one */
    read_to(lane, 20);
    assert_int_equal(frontier_held(lane_frontier(lane)), 18);
    assert_false(lane_is_cut(lane));
    written_anew_from = INT64_MAX;
    lane_free(lane);
}

static void settle(struct lane *lane, int n)
{
    struct frontier_entry entry;
    while (n-- > 0) {
        assert_true(frontier_peek(lane_frontier(lane), &entry));
        hold_drop(hold, entry.handle);
        frontier_take(lane_frontier(lane));
    }
    frontier_send_off(lane_frontier(lane));
    frontier_settled(lane_frontier(lane));
    lane_set_settled(lane);
}

/* Its last owner may have failed to delete it, or had no time to. */
static void what_was_settled_by_the_last_owner_can_be_deleted(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    mock_assign(consumer, TOPIC);
    take_over_with(lane, 3, "reprise/1 high=3 settled=- reach=0:10000");
    assert_int_equal(lane_trim_to(lane, false), -1);
    read_to(lane, 10);
    assert_int_equal(lane_trim_to(lane, false), 3);
    assert_int_equal(lane_trim_to(lane, false), -1);
    assert_int_equal(lane_trim_to(lane, true), 3);
    lane_let_go(lane);
    take_over_with(lane, 10, "reprise/1 high=10 settled=- reach=0:10000");
    int64_t offset = -1;
    for (int i = 0; i < MOST_POLLS && offset < 0; i++, offset = lane_trim_to(lane, false))
        read_once(lane, INT64_MAX, 0);
    assert_int_equal(offset, 10);
    lane_free(lane);
}

static void what_no_state_says_to_be_settled_is_not_deleted(void **state)
{
    (void)state;
    static const int64_t offsets[] = {3, 50, RD_KAFKA_OFFSET_INVALID};
    static const char *const texts[] = {"", "reprise/1 high=50 settled=- reach=0:10000", ""};
    struct lane *lane = new_lane();
    mock_assign(consumer, TOPIC);
    for (int i = 0; i < 3; i++) {
        take_over_with(lane, offsets[i], texts[i]);
        read_to(lane, 10);
        assert_int_equal(lane_trim_to(lane, true), -1);
        lane_let_go(lane);
    }
    lane_free(lane);
}

/* However often more is settled meanwhile. */
static void only_what_is_committed_is_deleted(void **state)
{
    (void)state;
    struct lane *lane = begun_lane(0);
    read_to(lane, 10);
    settle(lane, 4);
    lane_set_committing(lane);
    assert_int_equal(lane_trim_to(lane, false), -1);
    settle(lane, 3);
    lane_commit_answered(lane, false);
    assert_int_equal(lane_trim_to(lane, false), 4);
    assert_true(lane_is_dirty(lane));
    lane_set_committing(lane);
    lane_commit_answered(lane, true);
    assert_int_equal(lane_trim_to(lane, false), -1);
    assert_true(lane_is_dirty(lane));
    lane_set_committed(lane);
    assert_int_equal(lane_trim_to(lane, false), 7);
    assert_false(lane_is_dirty(lane));
    lane_free(lane);
}

/* Beside a shorter tier. */
static struct lane *new_lane_of_length(int64_t length_ms)
{
    static char topic[] = TOPIC, shorter[] = "t";
    config.tiers[1] =
        (struct rp_tier){.topic = topic, .length_ms = length_ms, .reach_ms = 10 * length_ms};
    config.tiers[0] = (struct rp_tier){.topic = shorter, .length_ms = 100, .reach_ms = 500};
    config.n_tiers = 2;
    config.slack_ms = 1000;
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
    true_epochs = true;
    struct lane *lane = new_lane_of_length(60000);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_partition(consumer, TOPIC, 0);
    int64_t open_ms = read_until_closed(lane, 1 << 20);
    assert_in_range(open_ms, began_ms + 58000, rp_wall_ms() + 59000);
    assert_int_equal(frontier_held(lane_frontier(lane)), 0);

    mock_produce(&mock, TOPIC, 2);
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
    true_epochs = true;
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
    struct lanes l = {.config = &config, .consumer = consumer, .hold = hold, .wake_fd = wake_fd};
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
        rd_kafka_producev(mock.producer, RD_KAFKA_V_TOPIC(TOPIC),
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

/* The rest of its backlog waits in the log. Who has nothing overdue is read: what comes may be due
 * before what is held. */
static void who_holds_a_batch_that_is_overdue_is_left_alone(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    struct lanes l = {.config = &config, .hold = hold, .items = &lane, .n = 1};
    config.max_held = 1000;
    config.delayer.batch = 5;
    config.memory_bytes = 32 << 20;
    mock_assign(consumer, TOPIC);
    take_over(lane, 0);
    read_to(lane, 10);
    mock_produce(&mock, TOPIC, 1);
    assert_int_equal(read_behind(&l, 11, MOST_POLLS), 11);

    produce_due(1);
    mock_produce(&mock, TOPIC, 2);
    assert_true(read_behind(&l, 12, MOST_POLLS) >= 12);
    int64_t high = frontier_high(lane_frontier(lane));
    mock_produce(&mock, TOPIC, 2);
    assert_int_equal(read_behind(&l, 16, 30), high);
    config.delayer.batch = 500;
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
    struct lanes l = {.config = &config, .hold = hold, .items = &lane, .n = 1};
    config.max_held = 1000;
    config.delayer.batch = 500;
    config.memory_bytes = 1 << 20; /* of which a segment is as much */
    mock_assign(consumer, TOPIC);
    take_over(lane, 10);
    produce_due(rp_wall_ms() + 9000);
    assert_int_equal(read_behind(&l, 11, MOST_POLLS), 11);
    produce_due(1);
    mock_produce(&mock, TOPIC, 1);
    assert_true(read_behind(&l, 12, MOST_POLLS) >= 12);
    int64_t high = frontier_high(lane_frontier(lane));
    mock_produce(&mock, TOPIC, 2);
    assert_int_equal(read_behind(&l, 15, 30), high);
    assert_int_equal(read_lanes(&l, false, 15, MOST_POLLS), 15);
    mock_produce(&mock, TOPIC, 2);
    config.memory_bytes = 32 << 20;
    assert_int_equal(read_behind(&l, 17, MOST_POLLS), 17);
    rp_arena_clear(&l.headers);
    lane_free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(what_is_left_of_an_earlier_assignment_is_not_read),
        TEST(librdkafka_is_not_asked_where_anything_begins_or_ends),
        TEST(that_state_was_lost_is_told_with_the_first_record),
        TEST(that_a_log_begins_before_the_committed_offset_is_told),
        TEST(what_a_later_leader_wrote_where_the_log_was_cut_is_unsettled),
        TEST(what_comes_again_is_no_sign_of_a_cut),
        TEST(what_a_later_leader_comes_behind_is_looked_for),
        TEST(what_was_settled_by_the_last_owner_can_be_deleted),
        TEST(only_what_is_committed_is_deleted),
        TEST(what_no_state_says_to_be_settled_is_not_deleted),
        TEST(a_tier_that_is_shorter_than_the_slack_is_read_as_it_comes),
        TEST(nothing_is_fetched_of_what_must_wait_for_long),
        TEST(a_lane_reads_ahead_as_much_as_it_may),
        TEST(a_partition_of_no_tier_is_left_alone),
        TEST(who_holds_a_batch_that_is_overdue_is_left_alone),
        TEST(who_has_something_overdue_is_left_alone_where_memory_is_scarce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
