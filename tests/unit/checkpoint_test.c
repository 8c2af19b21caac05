/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "frontier.h"
#include "reprise/rng.h"

static bool reads(const char *text, int64_t low)
{
    struct checkpoint c;
    return checkpoint_read(rp_str(text), low, &c);
}

static void expect_text(const struct checkpoint *c, int64_t low, const char *text)
{
    char got[FRONTIER_METADATA_MAX];
    checkpoint_write(c, low, got, sizeof got);
    assert_string_equal(got, text);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const char *const good[] = {
        "reprise/1 high=5 settled=- reach=0:60000",
        "reprise/1 high=10 settled=1763700000123:9 reach=0:60000,5:120000",
        "reprise/1 high=10 settled=-9223372036854775808:0 reach=-3:0",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct checkpoint c;
        assert_true(checkpoint_read(rp_str(good[i]), 4, &c));
        expect_text(&c, 4, good[i]);
    }
}

static void the_longest_text_fits(void **state)
{
    (void)state;
    const int64_t low = INT64_MAX - 100;
    struct checkpoint c, again;
    checkpoint_init(&c, INT64_MAX - 1, INT64_MAX);
    c.settled = (struct settle_key){INT64_MIN, INT64_MAX - 2};
    c.n_reaches = CHECKPOINT_MAX_REACHES;
    for (int i = 0; i < CHECKPOINT_MAX_REACHES; i++)
        c.reaches[i] = (struct reach){low + i, INT64_MAX - i};
    char text[FRONTIER_METADATA_MAX];
    checkpoint_write(&c, low, text, sizeof text);
    assert_true(checkpoint_read(rp_str(text), low, &again));
    expect_text(&again, low, text);
}

static void text_that_says_something_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        NULL,
        "",
        "x",
        "reprise/1",
        "reprise/2 high=9 settled=- reach=0:1",
        "reprise/1 high= settled=- reach=0:1",
        "reprise/1 high=-1 settled=- reach=0:1",
        "reprise/1 high=99999999999999999999 settled=- reach=0:1",
        "reprise/1 high=9 settled=5 reach=0:1",
        "reprise/1 high=9 settled=5:-1 reach=0:1",
        "reprise/1 high=9 settled=-5 reach=0:1",
        "reprise/1 high=9 settled=- reach=",
        "reprise/1 high=9 settled=- reach=0:-1",
        "reprise/1 high=9 settled=- reach=0:1,",
        "reprise/1 high=9 settled=- reach=0:1 ",
        " reprise/1 high=9 settled=- reach=0:1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(reads(bad[i], 4));
}

static void text_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    assert_false(reads("reprise/1 high=9 settled=5:9 reach=0:1", 4)); /* settled but not read */
    assert_false(reads("reprise/1 high=3 settled=- reach=0:1", 4));   /* high below low */
    assert_false(reads("reprise/1 high=9 settled=- reach=5:1", 4));   /* none counts at low */
    assert_false(reads("reprise/1 high=9 settled=- reach=0:1,0:2", 4));
    assert_false(
        reads("reprise/1 high=9 settled=- reach=0:1,10:2", 4)); /* one begins behind high */
}

static void each_cut_of_a_text_is_read_within_its_bounds(void **state)
{
    (void)state;
    const char *text = "reprise/1 high=9 settled=-77:3 reach=0:1,5:22";
    for (size_t n = 0; n <= strlen(text); n++) {
        char *copy = malloc(n + 1); /* it ends where the text does, so that a sanitizer sees */
        assert_non_null(copy);
        char *at = copy + 1;
        memcpy(at, text, n);
        struct checkpoint c;
        bool whole_list = n == strlen(text) || n == strlen(text) - 1 || n == strlen(text) - 5;
        assert_int_equal(checkpoint_read((struct rp_bytes){at, n}, 4, &c), whole_list);
        free(copy);
    }
}

/* Whatever is read must be safe to go on with, and come back the same when written. */
static void garbled_text_is_refused_or_makes_sense(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789-:,= rephsdticlgu/";
    struct rp_rng rng;
    rp_rng_init(&rng, 1);
    size_t n_read = 0;
    for (int i = 0; i < 300000; i++) {
        char text[] = "reprise/1 high=1234 settled=1763700000123:987 reach=0:60000,800:120000";
        char again[FRONTIER_METADATA_MAX];
        for (int64_t edits = rp_rng_between(&rng, 1, 3); edits > 0; edits--)
            text[rp_rng_between(&rng, 0, sizeof text - 2)] =
                alphabet[rp_rng_between(&rng, 0, sizeof alphabet - 2)];
        struct checkpoint c, same;
        if (!checkpoint_read(rp_str(text), 500, &c))
            continue;
        n_read++;
        assert_true(c.high >= 500 && c.settled.offset < c.high);
        checkpoint_write(&c, 500, again, sizeof again);
        assert_true(checkpoint_read(rp_str(again), 500, &same));
        assert_int_equal(same.high, c.high);
        assert_int_equal(same.settled.ms, c.settled.ms);
        assert_int_equal(checkpoint_reach(&same, 1000), checkpoint_reach(&c, 1000));
    }
    assert_true(n_read > 1000);
}

static void the_reach_of_an_offset_is_the_last_that_begins_at_or_below_it(void **state)
{
    (void)state;
    struct checkpoint c;
    assert_true(checkpoint_read(rp_str("reprise/1 high=30 settled=- reach=0:1,10:2,20:3"), 5, &c));
    assert_int_equal(checkpoint_reach(&c, 5), 1);
    assert_int_equal(checkpoint_reach(&c, 9), 1);
    assert_int_equal(checkpoint_reach(&c, 10), 2);
    assert_int_equal(checkpoint_reach(&c, 99), 3);
}

static void a_reach_that_low_has_passed_is_left_out(void **state)
{
    (void)state;
    struct checkpoint c;
    assert_true(checkpoint_read(rp_str("reprise/1 high=30 settled=- reach=0:1,10:2,20:3"), 5, &c));
    expect_text(&c, 10, "reprise/1 high=30 settled=- reach=10:2,20:3");
    expect_text(&c, 30, "reprise/1 high=30 settled=- reach=20:3");
}

static void a_changed_reach_counts_from_high_on(void **state)
{
    (void)state;
    struct checkpoint c;
    checkpoint_init(&c, 30, 1);
    checkpoint_change_reach(&c, 1);
    expect_text(&c, 5, "reprise/1 high=30 settled=- reach=0:1");
    checkpoint_change_reach(&c, 2);
    expect_text(&c, 5, "reprise/1 high=30 settled=- reach=0:1,30:2");
}

static void a_reach_that_never_counted_is_replaced(void **state)
{
    (void)state;
    struct checkpoint c;
    checkpoint_init(&c, 30, 1);
    checkpoint_change_reach(&c, 2);
    checkpoint_change_reach(&c, 3);
    expect_text(&c, 5, "reprise/1 high=30 settled=- reach=0:1,30:3");
}

static void a_full_list_of_reaches_keeps_the_last(void **state)
{
    (void)state;
    const char *text = "reprise/1 high=90 settled=- reach=0:1,10:2,20:3,30:4,40:5,50:6,60:7,70:8";
    struct checkpoint c;
    assert_true(checkpoint_read(rp_str(text), 5, &c));
    checkpoint_change_reach(&c, 9);
    expect_text(&c, 5, text);
    assert_false(reads("reprise/1 high=90 settled=- reach=0:1,1:2,2:3,3:4,4:5,5:6,6:7,7:8,8:9", 5));
}

static void a_cut_forgets_what_was_said_behind_it(void **state)
{
    (void)state;
    struct checkpoint c;
    assert_true(
        checkpoint_read(rp_str("reprise/1 high=30 settled=7:25 reach=0:1,10:2,20:3"), 5, &c));
    checkpoint_cut(&c, 40);
    expect_text(&c, 5, "reprise/1 high=30 settled=7:25 reach=0:1,10:2,20:3");
    checkpoint_cut(&c, 15);
    expect_text(&c, 5, "reprise/1 high=15 settled=7:14 reach=0:1,10:2,15:3");
    checkpoint_cut(&c, 0);
    expect_text(&c, 0, "reprise/1 high=0 settled=- reach=0:3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_longest_text_fits),
        cmocka_unit_test(text_that_says_something_else_is_refused),
        cmocka_unit_test(text_that_contradicts_itself_is_refused),
        cmocka_unit_test(each_cut_of_a_text_is_read_within_its_bounds),
        cmocka_unit_test(garbled_text_is_refused_or_makes_sense),
        cmocka_unit_test(the_reach_of_an_offset_is_the_last_that_begins_at_or_below_it),
        cmocka_unit_test(a_reach_that_low_has_passed_is_left_out),
        cmocka_unit_test(a_changed_reach_counts_from_high_on),
        cmocka_unit_test(a_reach_that_never_counted_is_replaced),
        cmocka_unit_test(a_full_list_of_reaches_keeps_the_last),
        cmocka_unit_test(a_cut_forgets_what_was_said_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
