/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "lane_fixture.h"
#include "log.h"

static int n_lost, n_queries;
static int64_t log_begin, written_anew_from = INT64_MAX;

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

int32_t __wrap_rd_kafka_message_leader_epoch(const rd_kafka_message_t *m);

int32_t __wrap_rd_kafka_message_leader_epoch(const rd_kafka_message_t *m)
{
    return m->offset >= written_anew_from ? 6 : 5;
}

/* What was fetched for an earlier assignment stays in the queue until somebody takes it out. */
static void what_is_left_of_an_earlier_assignment_is_not_read(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    rd_kafka_topic_partition_list_t *first = mock_at(TOPIC, 0);
    assert_int_equal(rd_kafka_assign(fx.consumer, first), 0);
    rd_kafka_topic_partition_list_destroy(first);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_partition(fx.consumer, TOPIC, 0);
    for (int i = 0; i < MOST_POLLS && rd_kafka_queue_length(queue) < 10; i++)
        serve();
    assert_true(rd_kafka_queue_length(queue) >= 10); /* else this shows nothing */
    lane_free(lane);
    assert_int_equal(rd_kafka_assign(fx.consumer, NULL), 0);

    lane = new_lane();
    mock_assign(fx.consumer, TOPIC);
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
    rd_kafka_mock_start_request_tracking(fx.mock.cluster);
    mock_assign(fx.consumer, TOPIC);
    take_over(lane, 3);
    read_to(lane, 10);
    assert_true(mock_requests(&fx.mock, MOCK_FETCH) > 0);
    assert_int_equal(mock_requests(&fx.mock, MOCK_LIST_OFFSETS), 0);
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
        mock_assign(fx.consumer, TOPIC);
        take_over(lane, RD_KAFKA_OFFSET_INVALID);
        assert_int_equal(n_lost, 0);
        read_to(lane, 10);
        assert_int_equal(n_lost, log_begin);
        lane_free(lane);
        assert_int_equal(rd_kafka_assign(fx.consumer, NULL), 0);
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
    mock_assign(fx.consumer, TOPIC);
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
    rd_kafka_error_t *error = rd_kafka_seek_partitions(fx.consumer, at, POLL_MS * MOST_POLLS);
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
    mock_assign(fx.consumer, TOPIC);
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
    assert_int_equal(rd_kafka_assign(fx.consumer, NULL), 0);
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
    mock_assign(fx.consumer, TOPIC);
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
    mock_produce(&fx.mock, TOPIC, 5);
    written_anew_from = 12;
    read_again_from(12);
    read_to(lane, 15);
    assert_int_equal(frontier_held(lane_frontier(lane)), 15);
    mock_produce(&fx.mock, TOPIC, 5);
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
        hold_drop(fx.hold, entry.handle);
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
    mock_assign(fx.consumer, TOPIC);
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

/* The log was cut behind its end, where no record was read: what comes has the old one's offsets. */
static void what_was_settled_of_another_log_deletes_nothing(void **state)
{
    (void)state;
    struct lane *lane = new_lane();
    mock_assign(fx.consumer, TOPIC);
    take_over_with(lane, 10, "reprise/1 high=10 settled=- reach=0:10000");
    int64_t offset = -1;
    for (int i = 0; i < MOST_POLLS && offset < 0; i++, offset = lane_trim_to(lane, false))
        read_once(lane, INT64_MAX, 0);
    assert_int_equal(offset, 10);
    n_lost = 0;
    read_again_from(5);
    for (int i = 0; i < MOST_POLLS && n_lost == 0; i++)
        read_once(lane, INT64_MAX, 0);
    read_to(lane, 10);
    assert_int_equal(n_lost, 1);
    assert_int_equal(frontier_low(lane_frontier(lane)), 5);
    assert_int_equal(lane_trim_to(lane, true), -1);
    lane_free(lane);
}

static void what_no_state_says_to_be_settled_is_not_deleted(void **state)
{
    (void)state;
    static const int64_t offsets[] = {3, 50, RD_KAFKA_OFFSET_INVALID};
    static const char *const texts[] = {"", "reprise/1 high=50 settled=- reach=0:10000", ""};
    struct lane *lane = new_lane();
    mock_assign(fx.consumer, TOPIC);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, lane_set_up, lane_tear_down)
        TEST(what_is_left_of_an_earlier_assignment_is_not_read),
        TEST(librdkafka_is_not_asked_where_anything_begins_or_ends),
        TEST(that_state_was_lost_is_told_with_the_first_record),
        TEST(that_a_log_begins_before_the_committed_offset_is_told),
        TEST(what_a_later_leader_wrote_where_the_log_was_cut_is_unsettled),
        TEST(what_comes_again_is_no_sign_of_a_cut),
        TEST(what_a_later_leader_comes_behind_is_looked_for),
        TEST(what_was_settled_by_the_last_owner_can_be_deleted),
        TEST(what_was_settled_of_another_log_deletes_nothing),
        TEST(only_what_is_committed_is_deleted),
        TEST(what_no_state_says_to_be_settled_is_not_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
