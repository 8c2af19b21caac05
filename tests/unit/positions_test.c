/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "positions.h"

static struct positions positions;

static int tear_down(void **state)
{
    (void)state;
    positions_clear(&positions);
    return 0;
}

static void set(int32_t partition, int64_t next)
{
    struct rp_error err;
    assert_int_equal(positions_set(&positions, partition, next, &err), 0);
}

static void advance(int32_t partition, int64_t offset, int32_t epoch)
{
    struct rp_error err;
    assert_int_equal(positions_advance(&positions, partition, offset, epoch, &err), 0);
}

static void assert_is(enum position_kind kind, int32_t partition, int64_t offset, int32_t epoch)
{
    assert_int_equal(position_look(positions_find(&positions, partition), offset, epoch), kind);
}

static void what_rises_is_read_on(void **state)
{
    (void)state;
    assert_is(POSITION_NEXT, 0, 5, 1); /* nothing is known of the partition */
    advance(0, 5, 1);
    assert_int_equal(positions_next(&positions, 0), 6);
    assert_is(POSITION_NEXT, 0, 6, 1);
    assert_is(POSITION_NEXT, 0, 60, 2); /* gaps are fine */
    assert_is(POSITION_NEXT, 1, 5, 1);
}

static void what_comes_from_before_is_asked_about_once_in_a_run(void **state)
{
    (void)state;
    advance(0, 5, 1);
    assert_is(POSITION_ASK, 0, 0, 1);
    assert_is(POSITION_ASK, 0, 4, 1);
    positions_find(&positions, 0)->repeated = 4;
    assert_is(POSITION_REPEAT, 0, 5, 1);
    assert_is(POSITION_ASK, 0, 2, 1);
    advance(0, 6, 1);
    assert_is(POSITION_ASK, 0, 5, 1);
}

/* An unclean election: the new leader's records took the place of the old one's. */
static void a_younger_epoch_took_the_place_of_what_was_cut(void **state)
{
    (void)state;
    advance(0, 5, 1);
    assert_is(POSITION_CUT, 0, 4, 2);
    advance(0, 4, 2);
    assert_int_equal(positions_next(&positions, 0), 5);
    assert_is(POSITION_NEXT, 0, 5, 2);
}

static void where_epochs_are_not_known_they_tell_nothing(void **state)
{
    (void)state;
    set(0, 6);
    assert_is(POSITION_ASK, 0, 5, 7);
    advance(0, 6, -1);
    assert_is(POSITION_ASK, 0, 5, -1);
    assert_is(POSITION_ASK, 0, 5, 7); /* a broker of another version */
}

static void what_is_sought_is_expected_next(void **state)
{
    (void)state;
    advance(0, 5, 1);
    set(0, 3);
    assert_is(POSITION_NEXT, 0, 3, 1);
    assert_is(POSITION_ASK, 0, 2, 1);
    set(0, 9);
    assert_is(POSITION_ASK, 0, 8, 1);
}

static void a_partition_that_is_forgotten_begins_anywhere(void **state)
{
    (void)state;
    for (int32_t partition = 0; partition < 40; partition++)
        advance(partition, 5, 1);
    positions_forget(&positions, 7);
    positions_forget(&positions, 7);
    assert_int_equal(positions_next(&positions, 7), -1);
    assert_is(POSITION_NEXT, 7, 0, 0);
    for (int32_t partition = 0; partition < 40; partition++)
        assert_int_equal(positions_next(&positions, partition), partition == 7 ? -1 : 6);
}

/* Behind the last record there may be marks of transactions, or nothing else at all. */
static void up_to_an_end_that_was_told_all_came(void **state)
{
    struct rp_error err;
    (void)state;
    assert_int_equal(positions_reached(&positions, 0), 0);
    assert_int_equal(positions_ended(&positions, 0, 3, &err), 0);
    assert_int_equal(positions_reached(&positions, 0), 3);
    assert_int_equal(positions_next(&positions, 0), -1);
    assert_is(POSITION_NEXT, 0, 0, 0);
    advance(0, 5, 1);
    assert_int_equal(positions_reached(&positions, 0), 6);
    assert_int_equal(positions_ended(&positions, 0, 8, &err), 0);
    assert_int_equal(positions_reached(&positions, 0), 8);
    assert_int_equal(positions_next(&positions, 0), 6);
    set(0, 6);
    assert_int_equal(positions_reached(&positions, 0), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
        TEST(what_rises_is_read_on),
        TEST(what_comes_from_before_is_asked_about_once_in_a_run),
        TEST(a_younger_epoch_took_the_place_of_what_was_cut),
        TEST(where_epochs_are_not_known_they_tell_nothing),
        TEST(what_is_sought_is_expected_next),
        TEST(a_partition_that_is_forgotten_begins_anywhere),
        TEST(up_to_an_end_that_was_told_all_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
