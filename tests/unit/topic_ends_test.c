/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "mock_fixture.h"
#include "topic_ends.h"

static int set_up(void **state)
{
    static struct mock m;
    mock_start(&m, 3, "one");
    assert_int_equal(rd_kafka_mock_topic_create(m.cluster, "three", 3, 3), 0);
    *state = &m;
    return 0;
}

static int tear_down(void **state)
{
    mock_stop(*state);
    return 0;
}

static void expect(const struct mock *m, const char *topic, const char *ends)
{
    struct rp_buf out = {0};
    struct rp_error err;
    assert_int_equal(rp_topic_ends(m->producer, topic, &out, &err), 0);
    assert_string_equal((const char *)out.data, ends);
    rp_buf_clear(&out);
}

static void each_partition_has_its_end(void **state)
{
    struct mock *m = *state;
    mock_produce(m, "one", 12);
    expect(m, "one", "{12}");
    expect(m, "three", "{0,0,0}");
}

static void who_shows_no_such_topic_or_does_not_answer_is_asked_again(void **state)
{
    struct mock *m = *state;
    struct rp_buf out = {0};
    struct rp_error err;
    assert_int_equal(rp_topic_ends(m->producer, "none", &out, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_string_equal(err.text, "the brokers show no topic none");
    rd_kafka_mock_push_request_errors(m->cluster, MOCK_LIST_OFFSETS, 1,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(rp_topic_ends(m->producer, "one", &out, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    rp_buf_clear(&out);
    expect(m, "one", "{12}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_partition_has_its_end),
        cmocka_unit_test(who_shows_no_such_topic_or_does_not_answer_is_asked_again),
    };
    return cmocka_run_group_tests_name("topic_ends", tests, set_up, tear_down);
}
