/* SPDX-License-Identifier: Apache-2.0 */
/* What of its partitions an owner tells those who wait for the archive: on a real PostgreSQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "parts.h"
#include "store_fixture.h"

/* Both are archived up to 5. */
static struct store *two_parts(struct part parts[2])
{
    struct store *s = open_store("a");
    for (int32_t i = 0; i < 2; i++) {
        parts[i] = (struct part){.claim = {.partition = i}, .live = true, .position = 5};
        claim(s, &parts[i].claim);
        assert_int_equal(write_rows(s, &parts[i].claim, 5), 5);
    }
    return s;
}

/* Whether one is no longer ours. */
static bool tell(struct parts *p, struct store *s, int64_t now_mono_ms)
{
    bool lost;
    if (parts_tell_ends(p, s, now_mono_ms, &lost, &err) != 0)
        fail_msg("%s", err.text);
    return lost;
}

static void of_what_has_nothing_in_hand_the_end_is_told(void **state)
{
    (void)state;
    struct part parts[2];
    struct parts p = {.items = parts, .n = 2};
    struct store *s = two_parts(parts);
    (void)tell(&p, s, 1000);
    expect(OFFSETS, "5/0 5/0"); /* nothing is known of what is behind */
    parts[0].end = parts[1].end = 8;
    parts[1].position = 7;
    (void)tell(&p, s, 1999);
    expect(OFFSETS, "5/0 5/0"); /* too soon */
    (void)tell(&p, s, 2000);
    expect(OFFSETS, "5/8 5/0");
    assert_int_equal(write_rows(s, &parts[1].claim, 7), 2);
    (void)tell(&p, s, 3000);
    expect(OFFSETS, "5/8 7/8");
    parts[0].position = 9;
    assert_int_equal(write_rows(s, &parts[0].claim, 9), 4);
    expect(OFFSETS, "9/0 7/8"); /* where it is now, its rows tell, */
    parts[1].end = 10;
    (void)tell(&p, s, 4000);
    assert_int_equal(write_rows(s, &parts[1].claim, 8), 1);
    parts[1].position = 8;
    (void)tell(&p, s, 5000);
    expect(OFFSETS, "9/0 8/10"); /* and an end that was told before is told anew */
    store_free(s);
}

static void what_was_told_outlives_its_owner_who_may_not_change_it(void **state)
{
    (void)state;
    struct part parts[2];
    struct parts p = {.items = parts, .n = 2};
    struct store *s = two_parts(parts), *zombie = open_store("z");
    struct store_claim taken = {.partition = 1};
    parts[0].end = parts[1].end = 8;
    (void)tell(&p, s, 1000);
    claim(zombie, &taken);
    assert_int_equal(taken.seen_end, 8);
    expect(OFFSETS, "5/8 5/8");
    parts[0].end = parts[1].end = 9;
    assert_true(tell(&p, s, 2000));
    assert_int_equal(parts[0].claim.epoch, 1);
    assert_int_equal(parts[1].claim.epoch, 0);
    expect(OFFSETS, "5/9 5/8");
    claim(s, &parts[1].claim);
    assert_false(tell(&p, s, 3000));
    expect(OFFSETS, "5/9 5/9");
    store_free(s);
    store_free(zombie);
}

/* A leader that lost what it had confirmed. */
static void an_end_that_went_back_is_told_too(void **state)
{
    (void)state;
    struct part parts[2];
    struct parts p = {.items = parts, .n = 2};
    struct store *s = two_parts(parts);
    parts[0].end = parts[1].end = 8;
    (void)tell(&p, s, 1000);
    parts[0].end = 6;
    parts[1].end = 5; /* where the rows end */
    (void)tell(&p, s, 2000);
    expect(OFFSETS, "5/6 5/5");
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(of_what_has_nothing_in_hand_the_end_is_told),
        FRESH(what_was_told_outlives_its_owner_who_may_not_change_it),
        FRESH(an_end_that_went_back_is_told_too),
    };
    return store_fixture_dsn() == NULL ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
