/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arrivals.h"
#include "kafka.h"
#include "mock_fixture.h"

#define TOPIC        "events"
#define COMMITTED    3
#define POLL_MS      10
#define MOST_POLLS   3000
#define BIG          900000
#define RECALLED_BIG 5 /* more than 4 MiB */

static struct rp_config config = {.topics = {.failed_tasks = (char[]){TOPIC}}};
static struct mock mock;
static rd_kafka_t *consumer;
static struct arrivals *arrivals;
static struct positions positions;
static bool busy; /* records come all the while */
static int ends;  /* that were reported */
static struct log_cut cut;

int64_t __wrap_rp_mono_ms(void);
int64_t __real_rp_mono_ms(void);
static int64_t passed_ms;

int64_t __wrap_rp_mono_ms(void)
{
    return __real_rp_mono_ms() + passed_ms;
}

rd_kafka_resp_err_t __wrap_rd_kafka_query_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                            int32_t partition, int64_t *low,
                                                            int64_t *high, int timeout_ms);
rd_kafka_resp_err_t __real_rd_kafka_query_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                            int32_t partition, int64_t *low,
                                                            int64_t *high, int timeout_ms);
static int queries; /* where a log ends */

rd_kafka_resp_err_t __wrap_rd_kafka_query_watermark_offsets(rd_kafka_t *rk, const char *topic,
                                                            int32_t partition, int64_t *low,
                                                            int64_t *high, int timeout_ms)
{
    queries++;
    return __real_rd_kafka_query_watermark_offsets(rk, topic, partition, low, high, timeout_ms);
}

static void commit(int64_t offset)
{
    rd_kafka_topic_partition_list_t *committed = mock_at(TOPIC, offset);
    assert_int_equal(rd_kafka_commit(consumer, committed, 0), 0);
    rd_kafka_topic_partition_list_destroy(committed);
}

static int set_up(void **state)
{
    struct rp_error err;
    (void)state;
    mock_start(&mock, 2, TOPIC);
    consumer = mock_consumer(&mock, "group");
    busy = false;
    ends = 0;
    cut = (struct log_cut){0};
    passed_ms = 0;
    mock_produce(&mock, TOPIC, 10);
    commit(COMMITTED);
    /* So that it knows the partition's leader, as a consumer does that has run for a while. */
    int64_t low, high;
    assert_int_equal(rd_kafka_query_watermark_offsets(consumer, TOPIC, 0, &low, &high, 10000), 0);
    return arrivals_new(&config, consumer, "group", &positions, &arrivals, &err);
}

static int tear_down(void **state)
{
    (void)state;
    arrivals_free(arrivals);
    positions_clear(&positions);
    rd_kafka_destroy(consumer);
    mock_stop(&mock);
    return 0;
}

static void assign(bool recall)
{
    struct rp_error err;
    mock_assign(consumer, TOPIC);
    assert_int_equal(arrivals_add(arrivals, 0, recall, &err), 0);
}

/* The offset of what comes, if that is to be read on or recalled, else -1; `kind` says which. */
static int64_t poll_once(enum arrival *kind)
{
    int64_t offset = -1;
    const struct log_cut *found = arrivals_serve(arrivals);
    if (found != NULL)
        cut = *found;
    rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
    if (m == NULL)
        return -1;
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        arrivals_end_met(arrivals, m);
        ends++;
    }
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        *kind = arrivals_take(arrivals, m);
        offset = *kind == ARRIVAL_DROP ? -1 : m->offset;
    }
    rd_kafka_message_destroy(m);
    return offset;
}

static int64_t next(enum arrival *kind)
{
    for (int i = 0; i < MOST_POLLS; i++) {
        mock_produce(&mock, TOPIC, busy);
        int64_t offset = poll_once(kind);
        if (offset >= 0)
            return offset;
    }
    fail_msg("no record came");
    return -1;
}

static void meet_end(void)
{
    enum arrival kind;
    int before = ends;
    for (int i = 0; i < MOST_POLLS && ends == before; i++)
        assert_int_equal(poll_once(&kind), -1);
    assert_true(ends > before);
}

static void a_partition_begins_at_its_committed_offset(void **state)
{
    enum arrival kind;
    (void)state;
    assign(false);
    for (int64_t offset = COMMITTED; offset < 10; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_NONE);
    }
}

static void what_lies_before_it_is_recalled(void **state)
{
    enum arrival kind;
    (void)state;
    assign(true);
    for (int64_t offset = 0; offset < 10; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, offset < COMMITTED ? ARRIVAL_RECALL : ARRIVAL_NONE);
    }
}

/* It asks again for an end that it was told of too late, or by another leader, and goes there: past
 * all that lies between. */
static void librdkafka_is_not_asked_where_anything_begins_or_ends(void **state)
{
    enum arrival kind;
    (void)state;
    rd_kafka_mock_start_request_tracking(mock.cluster);
    busy = true;
    assign(true);
    for (int64_t offset = 0; offset < 120; offset++)
        assert_int_equal(next(&kind), offset);
    assert_true(mock_requests(&mock, MOCK_FETCH) > 0);
    assert_int_equal(mock_requests(&mock, MOCK_LIST_OFFSETS), 0);
}

/* There may be nothing at offset 0 any more, and librdkafka would go to the log's beginning. */
static void nothing_is_fetched_before_the_offset_is_known(void **state)
{
    (void)state;
    rd_kafka_mock_start_request_tracking(mock.cluster);
    for (int i = 0; i < 20; i++) {
        mock_assign(consumer, TOPIC);
        rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, POLL_MS);
        assert_null(m);
        assert_int_equal(rd_kafka_assign(consumer, NULL), 0);
    }
    assert_int_equal(mock_requests(&mock, MOCK_FETCH), 0);
}

static void recall_cut_log(int64_t committed)
{
    enum arrival kind;
    commit(committed);
    assign(true);
    for (int64_t offset = 0; offset < 10; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_RECALL);
    }
    meet_end();
}

/* An unclean election, or somebody who made the topic anew. */
static void a_log_that_was_cut_is_read_on_after_a_while(void **state)
{
    enum arrival kind;
    (void)state;
    recall_cut_log(1000);
    mock_produce(&mock, TOPIC, 1);
    assert_int_equal(next(&kind), 10);
    assert_int_equal(kind, ARRIVAL_RECALL); /* its end may only lag */
    passed_ms = 61000;
    for (int64_t offset = 0; offset < 11; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_NONE);
    }
    assert_int_equal(cut.from, 11);
    assert_int_equal(cut.expected, 1000);
}

static void an_end_that_only_lagged_cuts_nothing(void **state)
{
    enum arrival kind;
    (void)state;
    recall_cut_log(12);
    mock_produce(&mock, TOPIC, 3);
    passed_ms = 61000;
    for (int64_t offset = 10; offset < 13; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, offset < 12 ? ARRIVAL_RECALL : ARRIVAL_NONE);
    }
    assert_int_equal(cut.expected, 0);
}

static void produce_big(int n)
{
    static char big[BIG];
    while (n-- > 0)
        assert_int_equal(rd_kafka_producev(mock.producer, RD_KAFKA_V_TOPIC(TOPIC),
                                           RD_KAFKA_V_VALUE(big, sizeof big), RD_KAFKA_V_END),
                         0);
    assert_int_equal(rd_kafka_flush(mock.producer, 60000), 0);
}

/* What would be recalled instead of so many bytes may lie behind the end. */
static void a_log_of_large_records_that_was_cut_is_read_on_after_a_while(void **state)
{
    enum arrival kind;
    (void)state;
    produce_big(RECALLED_BIG);
    commit(10010); /* the recall begins with them */
    assign(true);
    for (int64_t offset = 10; offset < 10 + RECALLED_BIG; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_RECALL);
    }
    meet_end();
    passed_ms = 61000;
    assert_int_equal(next(&kind), 10);
    assert_int_equal(kind, ARRIVAL_NONE);
}

/* After each 4 MiB it goes on with as many records as these were, where that is a step forward:
 * what lies next to the committed offset is recalled, however large it is. */
static void of_large_records_the_last_ones_are_recalled(void **state)
{
    enum arrival kind;
    int64_t offset;
    (void)state;
    produce_big(17);
    commit(27);
    assign(true);
    /* 4 MiB are 15 records first, the small ones too, and only 12 are left. Then they are 5. */
    for (offset = 0; offset < 10 + 2 * RECALLED_BIG; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_RECALL);
    }
    for (offset = 27 - RECALLED_BIG; offset < 27; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_RECALL);
    }
    mock_produce(&mock, TOPIC, 1);
    assert_int_equal(next(&kind), 27);
    assert_int_equal(kind, ARRIVAL_NONE);
}

/* A few large ones say little about those behind them. */
static void of_small_records_behind_large_ones_half_is_recalled(void **state)
{
    enum arrival kind;
    int64_t offset;
    (void)state;
    produce_big(RECALLED_BIG);
    mock_produce(&mock, TOPIC, 200);
    commit(215);
    assign(true);
    for (offset = 0; offset < 15; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_RECALL);
    }
    for (offset = 115; offset < 215; offset++) {
        assert_int_equal(next(&kind), offset);
        assert_int_equal(kind, ARRIVAL_RECALL);
    }
    mock_produce(&mock, TOPIC, 1);
    assert_int_equal(next(&kind), 215);
    assert_int_equal(kind, ARRIVAL_NONE);
}

/* A broker that does not answer holds the worker up for each. */
static void one_look_at_an_end_is_taken_a_call(void **state)
{
    struct rp_error err;
    (void)state;
    arrivals_free(arrivals);
    assert_int_equal(rd_kafka_mock_topic_create(mock.cluster, "wide", 2, 2), 0);
    const struct rp_config wide = {.topics = {.failed_tasks = (char[]){"wide"}}};
    assert_int_equal(arrivals_new(&wide, consumer, "group", &positions, &arrivals, &err), 0);
    rd_kafka_topic_partition_list_t *both = mock_at("wide", 1000);
    rd_kafka_topic_partition_list_add(both, "wide", 1)->offset = 1000;
    assert_int_equal(rd_kafka_commit(consumer, both, 0), 0);
    for (int32_t i = 0; i < 2; i++)
        assert_int_equal(arrivals_add(arrivals, i, true, &err), 0);
    rp_kafka_hold(consumer, both);
    assert_int_equal(rd_kafka_assign(consumer, both), 0);
    rd_kafka_topic_partition_list_destroy(both);
    for (int i = 0; i < 2; i++)
        meet_end();
    passed_ms = 61000;
    queries = 0;
    arrivals_serve(arrivals);
    assert_int_equal(queries, 1);
    arrivals_serve(arrivals);
    assert_int_equal(queries, 2);
    arrivals_serve(arrivals);
    assert_int_equal(queries, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_partition_begins_at_its_committed_offset),
        TEST(what_lies_before_it_is_recalled),
        TEST(librdkafka_is_not_asked_where_anything_begins_or_ends),
        TEST(nothing_is_fetched_before_the_offset_is_known),
        TEST(a_log_that_was_cut_is_read_on_after_a_while),
        TEST(one_look_at_an_end_is_taken_a_call),
        TEST(a_log_of_large_records_that_was_cut_is_read_on_after_a_while),
        TEST(of_large_records_the_last_ones_are_recalled),
        TEST(of_small_records_behind_large_ones_half_is_recalled),
        TEST(an_end_that_only_lagged_cuts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
