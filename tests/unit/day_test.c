/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "day.h"

#define HOUR_MS INT64_C(3600000)
#define NOON    (20778 * DAY_MS + 12 * HOUR_MS) /* 2026-11-21, 12:00 */
#define KEEP    (30 * DAY_MS)

static void a_day_begins_at_midnight_utc_also_before_1970(void **state)
{
    (void)state;
    assert_int_equal(day_of(0), 0);
    assert_int_equal(day_of(DAY_MS - 1), 0);
    assert_int_equal(day_of(DAY_MS), 1);
    assert_int_equal(day_of(-1), -1);
    assert_int_equal(day_of(-DAY_MS), -1);
    assert_int_equal(day_of(-DAY_MS - 1), -2);
}

static void a_day_is_written_as_a_date(void **state)
{
    (void)state;
    char text[DAY_TEXT_SIZE];
    day_text(day_of(NOON), text);
    assert_string_equal(text, "2026-11-21");
    day_text(11016, text);
    assert_string_equal(text, "2000-02-29");
}

static void a_dead_letter_is_dead_from_its_decision_on(void **state)
{
    (void)state;
    assert_int_equal(day_dead_at(NOON - 5, NOON - 3, NOON, KEEP), NOON - 5);
    assert_int_equal(day_dead_at(NOON - KEEP + 1, NOON, NOON, KEEP), NOON - KEEP + 1);
    assert_int_equal(day_dead_at(NOON + DAY_MS, NOON, NOON, KEEP), NOON + DAY_MS);
}

static void a_decision_at_a_senseless_time_counts_from_its_record(void **state)
{
    (void)state;
    assert_int_equal(day_dead_at(NOON - KEEP, NOON - 3, NOON, KEEP), NOON - 3);
    assert_int_equal(day_dead_at(NOON + DAY_MS + 1, NOON - 3, NOON, KEEP), NOON - 3);
    assert_int_equal(day_dead_at(INT64_MIN, NOON - 3, NOON, KEEP), NOON - 3);
    assert_int_equal(day_dead_at(INT64_MAX, NOON - 3, NOON, KEEP), NOON - 3);
}

static void where_no_time_makes_sense_it_is_now(void **state)
{
    (void)state;
    assert_int_equal(day_dead_at(0, -1, NOON, KEEP), NOON);
    assert_int_equal(day_dead_at(INT64_MAX, INT64_MAX, NOON, KEEP), NOON);
}

static void the_schedule_names_the_last_such_minute(void **state)
{
    (void)state;
    assert_int_equal(day_scheduled(NOON, 3 * 60), NOON - 9 * HOUR_MS);
    assert_int_equal(day_scheduled(NOON, 12 * 60), NOON);
    assert_int_equal(day_scheduled(NOON, 12 * 60 + 1), NOON - DAY_MS + 60000);
}

/* Whatever is archived stays at least until the next run. */
static void nothing_that_may_be_archived_is_about_to_be_dropped(void **state)
{
    (void)state;
    for (int minute = 0; minute < 24 * 60; minute += 7)
        for (int64_t now = NOON; now < NOON + DAY_MS; now += HOUR_MS / 2)
            for (int64_t keep = HOUR_MS; keep < 3 * DAY_MS; keep += 5 * HOUR_MS)
                assert_true(day_of(now - keep + 1) >= day_keep_from(now, minute, keep));
}

static void a_day_goes_once_all_of_it_is_old(void **state)
{
    (void)state;
    int64_t three = day_of(NOON) * DAY_MS + 3 * HOUR_MS;
    assert_int_equal(day_keep_from(three, 180, KEEP), day_of(NOON) - 30);
    assert_int_equal(day_keep_from(three - 1, 180, KEEP), day_of(NOON) - 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_day_begins_at_midnight_utc_also_before_1970),
        cmocka_unit_test(a_day_is_written_as_a_date),
        cmocka_unit_test(a_dead_letter_is_dead_from_its_decision_on),
        cmocka_unit_test(a_decision_at_a_senseless_time_counts_from_its_record),
        cmocka_unit_test(where_no_time_makes_sense_it_is_now),
        cmocka_unit_test(the_schedule_names_the_last_such_minute),
        cmocka_unit_test(nothing_that_may_be_archived_is_about_to_be_dropped),
        cmocka_unit_test(a_day_goes_once_all_of_it_is_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
