/* SPDX-License-Identifier: Apache-2.0 */
#include "publisher_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "clock.h"
#include "config_fixture.h"

/* A call that the brokers do not answer lasts this long, and twenty seconds by the publisher's
 * clock. */
#define CALL_MS 3000
rd_kafka_error_t *__wrap_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms);
rd_kafka_error_t *__real_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms);
int64_t __wrap_rp_mono_ms(void);
int64_t __real_rp_mono_ms(void);
static int64_t passed_ms;
rd_kafka_t *last_to_commit;

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

int publisher_set_up(void **state)
{
    static struct fixture f;
    struct rp_error err;
    mock_start(&f.mock, 3, TOPIC);
    f.config = mock_config(&f.mock);
    assert_int_equal(rp_publisher_new(f.config, "an-id", "1", &f.publisher, &err), 0);
    *state = &f;
    return 0;
}

int publisher_tear_down(void **state)
{
    struct fixture *f = *state;
    rp_publisher_free(f->publisher);
    rp_config_free(f->config);
    mock_stop(&f->mock);
    return 0;
}

enum rp_published publish(struct fixture *f, struct rp_error *err)
{
    const struct rp_outgoing record = {.topic = rp_str(TOPIC), .value = rp_str("a value")};
    if (rp_publisher_begin(f->publisher, err) != 0)
        return RP_NOT_PUBLISHED;
    if (rp_publisher_send(f->publisher, &record, err) != 0) {
        rp_publisher_abort(f->publisher, false);
        return RP_NOT_PUBLISHED;
    }
    rd_kafka_topic_partition_list_t *offsets = mock_at(TOPIC, 1);
    enum rp_published result = rp_publisher_group_offsets(f->publisher, GROUP, offsets, err);
    rd_kafka_topic_partition_list_destroy(offsets);
    return result == RP_PUBLISHED ? rp_publisher_commit(f->publisher, err) : result;
}

void assert_publishes(struct fixture *f)
{
    struct rp_error err;
    if (publish(f, &err) != RP_PUBLISHED)
        fail_msg("%s", err.text);
}

void track(struct fixture *f)
{
    rd_kafka_mock_clear_requests(f->mock.cluster);
    rd_kafka_mock_start_request_tracking(f->mock.cluster);
}

void begin_another(struct fixture *f)
{
    struct rp_error err;
    assert_publishes(f);
    track(f);
    assert_int_equal(rp_publisher_begin(f->publisher, &err), 0);
}

void send_one(struct fixture *f, size_t tag, size_t bytes)
{
    static char value[700000];
    struct rp_error err;
    const struct rp_outgoing record = {.topic = rp_str(TOPIC), .value = {value, bytes}, .tag = tag};
    assert_int_equal(rp_publisher_send(f->publisher, &record, &err), 0);
}

void use(struct fixture *f, const char *guarantee, const char *settings)
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
    assert_int_equal(rp_publisher_begin(f->publisher, &err), 0);
}
