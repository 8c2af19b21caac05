/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"
#include "inquiry.h"
#include "kafka.h"
#include "mock_fixture.h"

#define TOPIC       "somewhere"
#define GROUP       "a-group"
#define PATIENCE_MS 30000

enum { OFFSET_FETCH = 9 };

struct fixture {
    struct mock mock;
    struct rp_config *config;
    rd_kafka_t *client;
    struct rp_inquiry *inquiry;
};

static int set_up(void **state)
{
    static struct fixture f;
    struct rp_error err;
    mock_start(&f.mock, 3, TOPIC);
    assert_int_equal(rd_kafka_mock_coordinator_set(f.mock.cluster, "group", GROUP, 1), 0);
    f.config = mock_config(&f.mock);
    assert_int_equal(rp_kafka_new_group_client(f.config, GROUP, &f.client, &err), 0);
    assert_int_equal(rp_inquiry_new(f.config, f.client, GROUP, -1, &f.inquiry, &err), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_inquiry_free(f->inquiry);
    rd_kafka_destroy(f->client);
    rp_config_free(f->config);
    mock_stop(&f->mock);
    return 0;
}

/* Asks until there is an answer, as a worker does. */
static void assert_answered(struct fixture *f)
{
    uint64_t epoch;
    rd_kafka_topic_partition_list_t *answer = NULL;
    rd_kafka_topic_partition_list_t *parts = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(parts, TOPIC, 0);
    int64_t end_mono_ms = rp_mono_ms() + PATIENCE_MS;
    while ((answer = rp_inquiry_answer(f->inquiry, &epoch)) == NULL && rp_mono_ms() < end_mono_ms) {
        rp_inquiry_ask(f->inquiry, parts, 7);
        (void)usleep(1000);
    }
    rd_kafka_topic_partition_list_destroy(parts);
    assert_non_null(answer);
    assert_int_equal(answer->cnt, 1);
    assert_int_equal(answer->elems[0].err, RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(epoch, 7);
    rd_kafka_topic_partition_list_destroy(answer);
}

/* Asks for so long, in vain. */
static void assert_unanswered(struct fixture *f, int ms)
{
    uint64_t epoch;
    rd_kafka_topic_partition_list_t *parts = mock_at(TOPIC, 0);
    for (int64_t end_mono_ms = rp_mono_ms() + ms; rp_mono_ms() < end_mono_ms;) {
        rp_inquiry_ask(f->inquiry, parts, 7);
        assert_null(rp_inquiry_answer(f->inquiry, &epoch));
        (void)usleep(1000);
    }
    rd_kafka_topic_partition_list_destroy(parts);
}

static void the_coordinator_answers(void **state)
{
    assert_answered(*state);
    assert_answered(*state);
}

/* librdkafka asks the coordinator that it remembers, for ever. */
static void a_coordinator_that_moved_is_found_again(void **state)
{
    struct fixture *f = *state;
    assert_answered(f);
    assert_int_equal(rd_kafka_mock_coordinator_set(f->mock.cluster, "group", GROUP, 2), 0);
    assert_answered(f);
    assert_int_equal(rd_kafka_mock_coordinator_set(f->mock.cluster, "group", GROUP, 3), 0);
    assert_answered(f);
}

/* Or waits for it: that it came back does not help where librdkafka had dropped it meanwhile. */
static void a_coordinator_that_is_away_is_replaced(void **state)
{
    struct fixture *f = *state;
    assert_answered(f);
    assert_int_equal(rd_kafka_mock_broker_set_down(f->mock.cluster, 1), 0);
    assert_int_equal(rd_kafka_mock_coordinator_set(f->mock.cluster, "group", GROUP, 2), 0);
    assert_answered(f);
}

/* As one may that has yet to read what it keeps of the group: each answer costs a client. */
static void one_that_fails_again_and_again_is_asked_less_often(void **state)
{
    struct fixture *f = *state;
    assert_answered(f);
    for (int i = 0; i < 100; i++)
        rd_kafka_mock_push_request_errors(f->mock.cluster, OFFSET_FETCH, 1,
                                          RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    rd_kafka_mock_start_request_tracking(f->mock.cluster);
    assert_unanswered(f, 3000);
    assert_in_range(mock_requests(&f->mock, OFFSET_FETCH), 2, 6);
    rd_kafka_mock_clear_request_errors(f->mock.cluster, OFFSET_FETCH);
    assert_answered(f);
}

/* What was asked before is not answered any more, nor is it librdkafka's (rp_kafka_ask_offsets). */
static void one_that_comes_back_late_answers(void **state)
{
    struct fixture *f = *state;
    assert_answered(f);
    assert_int_equal(rd_kafka_mock_broker_set_down(f->mock.cluster, 1), 0);
    assert_unanswered(f, 6000);
    assert_int_equal(rd_kafka_mock_broker_set_up(f->mock.cluster, 1), 0);
    assert_answered(f);
    (void)usleep(2000000); /* the first client may find it, too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(the_coordinator_answers),
        T(a_coordinator_that_moved_is_found_again),
        T(a_coordinator_that_is_away_is_replaced),
        T(one_that_fails_again_and_again_is_asked_less_often),
        T(one_that_comes_back_late_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
