/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CODEC_FIXTURE_H
#define REPRISE_CODEC_FIXTURE_H

/* Records that the codec's tests share, and their comparison. Include cmocka.h first. */
#include "dead_letter.h"

static inline struct rp_failed_task sample_task(void)
{
    static const struct rp_header headers[] = {
        {{"trace", 5}, {"\x00\xff", 2}},
        {{"empty", 5}, {"", 0}},
        {{"none", 4}, {NULL, 0}},
    };
    static const struct rp_cause causes[] = {
        {{"java.net.SocketTimeoutException", 31}, {"read timed out", 14}},
        {{"java.io.IOException", 19}, {"", 0}},
    };
    return (struct rp_failed_task){
        .task_id = rp_str("order-4711"),
        .task_type = rp_str("payment"),
        .target = rp_str("orders-charge"),
        .key = {"k\0y", 3},
        .payload = rp_str("{\"amount\": 10.10}"),
        .headers = headers,
        .n_headers = 3,
        .attempt = 2,
        .error_class = rp_str("com.example.PaymentException"),
        .error_message = rp_str("card gateway \xe2\x82\xac: no answer"),
        .error_category = rp_str("TIMEOUT"),
        .causes = causes,
        .n_causes = 2,
        .source = rp_str("payment-service"),
        .first_failed_at_ms = 1732147200000,
        .failed_at_ms = 1732147260123,
    };
}

/* Only what must be there. */
static inline struct rp_failed_task plain_task(void)
{
    return (struct rp_failed_task){
        .task_id = rp_str("t"),
        .task_type = rp_str("data-sync"),
        .attempt = 1,
        .error_class = rp_str("E"),
        .error_message = rp_str(""),
        .source = rp_str(""),
        .first_failed_at_ms = RP_NO_TIME,
        .failed_at_ms = 0,
    };
}

static inline struct rp_dead_letter sample_letter(void)
{
    return (struct rp_dead_letter){
        .has_task = true,
        .task = sample_task(),
        .reason = RP_NO_TARGET,
        .detail = rp_str("topic orders-charge does not exist"),
        .category = rp_str("TIMEOUT"),
        .policy = rp_str("payment"),
        .attempts = 2,
        .decided_at_ms = 1732147260200,
        .topic = rp_str("failed-tasks"),
        .partition = 7,
        .offset = 1234567890123,
    };
}

static inline void assert_bytes_equal(struct rp_bytes a, struct rp_bytes b)
{
    if (!rp_bytes_equal(a, b))
        fail_msg("'%.*s' (%zu bytes) is not '%.*s' (%zu bytes)", (int)a.len,
                 a.data == NULL ? "" : (const char *)a.data, a.len, (int)b.len,
                 b.data == NULL ? "" : (const char *)b.data, b.len);
}

static inline void assert_task_equal(const struct rp_failed_task *a, const struct rp_failed_task *b)
{
    assert_bytes_equal(a->task_id, b->task_id);
    assert_bytes_equal(a->task_type, b->task_type);
    assert_bytes_equal(a->target, b->target);
    assert_bytes_equal(a->key, b->key);
    assert_bytes_equal(a->payload, b->payload);
    assert_int_equal(a->n_headers, b->n_headers);
    for (size_t i = 0; i < a->n_headers; i++) {
        assert_bytes_equal(a->headers[i].key, b->headers[i].key);
        assert_bytes_equal(a->headers[i].value, b->headers[i].value);
    }
    assert_int_equal(a->attempt, b->attempt);
    assert_bytes_equal(a->error_class, b->error_class);
    assert_bytes_equal(a->error_message, b->error_message);
    assert_bytes_equal(a->error_category, b->error_category);
    assert_int_equal(a->n_causes, b->n_causes);
    for (size_t i = 0; i < a->n_causes; i++) {
        assert_bytes_equal(a->causes[i].class_name, b->causes[i].class_name);
        assert_bytes_equal(a->causes[i].message, b->causes[i].message);
    }
    assert_bytes_equal(a->source, b->source);
    assert_int_equal(a->first_failed_at_ms, b->first_failed_at_ms);
    assert_int_equal(a->failed_at_ms, b->failed_at_ms);
}

static inline void assert_letter_equal(const struct rp_dead_letter *a,
                                       const struct rp_dead_letter *b)
{
    assert_int_equal(a->has_task, b->has_task);
    if (a->has_task)
        assert_task_equal(&a->task, &b->task);
    assert_bytes_equal(a->raw, b->raw);
    assert_int_equal(a->reason, b->reason);
    assert_bytes_equal(a->detail, b->detail);
    assert_bytes_equal(a->category, b->category);
    assert_bytes_equal(a->policy, b->policy);
    assert_int_equal(a->attempts, b->attempts);
    assert_int_equal(a->decided_at_ms, b->decided_at_ms);
    assert_bytes_equal(a->topic, b->topic);
    assert_int_equal(a->partition, b->partition);
    assert_int_equal(a->offset, b->offset);
}

#endif
