/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "publisher_fixture.h"

static void what_went_well_is_published(void **state)
{
    assert_publishes(*state);
    assert_publishes(*state);
    assert_int_equal(rp_publisher_made(((struct fixture *)*state)->publisher), 1);
}

static void three_producers_take_turns(void **state)
{
    struct fixture *f = *state;
    assert_publishes(f);
    const rd_kafka_t *first = last_to_commit;
    assert_publishes(f);
    const rd_kafka_t *second = last_to_commit;
    assert_ptr_not_equal(second, first);
    assert_publishes(f);
    assert_ptr_not_equal(last_to_commit, first);
    assert_ptr_not_equal(last_to_commit, second);
    assert_publishes(f);
    assert_ptr_equal(last_to_commit, first);
}

/* Of all producers' transactions. */
static void move_coordinator(struct fixture *f, int32_t broker)
{
    static const char *const ids[] = {"an-id", "an-id-next", "an-id-third"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_int_equal(
            rd_kafka_mock_coordinator_set(f->mock.cluster, "transaction", ids[i], broker), 0);
}

/* The answer to the next end of a transaction does not come. */
static void hold_up_the_end(struct fixture *f)
{
    move_coordinator(f, 1);
    assert_int_equal(rd_kafka_mock_broker_push_request_error_rtts(
                         f->mock.cluster, 1, END_TXN, 1, RD_KAFKA_RESP_ERR_NO_ERROR, 60000),
                     0);
}

static void a_commit_that_is_not_answered_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    hold_up_the_end(f);
    assert_int_equal(publish(f, &err), RP_UNKNOWN);
    assert_int_equal(err.cls, RP_RETRIABLE);
}

static void after_an_unknown_commit_another_producer_goes_on(void **state)
{
    struct fixture *f = *state;
    a_commit_that_is_not_answered_is_unknown(state);
    assert_publishes(f);
    assert_int_equal(rp_publisher_made(f->publisher), 2);
}

static void a_coordinator_that_moves_in_mid_commit_is_followed(void **state)
{
    struct fixture *f = *state;
    assert_publishes(f);
    rd_kafka_mock_push_request_errors(f->mock.cluster, END_TXN, 3,
                                      RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                                      RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
                                      RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    move_coordinator(f, 2);
    assert_publishes(f);
    assert_int_equal(rp_publisher_made(f->publisher), 1);
}

static void a_commit_by_one_who_was_fenced_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    assert_publishes(f);
    rd_kafka_mock_push_request_errors(f->mock.cluster, END_TXN, 1,
                                      RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(publish(f, &err), RP_UNKNOWN);
    assert_int_equal(err.cls, RP_RETRIABLE); /* the worker goes on, with another producer */
    assert_publishes(f);
}

/* Each of these is refused once, before the commit: nothing is published, and the next try is. */
static void what_is_refused_before_the_commit_is_not_published(void **state)
{
    static const struct {
        enum api api;
        rd_kafka_resp_err_t code;
    } refusals[] = {
        {ADD_OFFSETS, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH},
        {ADD_OFFSETS, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED},
        {TXN_OFFSETS, RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID},
        {TXN_OFFSETS, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION},
        {TXN_OFFSETS, RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID},
        {PRODUCE, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH},
    };
    struct fixture *f = *state;
    struct rp_error err;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_publishes(f);
        rd_kafka_mock_push_request_errors(f->mock.cluster, (int16_t)refusals[i].api, 1,
                                          refusals[i].code);
        assert_int_equal(publish(f, &err), RP_NOT_PUBLISHED);
        assert_int_not_equal(err.cls, RP_FATAL);
        rd_kafka_mock_clear_request_errors(f->mock.cluster, (int16_t)refusals[i].api);
    }
    assert_publishes(f);
}

/* Until librdkafka has heard of the brokers what is so now, and no longer: later on it opens other
 * connections. */
static void await_metadata(struct fixture *f)
{
    rd_kafka_mock_start_request_tracking(f->mock.cluster);
    while (mock_requests(&f->mock, METADATA) < 3)
        (void)usleep(10000);
    rd_kafka_mock_stop_request_tracking(f->mock.cluster);
    rd_kafka_mock_clear_requests(f->mock.cluster);
}

/* As in a rolling restart: by then librdkafka has dropped the broker that it remembers as the
 * group's coordinator, and made another of the same name. */
static void a_group_coordinator_that_was_away_is_found_again(void **state)
{
    struct fixture *f = *state;
    (void)alarm(100); /* a call that waits for ever takes no time-out */
    assert_int_equal(rd_kafka_mock_coordinator_set(f->mock.cluster, "group", GROUP, 1), 0);
    move_coordinator(f, 2);
    assert_int_equal(rd_kafka_mock_partition_set_leader(f->mock.cluster, TOPIC, 0, 3), 0);
    assert_publishes(f);
    assert_int_equal(rd_kafka_mock_broker_set_down(f->mock.cluster, 1), 0);
    await_metadata(f);
    assert_int_equal(rd_kafka_mock_broker_set_up(f->mock.cluster, 1), 0);
    await_metadata(f);
    assert_publishes(f);
    (void)alarm(0);
}

/* A copy of it may be under way, and arrive in the next transaction. */
static void with_a_request_unanswered_it_is_the_producers_last(void **state)
{
    const enum api apis[] = {ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSETS};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        assert_int_equal(rp_publisher_open(f->publisher, &(struct rp_error){0}), 0);
        uint64_t made = rp_publisher_made(f->publisher);
        rd_kafka_mock_push_request_errors(f->mock.cluster, (int16_t)apis[i], 1,
                                          RD_KAFKA_RESP_ERR__TRANSPORT);
        assert_publishes(f);
        assert_int_equal(rp_publisher_made(f->publisher), made);
        assert_publishes(f);
        assert_int_equal(rp_publisher_made(f->publisher), made + 1);
    }
}

static void another_of_the_same_id_fences_all(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    assert_publishes(f);
    track(f);
    rp_publisher_free(f->publisher);
    assert_int_equal(rp_publisher_new(f->config, "an-id", "1", &f->publisher, &err), 0);
    assert_int_equal(rp_publisher_open(f->publisher, &err), 0);
    assert_int_equal(mock_requests(&f->mock, INIT_PRODUCER_ID), 3);
    assert_publishes(f);
}

/* Fills a batch and adds its offsets. */
static enum rp_published prepare(struct fixture *f, struct rp_error *err)
{
    assert_int_equal(rp_publisher_begin(f->publisher, err), 0);
    send_one(f, 0, 10);
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    enum rp_published result = rp_publisher_group_offsets(f->publisher, GROUP, offsets, err);
    rd_kafka_topic_partition_list_destroy(offsets);
    return result;
}

static void send_off(struct fixture *f)
{
    struct rp_error err;
    assert_int_equal(prepare(f, &err), RP_PUBLISHED);
    assert_true(rp_publisher_send_off(f->publisher));
}

static void await_acknowledgements(struct fixture *f)
{
    (void)alarm(30);
    while (!rp_publisher_acknowledged(f->publisher, 10))
        continue;
    (void)alarm(0);
}

static void batches_are_committed_in_their_order(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    const rd_kafka_t *before = NULL;
    send_off(f);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(prepare(f, &err), RP_PUBLISHED);
        await_acknowledgements(f);
        assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
        assert_ptr_not_equal(last_to_commit, before);
        before = last_to_commit;
        assert_true(rp_publisher_send_off(f->publisher));
    }
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_publishes(f);
    assert_int_equal(rp_publisher_made(f->publisher), 1);
}

/* Its offsets are behind those of the one that failed. */
static void a_batch_goes_down_with_the_one_before(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    size_t n;
    assert_int_equal(rp_publisher_begin(f->publisher, &err), 0);
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    send_off(f);
    await_acknowledgements(f);
    assert_int_equal(prepare(f, &err), RP_PUBLISHED);
    track(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_NOT_PUBLISHED);
    assert_int_equal(mock_requests(&f->mock, END_TXN), 2);
    assert_int_equal(err.cls, RP_POISON);
    assert_int_equal(rp_publisher_failures(f->publisher, &n)->code,
                     RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    assert_int_equal(n, 1);
    assert_publishes(f);
}

static void a_batch_that_fails_leaves_the_one_before(void **state)
{
    static const struct {
        enum api api;
        rd_kafka_resp_err_t code;
    } refusals[] = {
        {TXN_OFFSETS, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION},
        {ADD_OFFSETS, RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH}, /* its producer fails for good */
    };
    struct fixture *f = *state;
    struct rp_error err;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        send_off(f);
        rd_kafka_mock_push_request_errors(f->mock.cluster, (int16_t)refusals[i].api, 1,
                                          refusals[i].code);
        assert_int_equal(prepare(f, &err), RP_NOT_PUBLISHED);
        assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
        assert_publishes(f);
    }
}

static void with_an_unknown_commit_the_next_batch_is_gone(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    hold_up_the_end(f);
    send_off(f);
    assert_int_equal(prepare(f, &err), RP_PUBLISHED);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_UNKNOWN);
    assert_publishes(f);
    assert_int_equal(rp_publisher_made(f->publisher), 2);
}

static void with_a_request_unanswered_no_batch_is_begun_beside_it(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    rd_kafka_mock_push_request_errors(f->mock.cluster, ADD_OFFSETS, 1,
                                      RD_KAFKA_RESP_ERR__TRANSPORT);
    assert_int_equal(prepare(f, &err), RP_PUBLISHED);
    assert_false(rp_publisher_send_off(f->publisher));
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    send_off(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
}

/* What the older one's commit found out is heeded once the next one has ended. */
static void with_a_commit_unanswered_the_next_batch_is_the_last(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    send_off(f);
    assert_int_equal(prepare(f, &err), RP_PUBLISHED);
    rd_kafka_mock_push_request_errors(f->mock.cluster, END_TXN, 1, RD_KAFKA_RESP_ERR__TRANSPORT);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_false(rp_publisher_send_off(f->publisher));
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_publishes(f);
    assert_int_equal(rp_publisher_made(f->publisher), 2);
}

static void without_transactions_there_is_one_batch_at_a_time(void **state)
{
    struct fixture *f = *state;
    use(f, "at-least-once", "");
    send_one(f, 0, 10);
    assert_false(rp_publisher_send_off(f->publisher));
}

static bool forgotten;

rd_kafka_consumer_group_metadata_t *__wrap_rp_consumer_membership(struct rp_consumer *c,
                                                                  struct rp_error *err);
rd_kafka_consumer_group_metadata_t *__real_rp_consumer_membership(struct rp_consumer *c,
                                                                  struct rp_error *err);

rd_kafka_consumer_group_metadata_t *__wrap_rp_consumer_membership(struct rp_consumer *c,
                                                                  struct rp_error *err)
{
    if (!forgotten)
        return __real_rp_consumer_membership(c, err);
    (void)rp_fail(err, RP_E_FENCED, RP_FATAL, "made up");
    return NULL;
}

static void ignore_assigned(void *opaque, const rd_kafka_topic_partition_list_t *parts)
{
    (void)opaque;
    (void)parts;
}

static void ignore_revoked(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost)
{
    (void)opaque;
    (void)parts;
    (void)lost;
}

/* Who was not given anything yet. */
static struct rp_consumer *stranger(const struct fixture *f)
{
    static char topic[] = TOPIC;
    static char *const topics[] = {topic};
    const struct rp_consumer_options options = {
        .group = GROUP, .instance = "one-0", .topics = topics, .n_topics = 1};
    const struct rp_consumer_owner owner = {NULL, ignore_assigned, ignore_revoked};
    struct rp_consumer *c;
    struct rp_error err;
    assert_int_equal(rp_consumer_new(f->config, &options, &owner, &c, &err), 0);
    return c;
}

/* They may be sent again, and are out. */
static void records_are_out_though_their_offsets_cannot_be_committed(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    struct rp_consumer *consumer = stranger(f);
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    use(f, "at-least-once", "");
    send_one(f, 0, 10);
    assert_int_equal(rp_publisher_offsets(f->publisher, consumer, offsets, &err), RP_PUBLISHED);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    rd_kafka_topic_partition_list_destroy(offsets);
    rp_consumer_close(consumer);
}

/* consumer_test.c has how that comes about. */
static void who_was_forgotten_by_its_group_commits_nothing(void **state)
{
    static const char *const guarantees[] = {"exactly-once", "at-least-once"};
    struct fixture *f = *state;
    struct rp_consumer *consumer = stranger(f);
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    for (size_t i = 0; i < 2; i++) {
        struct rp_error err;
        use(f, guarantees[i], "");
        send_one(f, 0, 10);
        forgotten = true;
        assert_int_equal(rp_publisher_offsets(f->publisher, consumer, offsets, &err),
                         RP_NOT_PUBLISHED);
        forgotten = false;
        assert_int_equal(err.cls, RP_FATAL);
        assert_int_equal(err.code, RP_E_FENCED);
    }
    rd_kafka_topic_partition_list_destroy(offsets);
    rp_consumer_close(consumer);
}

static void who_is_in_no_group_commits_nothing(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    struct rp_consumer *consumer = stranger(f);
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    begin_another(f);
    send_one(f, 0, 10);
    assert_int_equal(rp_publisher_offsets(f->publisher, consumer, offsets, &err), RP_NOT_PUBLISHED);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_non_null(strstr(err.text, "not in a group"));
    rd_kafka_topic_partition_list_destroy(offsets);
    rp_consumer_close(consumer);
    assert_publishes(f);
}

static void a_producer_that_failed_for_good_is_made_anew(void **state)
{
    struct fixture *f = *state;
    assert_publishes(f);
    (void)rd_kafka_test_fatal_error(last_to_commit, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                    "made up");
    assert_publishes(f);
    assert_int_equal(rp_publisher_made(f->publisher), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, publisher_set_up, publisher_tear_down)
        T(what_went_well_is_published),
        T(three_producers_take_turns),
        T(another_of_the_same_id_fences_all),
        T(a_commit_that_is_not_answered_is_unknown),
        T(after_an_unknown_commit_another_producer_goes_on),
        T(a_coordinator_that_moves_in_mid_commit_is_followed),
        T(a_commit_by_one_who_was_fenced_is_unknown),
        T(what_is_refused_before_the_commit_is_not_published),
        T(a_group_coordinator_that_was_away_is_found_again),
        T(with_a_request_unanswered_it_is_the_producers_last),
        T(records_are_out_though_their_offsets_cannot_be_committed),
        T(who_is_in_no_group_commits_nothing),
        T(who_was_forgotten_by_its_group_commits_nothing),
        T(batches_are_committed_in_their_order),
        T(a_batch_goes_down_with_the_one_before),
        T(a_batch_that_fails_leaves_the_one_before),
        T(with_an_unknown_commit_the_next_batch_is_gone),
        T(with_a_request_unanswered_no_batch_is_begun_beside_it),
        T(with_a_commit_unanswered_the_next_batch_is_the_last),
        T(without_transactions_there_is_one_batch_at_a_time),
        T(a_producer_that_failed_for_good_is_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
