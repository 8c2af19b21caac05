/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lessons.h"

static const char topic[] = "retry-1s";

static int refuse_as(struct rp_lessons *l, int64_t offset, bool alone, bool letter)
{
    struct rp_error err;
    return rp_lessons_add(l, topic, 0, offset, alone, letter, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                          &err);
}

static int refuse(struct rp_lessons *l, int64_t offset, bool alone)
{
    return refuse_as(l, offset, alone, false);
}

static void a_record_that_failed_among_others_is_tried_alone(void **state)
{
    (void)state;
    struct rp_lessons l = {0};
    assert_int_equal(refuse(&l, 7, false), 1);
    assert_null(rp_lessons_find(&l, topic, 0, 6));
    assert_false(rp_lessons_find(&l, topic, 0, 7)->refused);
    rp_lessons_clear(&l);
}

static void a_record_that_failed_alone_is_to_blame(void **state)
{
    (void)state;
    struct rp_lessons l = {0};
    assert_int_equal(refuse(&l, 7, false), 1);
    assert_int_equal(refuse(&l, 7, true), 1);
    const struct rp_lesson *lesson = rp_lessons_find(&l, topic, 0, 7);
    assert_true(lesson->refused);
    assert_int_equal(lesson->reason, RP_OVERSIZED);
    rp_lessons_clear(&l);
}

/* Whoever tries again at once on news must not do so for ever. */
static void the_same_failure_again_is_no_news(void **state)
{
    (void)state;
    struct rp_lessons l = {0};
    assert_int_equal(refuse(&l, 7, false), 1);
    assert_int_equal(refuse(&l, 7, false), 0);
    assert_int_equal(refuse(&l, 7, true), 1);
    assert_int_equal(refuse(&l, 7, true), 0);
    for (int i = 0; i < RP_BURY_MOST; i++)
        assert_int_equal(refuse_as(&l, 7, true, true), 1);
    assert_int_equal(refuse_as(&l, 7, true, true), 0);
    assert_int_equal(rp_lessons_find(&l, topic, 0, 7)->letters_refused, RP_BURY_MOST);
    rp_lessons_clear(&l);
}

static void a_dead_letter_that_is_refused_says_nothing_of_its_record(void **state)
{
    (void)state;
    struct rp_lessons l = {0};
    assert_int_equal(refuse_as(&l, 7, true, true), 1);
    assert_false(rp_lessons_find(&l, topic, 0, 7)->refused);
    assert_int_equal(rp_lessons_find(&l, topic, 0, 7)->letters_refused, 1);
    rp_lessons_clear(&l);
}

static void what_is_behind_us_is_forgotten(void **state)
{
    (void)state;
    struct rp_lessons l = {0};
    assert_int_equal(refuse(&l, 7, false), 1);
    assert_int_equal(refuse(&l, 8, false), 1);
    rp_lessons_forget(&l, topic, 0, 7);
    assert_null(rp_lessons_find(&l, topic, 0, 7));
    assert_non_null(rp_lessons_find(&l, topic, 0, 8));
    rp_lessons_clear(&l);
}

static void a_partition_goes_with_all_that_is_known_of_it(void **state)
{
    (void)state;
    struct rp_lessons l = {0};
    struct rp_error err;
    const char same[] = "retry-1s"; /* the words count here, not the pointer */
    assert_int_equal(refuse(&l, 7, false), 1);
    assert_int_equal(refuse(&l, 8, false), 1);
    assert_int_equal(
        rp_lessons_add(&l, topic, 1, 7, false, false, RD_KAFKA_RESP_ERR_INVALID_MSG, &err), 1);
    rp_lessons_forget_partition(&l, same, 0);
    assert_int_equal(l.n, 1);
    assert_non_null(rp_lessons_find(&l, topic, 1, 7));
    rp_lessons_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_failed_among_others_is_tried_alone),
        cmocka_unit_test(a_record_that_failed_alone_is_to_blame),
        cmocka_unit_test(the_same_failure_again_is_no_news),
        cmocka_unit_test(a_dead_letter_that_is_refused_says_nothing_of_its_record),
        cmocka_unit_test(what_is_behind_us_is_forgotten),
        cmocka_unit_test(a_partition_goes_with_all_that_is_known_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
