/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mock_fixture.h"
#include "outbox.h"

#define TOPIC  "somewhere"
#define MOST   200
#define RTT_MS 30

struct fixture {
    struct mock mock;
    struct rp_config *config;
    atomic_bool stop;
    struct rp_worker worker;
    struct rp_outbox outbox;
};

static const char source[] = "source"; /* lessons know it by its address */

/* The mock does not describe topics. */
int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic);
static int64_t max_bytes;

int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic)
{
    (void)t;
    (void)topic;
    return max_bytes;
}

static int set_up(void **state)
{
    static struct fixture f;
    struct rp_error err;
    mock_start(&f.mock, 1, TOPIC);
    f.config = mock_config(&f.mock);
    f.worker.config = f.config;
    f.worker.stop = &f.stop;
    assert_int_equal(rp_outbox_init(&f.outbox, &f.worker, "an-id", "1", MOST, &err), 0);
    rp_outbox_open(&f.outbox);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_outbox_clear(&f->outbox);
    rp_config_free(f->config);
    mock_stop(&f->mock);
    return 0;
}

/* Fills a batch with records of this value. Returns how many it took. */
static size_t fill_with(struct fixture *f, struct rp_bytes value)
{
    struct rp_error err;
    for (int64_t offset = 0; !rp_outbox_full(&f->outbox); offset++) {
        struct rp_outgoing record = {.topic = rp_str(TOPIC), .value = value};
        if (rp_outbox_send(&f->outbox, source, 0, offset, &record, &err) != 0)
            fail_msg("%s", err.text);
    }
    return f->outbox.n;
}

/* The same with records that take a batch of `limit` bytes for themselves. */
static size_t fill(struct fixture *f, int64_t limit)
{
    max_bytes = limit;
    return fill_with(f, rp_str("a value"));
}

static void a_batch_that_waits_for_acknowledgements_takes_no_more(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(rd_kafka_mock_broker_set_rtt(f->mock.cluster, 1, RTT_MS), 0);
    size_t n = fill(f, 100);
    assert_in_range(n, 2, 10);
}

static void a_batch_that_need_not_wait_is_filled(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(rd_kafka_mock_broker_set_rtt(f->mock.cluster, 1, RTT_MS), 0);
    assert_int_equal(fill(f, RP_NO_LIMIT), MOST);
}

static void the_batch_after_one_that_waited_is_filled(void **state)
{
    struct fixture *f = *state;
    a_batch_that_waits_for_acknowledgements_takes_no_more(state);
    rp_outbox_abort(&f->outbox);
    assert_int_equal(fill(f, RP_NO_LIMIT), MOST);
}

static void a_batch_ends_with_a_request_s_worth_of_bytes(void **state)
{
    static const uint8_t value[8000];
    max_bytes = RP_NO_LIMIT;
    assert_in_range(fill_with(*state, (struct rp_bytes){value, sizeof value}), 120, 125);
}

static void a_batch_of_large_records_is_half_as_many(void **state)
{
    static const uint8_t value[50000];
    max_bytes = RP_NO_LIMIT;
    assert_int_equal(fill_with(*state, (struct rp_bytes){value, sizeof value}), MOST / 2);
}

static void publish(struct fixture *f)
{
    struct rp_error err;
    assert_int_equal(rp_publisher_commit(f->outbox.publisher, &err), RP_PUBLISHED);
    rp_outbox_done(&f->outbox);
}

static void a_large_record_fills_no_batch_but_its_own(void **state)
{
    static const uint8_t value[600000];
    struct fixture *f = *state;
    max_bytes = RP_NO_LIMIT;
    f->outbox.most = 1;
    assert_int_equal(fill_with(f, (struct rp_bytes){value, sizeof value}), 1);
    publish(f);
    assert_false(rp_outbox_full(&f->outbox));
}

static void a_batch_has_so_many_bytes(void **state)
{
    static const uint8_t value[300000];
    max_bytes = RP_NO_LIMIT;
    assert_in_range(fill_with(*state, (struct rp_bytes){value, sizeof value}), 55, 56);
}

static void a_batch_that_failed_halves_the_next_and_one_that_is_out_doubles_it(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    assert_int_equal(fill(f, RP_NO_LIMIT), MOST);
    for (size_t most = MOST / 2; most > 0; most /= 2) {
        (void)rp_fail(&err, RP_E_KAFKA, RP_RETRIABLE, "too slow");
        atomic_store(&f->stop, true); /* who stops does not wait */
        rp_outbox_failed(&f->outbox, &err);
        atomic_store(&f->stop, false);
        assert_int_equal(fill(f, RP_NO_LIMIT), most);
    }
    for (size_t most = 1; most < MOST; most = f->outbox.n) {
        assert_int_equal(f->outbox.n, most);
        publish(f);
        assert_int_equal(fill(f, RP_NO_LIMIT), MOST >> f->outbox.halved);
    }
    assert_int_equal(f->outbox.halved, 0);
}

static void the_first_failure_ends_the_worker(void **state)
{
    struct fixture *f = *state;
    struct rp_error first, second;
    (void)rp_fail(&first, RP_E_KAFKA, RP_FATAL, "the first");
    (void)rp_fail(&second, RP_E_KAFKA, RP_FATAL, "the second");
    rp_outbox_failed(&f->outbox, &first);
    rp_outbox_failed(&f->outbox, &second);
    assert_true(rp_outbox_stopping(&f->outbox));
    assert_string_equal(f->outbox.failure.text, "the first");
}

static void one_failure_after_another_is_waited_for_longer(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    (void)rp_fail(&err, RP_E_KAFKA, RP_RETRIABLE, "no broker");
    atomic_store(&f->stop, true); /* so it waits for nothing */
    for (int64_t ms = 50; ms < 20000; ms *= 2) {
        atomic_store(&f->worker.ready, true);
        rp_outbox_back_off(&f->outbox, &err);
        assert_false(atomic_load(&f->worker.ready));
        assert_int_equal(f->outbox.backoff_ms, ms < 5000 ? ms : 5000);
    }
    atomic_store(&f->stop, false);
}

#define INIT_PRODUCER_ID 22 /* the protocol's numbers */
#define PRODUCE          0

static void who_may_not_send_at_all_gives_up(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    rp_outbox_clear(&f->outbox);
    rd_kafka_mock_push_request_errors(f->mock.cluster, INIT_PRODUCER_ID, 1,
                                      RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_int_equal(rp_outbox_init(&f->outbox, &f->worker, "an-id", "1", MOST, &err), 0);
    rp_outbox_open(&f->outbox);
    assert_true(f->outbox.failed);
    assert_int_equal(f->outbox.failure.cls, RP_FATAL);
    assert_non_null(strstr(f->outbox.failure.text, "init transactions"));
}

/* Sends one record to a topic that refuses it with `code`. */
static void be_refused(struct fixture *f, const char *topic, rd_kafka_resp_err_t code)
{
    struct rp_error err;
    struct rp_outgoing record = {.topic = rp_str(topic), .value = rp_str("a value")};
    max_bytes = RP_NO_LIMIT;
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1, code);
    assert_int_equal(rp_outbox_send(&f->outbox, source, 0, 1, &record, &err), 0);
    assert_int_equal(rp_publisher_commit(f->outbox.publisher, &err), RP_NOT_PUBLISHED);
    rp_outbox_failed(&f->outbox, &err);
    assert_false(f->outbox.failed);
    assert_int_equal(f->outbox.n, 0);
}

/* There is another way for a task whose target refuses it, at once; for one that our own topic
 * refuses there is none, and it is tried again. */
static void a_refusal_by_our_own_topic_is_waited_out(void **state)
{
    struct fixture *f = *state;
    const char *own = f->config->topics.dead_letter;
    assert_int_equal(rd_kafka_mock_topic_create(f->mock.cluster, own, 1, 1), 0);
    be_refused(f, own, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(f->outbox.backoff_ms, 50);
    be_refused(f, TOPIC, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(f->outbox.backoff_ms, 50);
    assert_int_equal(rp_targets_state(f->outbox.targets, rp_str(TOPIC)), RP_TARGET_DENIED);
}

static void add_offsets(struct fixture *f)
{
    struct rp_error err;
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    assert_int_equal(rp_publisher_group_offsets(f->outbox.publisher, "a-group", offsets, &err),
                     RP_PUBLISHED);
    rd_kafka_topic_partition_list_destroy(offsets);
}

static void what_was_sent_off_ends_before_the_next(void **state)
{
    struct fixture *f = *state;
    struct rp_outgoing record = {.topic = rp_str(TOPIC), .value = rp_str("a value")};
    struct rp_error err;
    assert_int_equal(fill(f, RP_NO_LIMIT), MOST);
    add_offsets(f);
    assert_true(rp_outbox_send_off(&f->outbox));
    assert_int_equal(f->outbox.n, 0);
    assert_int_equal(rp_outbox_send(&f->outbox, source, 0, MOST, &record, &err), 0);
    publish(f);
    assert_int_equal(f->outbox.n, 1);
    publish(f);
    assert_int_equal(f->outbox.n, 0);
}

static const struct rp_lesson *lesson_of(const struct fixture *f, int64_t offset)
{
    const struct rp_lesson *lesson = rp_lessons_find(&f->outbox.lessons, source, 0, offset);
    assert_non_null(lesson);
    return lesson;
}

/* Of a batch that the brokers refuse as a whole, any record may be to blame. */
static void one_that_goes_alone_teaches_nothing_of_the_batch_before(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    struct rp_outgoing record = {.topic = rp_str(TOPIC), .value = rp_str("a value")};
    max_bytes = RP_NO_LIMIT;
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    for (int64_t offset = 0; offset < 2; offset++)
        assert_int_equal(rp_outbox_send(&f->outbox, source, 0, offset, &record, &err), 0);
    add_offsets(f);
    assert_true(rp_outbox_send_off(&f->outbox));
    while (!rp_publisher_acknowledged(f->outbox.publisher, 10))
        continue;
    assert_int_equal(rp_lessons_add(&f->outbox.lessons, source, 0, 7, false, false,
                                    RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, &err),
                     1);
    assert_int_equal(rp_outbox_send(&f->outbox, source, 0, 7, &record, &err), 0);
    assert_true(rp_outbox_full(&f->outbox)); /* it goes alone */
    assert_int_equal(rp_publisher_commit(f->outbox.publisher, &err), RP_NOT_PUBLISHED);
    rp_outbox_failed(&f->outbox, &err);
    for (int64_t offset = 0; offset < 2; offset++)
        assert_false(lesson_of(f, offset)->refused);
}

/* Alone, first at its target and then as a dead letter. */
static void what_is_refused_is_the_record_or_its_dead_letter(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    const char *own = f->config->topics.dead_letter;
    assert_int_equal(rd_kafka_mock_topic_create(f->mock.cluster, own, 1, 1), 0);
    assert_int_equal(rp_lessons_add(&f->outbox.lessons, source, 0, 1, false, false,
                                    RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, &err),
                     1);
    be_refused(f, own, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    assert_false(lesson_of(f, 1)->refused);
    assert_int_equal(lesson_of(f, 1)->letters_refused, 1);
    be_refused(f, TOPIC, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    assert_true(lesson_of(f, 1)->refused);
    assert_int_equal(lesson_of(f, 1)->letters_refused, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(a_batch_that_waits_for_acknowledgements_takes_no_more),
        T(a_batch_that_need_not_wait_is_filled),
        T(the_batch_after_one_that_waited_is_filled),
        T(a_batch_ends_with_a_request_s_worth_of_bytes),
        T(a_batch_of_large_records_is_half_as_many),
        T(a_large_record_fills_no_batch_but_its_own),
        T(a_batch_has_so_many_bytes),
        T(a_batch_that_failed_halves_the_next_and_one_that_is_out_doubles_it),
        T(the_first_failure_ends_the_worker),
        T(one_failure_after_another_is_waited_for_longer),
        T(who_may_not_send_at_all_gives_up),
        T(what_was_sent_off_ends_before_the_next),
        T(one_that_goes_alone_teaches_nothing_of_the_batch_before),
        T(a_refusal_by_our_own_topic_is_waited_out),
        T(what_is_refused_is_the_record_or_its_dead_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
