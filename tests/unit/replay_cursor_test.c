/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "clock.h"
#include "mock_fixture.h"
#include "replay_cursor.h"

#define JOB         "261121-abcdef"
#define GROUP       "reprise-replay-" JOB
#define STAMP       "a-stamp"
#define PATIENCE_MS 30000

struct fixture {
    struct mock mock;
    struct rp_config *config;
    rd_kafka_t *consumer; /* commits the cursor */
};

static int set_up(void **state)
{
    static struct fixture f;
    mock_start(&f.mock, 3, "dead-letter");
    assert_int_equal(rd_kafka_mock_coordinator_set(f.mock.cluster, "group", GROUP, 1), 0);
    f.config = mock_config(&f.mock);
    f.consumer = mock_consumer(&f.mock, GROUP);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rd_kafka_destroy(f->consumer);
    rp_config_free(f->config);
    mock_stop(&f->mock);
    return 0;
}

static void commit(struct fixture *f, int64_t next, const char *stamp)
{
    rd_kafka_topic_partition_list_t *at = rp_replay_cursor_at(f->config, next, stamp);
    assert_int_equal(rd_kafka_commit(f->consumer, at, 0), 0);
    rd_kafka_topic_partition_list_destroy(at);
}

/* Reads until there is an answer, as who runs a job does. */
static int64_t read_cursor(struct fixture *f)
{
    struct rp_error err;
    int64_t next = -2, end_mono_ms = rp_mono_ms() + PATIENCE_MS;
    while (rp_replay_cursor_read(f->config, JOB, STAMP, &next, &err) != 0)
        if (err.cls != RP_RETRIABLE || rp_mono_ms() >= end_mono_ms)
            fail_msg("%s", err.text);
    return next;
}

static void a_job_begins_where_its_group_is(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(read_cursor(f), -1);
    commit(f, 42, STAMP);
    assert_int_equal(read_cursor(f), 42);
}

static void another_databases_job_of_the_same_name_is_not_ours(void **state)
{
    struct fixture *f = *state;
    commit(f, 42, "another");
    assert_int_equal(read_cursor(f), -1);
}

static void a_coordinator_that_is_away_is_replaced(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(read_cursor(f), -1);
    assert_int_equal(rd_kafka_mock_broker_set_down(f->mock.cluster, 1), 0);
    assert_int_equal(rd_kafka_mock_coordinator_set(f->mock.cluster, "group", GROUP, 2), 0);
    assert_int_equal(read_cursor(f), -1);
}

#define OFFSET_FETCH 9 /* the protocol's number */

static int read_once(struct fixture *f, struct rp_error *err)
{
    int64_t next = -2;
    int rc = rp_replay_cursor_read(f->config, JOB, STAMP, &next, err);
    assert_int_equal(next, rc == 0 ? 42 : -2);
    return rc;
}

static void what_is_not_stable_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    commit(f, 42, STAMP);
    rd_kafka_mock_push_request_errors(f->mock.cluster, OFFSET_FETCH, 1,
                                      RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT);
    assert_int_equal(read_once(f, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_int_equal(read_cursor(f), 42);
}

static void who_may_not_ask_is_told_so(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    commit(f, 42, STAMP);
    rd_kafka_mock_push_request_errors(f->mock.cluster, OFFSET_FETCH, 1,
                                      RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    assert_int_equal(read_once(f, &err), -1);
    assert_int_equal(err.code, RP_E_KAFKA);
    assert_int_equal(read_once(f, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(a_job_begins_where_its_group_is),
        T(another_databases_job_of_the_same_name_is_not_ours),
        T(a_coordinator_that_is_away_is_replaced),
        T(what_is_not_stable_is_asked_for_again),
        T(who_may_not_ask_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
