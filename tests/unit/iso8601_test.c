/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <time.h>

#include "iso8601.h"
#include "reprise/rng.h"

static void assert_time(const char *text, int64_t expected_ms)
{
    int64_t ms;
    if (!rp_iso8601_parse(rp_str(text), &ms))
        fail_msg("'%s' is not read", text);
    assert_int_equal(ms, expected_ms);
}

static void times_are_read_as_programs_print_them(void **state)
{
    (void)state;
    assert_time("1970-01-01T00:00:00Z", 0);
    assert_time("2026-11-21T03:34:33Z", 1795232073000);
    assert_time("2026-11-21T03:34:33.5Z", 1795232073500);
    assert_time("2026-11-21T03:34:33.123456789Z", 1795232073123);
    assert_time("2026-11-21T03:34:33,123456789+00:00", 1795232073123);
    assert_time("2026-11-21T03:34:33.123456", 1795232073123);
    assert_time("2026-11-21 03:34:33+0000", 1795232073000);
    assert_time("2026-11-21t03:34:33z", 1795232073000);
    assert_time("2026-11-21T03:34Z", 1795232040000);
    assert_time("2026-11-21T04:34:33+01", 1795232073000);
    assert_time("2026-11-20T22:04:33-05:30", 1795232073000);
    assert_time("2016-12-31T23:59:60Z", 1483228800000);
    assert_time("1969-12-31T23:59:59.999Z", -1);
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "now",
        "2026-11-21",
        "2026-11-21T",
        "2026x11-21T00:00Z",
        "2026-11x21T00:00Z",
        "2026-11-21T00x00Z",
        "2026-13-01T00:00Z",
        "2026-02-29T00:00Z",
        "2026-11-21T24:00Z",
        "2026-11-21T03:60Z",
        "2026-11-21T03:34:61Z",
        "2026-11-21T03:34:33.Z",
        "2026-11-21T03:34:33Zx",
        "2026-11-21T03:34:33+1",
        "2026-11-21T03:34:33+01:",
        "26-11-21T03:34Z",
        "2026-11-21T03:34:33 UTC",
        "0000-01-01T00:00Z",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t ms;
        if (rp_iso8601_parse(rp_str(texts[i]), &ms))
            fail_msg("'%s' is read as %lld", texts[i], (long long)ms);
    }
}

static void a_nul_does_not_end_a_time(void **state)
{
    (void)state;
    int64_t ms;
    assert_false(rp_iso8601_parse((struct rp_bytes){"2026-11-21T03:34:33\0", 20}, &ms));
}

/* timegm() and strftime() are the oracle. */
static void any_second_of_any_year_agrees_with_the_system(void **state)
{
    (void)state;
    struct rp_rng rng;
    rp_rng_init(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        time_t seconds = (time_t)rp_rng_between(&rng, -62135596800, 253402300799);
        struct tm tm;
        char text[40];
        assert_non_null(gmtime_r(&seconds, &tm));
        (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        assert_time(text, (int64_t)seconds * 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read_as_programs_print_them),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(a_nul_does_not_end_a_time),
        cmocka_unit_test(any_second_of_any_year_agrees_with_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
