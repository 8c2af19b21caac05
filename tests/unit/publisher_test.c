/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"
#include "config_fixture.h"
#include "mock_fixture.h"
#include "publisher.h"

#define TOPIC "somewhere"
#define GROUP "a-group"

enum api {
    PRODUCE = 0,
    METADATA = 3,
    INIT_PRODUCER_ID = 22,
    ADD_PARTITIONS = 24,
    ADD_OFFSETS = 25,
    END_TXN = 26,
    TXN_OFFSETS = 28,
};

struct fixture {
    struct mock mock;
    struct rp_config *config;
    struct rp_publisher *publisher;
};

/* A call that the brokers do not answer lasts this long, and twenty seconds by the publisher's
 * clock. */
#define CALL_MS 3000
rd_kafka_error_t *__wrap_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms);
rd_kafka_error_t *__real_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms);
int64_t __wrap_rp_mono_ms(void);
int64_t __real_rp_mono_ms(void);
static int64_t passed_ms;
static rd_kafka_t *last_to_commit;

rd_kafka_error_t *__wrap_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms)
{
    last_to_commit = rk;
    rd_kafka_error_t *error =
        __real_rd_kafka_commit_transaction(rk, timeout_ms < CALL_MS ? timeout_ms : CALL_MS);
    if (error != NULL && rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__TIMED_OUT)
        passed_ms += 20000;
    return error;
}

int64_t __wrap_rp_mono_ms(void)
{
    return __real_rp_mono_ms() + passed_ms;
}

static int set_up(void **state)
{
    static struct fixture f;
    struct rp_error err;
    mock_start(&f.mock, 3, TOPIC);
    f.config = mock_config(&f.mock);
    assert_int_equal(rp_publisher_new(f.config, "an-id", "1", &f.publisher, &err), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_publisher_free(f->publisher);
    rp_config_free(f->config);
    mock_stop(&f->mock);
    return 0;
}

/* One record and one offset, in one transaction. */
static enum rp_published publish(struct fixture *f, struct rp_error *err)
{
    const struct rp_outgoing record = {.topic = rp_str(TOPIC), .value = rp_str("a value")};
    if (rp_publisher_begin(f->publisher, false, err) != 0)
        return RP_NOT_PUBLISHED;
    if (rp_publisher_send(f->publisher, &record, err) != 0) {
        rp_publisher_abort(f->publisher);
        return RP_NOT_PUBLISHED;
    }
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(offsets, TOPIC, 0)->offset = 1;
    enum rp_published result = rp_publisher_group_offsets(f->publisher, GROUP, offsets, err);
    rd_kafka_topic_partition_list_destroy(offsets);
    return result == RP_PUBLISHED ? rp_publisher_commit(f->publisher, err) : result;
}

static void assert_publishes(struct fixture *f)
{
    struct rp_error err;
    if (publish(f, &err) != RP_PUBLISHED)
        fail_msg("%s", err.text);
}

static void what_went_well_is_published(void **state)
{
    assert_publishes(*state);
    assert_publishes(*state);
    assert_int_equal(rp_publisher_made(((struct fixture *)*state)->publisher), 1);
}

static void two_producers_take_turns(void **state)
{
    struct fixture *f = *state;
    assert_publishes(f);
    const rd_kafka_t *first = last_to_commit;
    assert_publishes(f);
    assert_ptr_not_equal(last_to_commit, first);
    assert_publishes(f);
    assert_ptr_equal(last_to_commit, first);
}

/* Of both producers' transactions. */
static void move_coordinator(struct fixture *f, int32_t broker)
{
    static const char *const ids[] = {"an-id", "an-id-next"};
    for (size_t i = 0; i < 2; i++)
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

static size_t asked(struct fixture *f, enum api api)
{
    size_t n, count = 0;
    rd_kafka_mock_request_t **requests = rd_kafka_mock_get_requests(f->mock.cluster, &n);
    for (size_t i = 0; i < n; i++)
        count += rd_kafka_mock_request_api_key(requests[i]) == (int16_t)api;
    rd_kafka_mock_request_destroy_array(requests, n);
    return count;
}

/* Until librdkafka has heard of the brokers what is so now, and no longer: later on it opens other
 * connections. */
static void await_metadata(struct fixture *f)
{
    rd_kafka_mock_start_request_tracking(f->mock.cluster);
    while (asked(f, METADATA) < 3)
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

static void track(struct fixture *f)
{
    rd_kafka_mock_clear_requests(f->mock.cluster);
    rd_kafka_mock_start_request_tracking(f->mock.cluster);
}

static void another_of_the_same_id_fences_both(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    assert_publishes(f);
    track(f);
    rp_publisher_free(f->publisher);
    assert_int_equal(rp_publisher_new(f->config, "an-id", "1", &f->publisher, &err), 0);
    assert_int_equal(rp_publisher_open(f->publisher, &err), 0);
    assert_int_equal(asked(f, INIT_PRODUCER_ID), 2);
    assert_publishes(f);
}

/* A transaction has just ended, and another is begun. */
static void begin_another(struct fixture *f)
{
    struct rp_error err;
    assert_publishes(f);
    track(f);
    assert_int_equal(rp_publisher_begin(f->publisher, false, &err), 0);
}

static void send_one(struct fixture *f, size_t tag, size_t bytes)
{
    static char value[700000];
    struct rp_error err;
    const struct rp_outgoing record = {.topic = rp_str(TOPIC), .value = {value, bytes}, .tag = tag};
    assert_int_equal(rp_publisher_send(f->publisher, &record, &err), 0);
}

static void add_offsets(struct fixture *f)
{
    struct rp_error err;
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    assert_int_equal(rp_publisher_group_offsets(f->publisher, GROUP, offsets, &err), RP_PUBLISHED);
    rd_kafka_topic_partition_list_destroy(offsets);
}

/* Time enough for librdkafka to open the transaction for what was produced. */
static bool opens(struct fixture *f)
{
    for (int i = 0; i < 20 && asked(f, ADD_PARTITIONS) == 0; i++)
        (void)usleep(10000);
    return asked(f, ADD_PARTITIONS) > 0;
}

static void the_records_of_a_transaction_wait_for_its_offsets(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    begin_another(f);
    send_one(f, 0, 10);
    send_one(f, 1, 10);
    assert_false(opens(f));
    /* The last one is still being ended. */
    rd_kafka_mock_push_request_errors(f->mock.cluster, ADD_OFFSETS, 2,
                                      RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
                                      RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS);
    add_offsets(f);
    assert_int_equal(asked(f, ADD_PARTITIONS), 0);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_int_equal(asked(f, ADD_PARTITIONS), 1);
    assert_int_equal(asked(f, PRODUCE), 1);
}

static void records_that_go_at_once_do_not_wait(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    assert_publishes(f);
    track(f);
    assert_int_equal(rp_publisher_begin(f->publisher, true, &err), 0);
    send_one(f, 0, 10);
    assert_true(opens(f));
    add_offsets(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_int_equal(asked(f, PRODUCE), 1);
}

/* It fails while others are still being sent, which are then refused. */
static void a_record_that_failed_is_named_not_the_next_one(void **state)
{
    struct fixture *f = *state;
    const struct rp_outgoing next = {.topic = rp_str(TOPIC), .value = rp_str("a value"), .tag = 1};
    struct rp_error err;
    size_t n;
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_INVALID_RECORD);
    assert_int_equal(rp_publisher_begin(f->publisher, true, &err), 0);
    track(f);
    send_one(f, 0, 10);
    for (int i = 0; asked(f, PRODUCE) == 0 || rp_publisher_send(f->publisher, &next, &err) == 0;
         i++) {
        assert_in_range(i, 0, 1000);
        (void)usleep(10000);
    }
    assert_int_equal(err.cls, RP_POISON);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 0);
    rp_publisher_abort(f->publisher);
}

static void offsets_that_are_refused_say_why(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    rd_kafka_mock_push_request_errors(f->mock.cluster, TXN_OFFSETS, 1,
                                      RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
    assert_int_equal(rp_publisher_begin(f->publisher, true, &err), 0);
    send_one(f, 0, 10);
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    assert_int_equal(rp_publisher_group_offsets(f->publisher, GROUP, offsets, &err),
                     RP_NOT_PUBLISHED);
    rd_kafka_topic_partition_list_destroy(offsets);
    assert_non_null(strstr(err.text, "send offsets"));
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_publishes(f);
}

static void more_than_a_request_does_not_wait(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    begin_another(f);
    send_one(f, 0, 700000);
    assert_false(opens(f));
    send_one(f, 1, 700000);
    assert_true(opens(f));
    add_offsets(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
}

/* Nobody is left to tell of the ones behind it. */
static void a_record_that_cannot_be_sent_is_named_though_it_waited(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    static char value[2000];
    size_t n;
    const struct rp_outgoing refused = {
        .topic = rp_str(""), .value = {value, sizeof value}, .tag = 1};
    begin_another(f);
    send_one(f, 0, 10);
    assert_int_equal(rp_publisher_send(f->publisher, &refused, &err), 0);
    send_one(f, 2, 10);
    add_offsets(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_NOT_PUBLISHED);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 1);
    assert_publishes(f);
}

static void what_waits_goes_with_its_batch(void **state)
{
    struct fixture *f = *state;
    begin_another(f);
    send_one(f, 0, 10);
    rp_publisher_abort(f->publisher);
    assert_publishes(f);
    assert_int_equal(asked(f, PRODUCE), 1);
}

/* librdkafka has their values where they were held: the next batch is held there, too. */
static void records_on_their_way_are_let_go_before_the_next_batch(void **state)
{
    struct fixture *f = *state;
    begin_another(f);
    for (size_t i = 0; i < 8; i++)
        send_one(f, i, 100000);
    rd_kafka_mock_broker_push_request_error_rtts(f->mock.cluster, 1, PRODUCE, 1,
                                                 RD_KAFKA_RESP_ERR_NO_ERROR, 1000);
    add_offsets(f);
    assert_true(opens(f));
    rp_publisher_abort(f->publisher);
    rd_kafka_mock_clear_request_errors(f->mock.cluster, PRODUCE);
    assert_publishes(f);
}

/* A publisher for other settings, in place of the fixture's. */
static void use(struct fixture *f, const char *guarantee, const char *settings)
{
    char text[300];
    struct rp_error err;
    (void)snprintf(text, sizeof text,
                   "kafka: {bootstrap.servers: \"%s\"%s}\nguarantee: %s\n"
                   "targets: {allow: [x]}\n",
                   rd_kafka_mock_cluster_bootstraps(f->mock.cluster), settings, guarantee);
    rp_publisher_free(f->publisher);
    rp_config_free(f->config);
    f->config = load_good(text);
    assert_int_equal(rp_publisher_new(f->config, "an-id", "0", &f->publisher, &err), 0);
    assert_int_equal(rp_publisher_begin(f->publisher, false, &err), 0);
}

#define ONE_AT_A_TIME ", producer: {queue.buffering.max.messages: 1}"
#define SMALL_ONES    ", producer: {message.max.bytes: 1000}"
static const char too_large[2000];

static void a_full_queue_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    use(f, "at-least-once", ONE_AT_A_TIME);
    for (size_t i = 0; i < 5; i++)
        send_one(f, i, 10);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(rp_publisher_is_out(f->publisher, i), i < 5);
}

static void what_waited_finds_room_in_a_full_queue(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    use(f, "exactly-once", ONE_AT_A_TIME);
    for (size_t i = 0; i < 5; i++)
        send_one(f, i, 100000);
    add_offsets(f);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_PUBLISHED);
    assert_publishes(f);
}

static void without_a_transaction_what_was_not_refused_is_out(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    size_t n;
    use(f, "at-least-once", ONE_AT_A_TIME);
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    for (size_t i = 0; i < 3; i++)
        send_one(f, i, 10);
    assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_NOT_PUBLISHED);
    assert_int_equal(err.cls, RP_POISON);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rp_publisher_is_out(f->publisher, i), i > 0);
}

static void a_record_that_cannot_be_sent_keeps_back_none_before_it(void **state)
{
    struct fixture *f = *state;
    struct rp_error err;
    char longest[RP_MAX_TOPIC_NAME + 2];
    size_t n;
    struct rp_outgoing refused = {
        .topic = rp_str(TOPIC), .value = {too_large, sizeof too_large}, .tag = 1};
    use(f, "at-least-once", SMALL_ONES);
    send_one(f, 0, 10);
    assert_int_equal(rp_publisher_send(f->publisher, &refused, &err), -1);
    const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
    assert_int_equal(n, 1);
    assert_int_equal(failures[0].tag, 1);
    assert_true(rp_publisher_is_out(f->publisher, 0));
    memset(longest, 'a', sizeof longest);
    refused.topic = (struct rp_bytes){longest, sizeof longest};
    assert_int_equal(rp_publisher_send(f->publisher, &refused, &err), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_int_equal(err.code, RP_E_NOT_FOUND);
}

/* It was held back until the batch was ended, or until there was a request's worth. */
static void a_record_that_librdkafka_refuses_takes_the_transaction_with_it(void **state)
{
    struct fixture *f = *state;
    for (int full = 0; full < 2; full++) {
        struct rp_error err;
        size_t n;
        use(f, "exactly-once",
            full == 1 ? ", producer: {message.max.bytes: 1000, batch.size: 20}" : SMALL_ONES);
        const struct rp_outgoing refused = {
            .topic = rp_str(TOPIC), .value = {too_large, sizeof too_large}, .tag = 0};
        int sent = rp_publisher_send(f->publisher, &refused, &err);
        assert_int_equal(sent, full == 1 ? -1 : 0);
        if (sent == 0)
            assert_int_equal(rp_publisher_commit(f->publisher, &err), RP_NOT_PUBLISHED);
        assert_int_equal(err.cls, RP_POISON);
        rp_publisher_abort(f->publisher);
        const struct rp_failure_report *failures = rp_publisher_failures(f->publisher, &n);
        assert_int_equal(n, 1);
        assert_int_equal(failures[0].tag, 0);
        assert_false(rp_publisher_is_out(f->publisher, 0));
    }
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
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(what_went_well_is_published),
        T(two_producers_take_turns),
        T(another_of_the_same_id_fences_both),
        T(a_commit_that_is_not_answered_is_unknown),
        T(after_an_unknown_commit_another_producer_goes_on),
        T(a_coordinator_that_moves_in_mid_commit_is_followed),
        T(a_commit_by_one_who_was_fenced_is_unknown),
        T(what_is_refused_before_the_commit_is_not_published),
        T(a_group_coordinator_that_was_away_is_found_again),
        T(the_records_of_a_transaction_wait_for_its_offsets),
        T(with_a_request_unanswered_it_is_the_producers_last),
        T(records_that_go_at_once_do_not_wait),
        T(a_record_that_failed_is_named_not_the_next_one),
        T(offsets_that_are_refused_say_why),
        T(more_than_a_request_does_not_wait),
        T(a_record_that_cannot_be_sent_is_named_though_it_waited),
        T(what_waits_goes_with_its_batch),
        T(records_on_their_way_are_let_go_before_the_next_batch),
        T(a_full_queue_is_waited_for),
        T(what_waited_finds_room_in_a_full_queue),
        T(without_a_transaction_what_was_not_refused_is_out),
        T(a_record_that_cannot_be_sent_keeps_back_none_before_it),
        T(a_record_that_librdkafka_refuses_takes_the_transaction_with_it),
        T(records_are_out_though_their_offsets_cannot_be_committed),
        T(who_is_in_no_group_commits_nothing),
        T(who_was_forgotten_by_its_group_commits_nothing),
        T(a_producer_that_failed_for_good_is_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
