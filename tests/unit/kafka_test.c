/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kafka.h"

/* What librdkafka answers to one seek after the other. */
rd_kafka_error_t *__wrap_rd_kafka_seek_partitions(rd_kafka_t *rk,
                                                  rd_kafka_topic_partition_list_t *parts,
                                                  int timeout_ms);
static const rd_kafka_resp_err_t *answers;
static int asked;
static int64_t sought;

rd_kafka_error_t *__wrap_rd_kafka_seek_partitions(rd_kafka_t *rk,
                                                  rd_kafka_topic_partition_list_t *parts,
                                                  int timeout_ms)
{
    (void)rk;
    (void)timeout_ms;
    sought = parts->elems[0].offset;
    parts->elems[0].err = answers[asked++];
    return NULL;
}

static int seek(int64_t offset, const rd_kafka_resp_err_t *answered, struct rp_error *err)
{
    answers = answered;
    asked = 0;
    return rp_kafka_seek_one(NULL, "topic", 0, offset, err);
}

static void a_seek_that_came_too_late_is_told_once_more(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t late[] = {RD_KAFKA_RESP_ERR__OUTDATED, RD_KAFKA_RESP_ERR_NO_ERROR};
    assert_int_equal(seek(7, late, &err), 0);
    assert_int_equal(asked, 2);
    assert_int_equal(sought, 7);
}

static void a_seek_that_comes_too_late_twice_fails(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t late[] = {RD_KAFKA_RESP_ERR__OUTDATED, RD_KAFKA_RESP_ERR__OUTDATED};
    assert_int_equal(seek(7, late, &err), -1);
    assert_int_equal(asked, 2);
    assert_int_equal(err.cls, RP_RETRIABLE);
}

static void another_failure_is_not_tried_again(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t unknown[] = {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION};
    assert_int_equal(seek(7, unknown, &err), -1);
    assert_int_equal(asked, 1);
}

static void without_an_offset_it_goes_to_the_beginning(void **state)
{
    struct rp_error err;
    (void)state;
    const rd_kafka_resp_err_t good[] = {RD_KAFKA_RESP_ERR_NO_ERROR};
    assert_int_equal(seek(RD_KAFKA_OFFSET_INVALID, good, &err), 0);
    assert_int_equal(sought, RD_KAFKA_OFFSET_BEGINNING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seek_that_came_too_late_is_told_once_more),
        cmocka_unit_test(a_seek_that_comes_too_late_twice_fails),
        cmocka_unit_test(another_failure_is_not_tried_again),
        cmocka_unit_test(without_an_offset_it_goes_to_the_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
