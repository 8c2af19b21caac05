/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sent.h"

static const char topic[] = "failed-tasks", other[] = "retry-1s";
static const char same[] = "failed-tasks"; /* a partition goes by its words, not by a pointer */
static struct rp_sent sent;

static int tear_down(void **state)
{
    (void)state;
    rp_sent_clear(&sent);
    return 0;
}

static void add(const char *of, int32_t partition, int64_t offset)
{
    struct rp_error err;
    assert_int_equal(rp_sent_add(&sent, of, partition, offset, &err), 0);
}

static void only_what_was_added_is_known(void **state)
{
    (void)state;
    assert_false(rp_sent_has(&sent, topic, 0, 7));
    add(topic, 0, 7);
    add(topic, 0, 5);
    assert_true(rp_sent_has(&sent, topic, 0, 5));
    assert_true(rp_sent_has(&sent, topic, 0, 7));
    assert_false(rp_sent_has(&sent, topic, 0, 6));
    assert_false(rp_sent_has(&sent, topic, 1, 7));
    assert_false(rp_sent_has(&sent, other, 0, 7));
}

static void what_is_behind_us_is_forgotten(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 1000; i++)
        add(topic, (int32_t)(i % 3), 1000 - i);
    rp_sent_forget(&sent, topic, 0, 1000);
    assert_false(rp_sent_has(&sent, topic, 0, 1000));
    assert_true(rp_sent_has(&sent, topic, 1, 999));
    for (int64_t i = 1; i < 1000; i++)
        rp_sent_forget(&sent, topic, (int32_t)(i % 3), 1000 - i);
    assert_int_equal(sent.n, 0);
}

static void a_partition_goes_with_all_that_is_known_of_it(void **state)
{
    (void)state;
    add(topic, 0, 7);
    add(topic, 0, 8);
    add(topic, 1, 7);
    add(other, 0, 7);
    rp_sent_forget_partition(&sent, same, 0);
    assert_false(rp_sent_has(&sent, topic, 0, 7));
    assert_false(rp_sent_has(&sent, topic, 0, 8));
    assert_true(rp_sent_has(&sent, topic, 1, 7));
    assert_true(rp_sent_has(&sent, other, 0, 7));
}

/* The partition came back, and its records failed again. */
static void what_is_added_again_is_known_and_forgotten_again(void **state)
{
    (void)state;
    for (int64_t copies = 1; copies < 5; copies++) {
        add(topic, 1, 1);
        for (int64_t i = 0; i < copies; i++) {
            rp_sent_forget_partition(&sent, topic, 0);
            add(topic, 0, 7);
        }
        assert_true(rp_sent_has(&sent, topic, 0, 7));
        rp_sent_forget(&sent, topic, 0, 7);
        assert_false(rp_sent_has(&sent, topic, 0, 7));
        rp_sent_forget(&sent, topic, 1, 1);
        assert_int_equal(sent.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(only_what_was_added_is_known, tear_down),
        cmocka_unit_test_teardown(what_is_behind_us_is_forgotten, tear_down),
        cmocka_unit_test_teardown(a_partition_goes_with_all_that_is_known_of_it, tear_down),
        cmocka_unit_test_teardown(what_is_added_again_is_known_and_forgotten_again, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
