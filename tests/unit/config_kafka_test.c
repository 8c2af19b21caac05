/* SPDX-License-Identifier: Apache-2.0 */
/* What a file says of librdkafka's properties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "config_fixture.h"

static void a_property_that_librdkafka_lacks_is_refused_with_its_line(void **state)
{
    (void)state;
    char expected[512];
    (void)snprintf(expected, sizeof expected, "%s", "3: kafka.linger.mz: librdkafka ");
    const char *text = "kafka:\n  bootstrap.servers: k:1\n  linger.mz: 5\n";
    assert_null(load_text(text, strlen(text)));
    assert_memory_equal(faults, expected, strlen(expected));
    assert_non_null(strstr(faults, "has no such property (did you mean linger.ms?)\n"));
}

static void a_value_that_librdkafka_refuses_is_refused_with_its_line(void **state)
{
    (void)state;
    const char *text = "kafka:\n  producer:\n    compression.type: brotli\n";
    assert_null(load_text(text, strlen(text)));
    assert_memory_equal(faults, "3: kafka.producer.compression.type: librdkafka says: ", 53);
}

static void properties_that_break_a_promise_are_refused(void **state)
{
    (void)state;
    assert_faults("kafka:\n"
                  "  transactional.id: mine\n"
                  "  producer: {enable.idempotence: false, acks: 1}\n"
                  "  consumer: {isolation.level: read_uncommitted, enable.auto.commit: true}\n",
                  "2: kafka.transactional.id: is set by reprise: each worker has its own, made "
                  "from `instance`\n"
                  "3: kafka.producer.enable.idempotence: contradicts guarantee: exactly-once: must "
                  "be true, since transactions need it\n"
                  "3: kafka.producer.acks: contradicts reprise's promises: must be all, since what "
                  "one broker alone has may be lost with it\n"
                  "4: kafka.consumer.isolation.level: contradicts guarantee: exactly-once: must be "
                  "read_committed, since aborted records must not be read\n"
                  "4: kafka.consumer.enable.auto.commit: contradicts reprise's promises: must be "
                  "false, since offsets are committed with what they stand for\n");
}

static void without_transactions_their_properties_are_free(void **state)
{
    (void)state;
    rp_config_free(load_good("guarantee: at-least-once\n"
                             "kafka: {enable.idempotence: false, acks: all}\n"));
    rp_config_free(load_good("kafka: {enable.idempotence: true, acks: -1}\n"));
}

static void without_transactions_nothing_may_be_lost_either(void **state)
{
    (void)state;
    assert_faults("guarantee: at-least-once\n"
                  "kafka: {acks: 1, statistics.interval.ms: 1000}\n",
                  "2: kafka.acks: contradicts reprise's promises: must be all, since what one "
                  "broker alone has may be lost with it\n"
                  "2: kafka.statistics.interval.ms: contradicts reprise's promises: must be 0, "
                  "since nobody takes what would be queued for ever\n");
}

static void a_producer_that_tells_of_errors_only_is_refused(void **state)
{
    (void)state;
    assert_faults("kafka: {delivery.report.only.error: true}\n",
                  "1: kafka.delivery.report.only.error: contradicts reprise's promises: must be "
                  "false, since each record's delivery is waited for\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_property_that_librdkafka_lacks_is_refused_with_its_line),
        cmocka_unit_test(a_value_that_librdkafka_refuses_is_refused_with_its_line),
        cmocka_unit_test(properties_that_break_a_promise_are_refused),
        cmocka_unit_test(without_transactions_their_properties_are_free),
        cmocka_unit_test(without_transactions_nothing_may_be_lost_either),
        cmocka_unit_test(a_producer_that_tells_of_errors_only_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
