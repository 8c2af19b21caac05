/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a file while memory runs out, at each allocation of ours in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "memory_fixture.h"

static const char good[] =
    "instance: ${env:REPRISE_TEST_UNSET:-a}\n"
    "tiers: [1s, 2s]\n"
    "kafka: {linger.ms: 1, consumer: {fetch.min.bytes: 2}}\n"
    "targets: {allow: [a, b]}\n"
    "retention: {by_type: {a: 2d}, export: /tmp}\n"
    "categories: {MINE: {classes: [\"a*\", b], messages: [c]}}\n"
    "policies:\n"
    "  a: {target: t, fallback: f, retryable: [x], non_retryable: [y],\n"
    "      retry: {any_of: [{max_attempts: 2}, {all_of: [always, {deadline: 1h}]}]},\n"
    "      overrides: {MINE: {max_attempts: 2, backoff: {uniform: {min: 1s, max: 2s}}}}}\n"
    "  \"b*\": {preset: long}\n";

static const char bad[] = "routr: 1\n"
                          "kafka: {linger.mz: 1, acks: many}\n"
                          "policies: {a: {overrides: {NONE: {}}}}\n";

/* Returns how many allocations the whole file takes. */
static int load_starved(const char *text, bool is_good)
{
    for (int n = 1;; n++) {
        memory_fail_at(n);
        struct rp_config *c = load_text(text, strlen(text));
        bool done = !memory_failed();
        memory_fail_at(0);
        assert_int_equal(c != NULL, done && is_good); /* refused, whatever it is that is missing */
        if (c == NULL)
            assert_int_not_equal(load_error.text[0], '\0');
        rp_config_free(c);
        if (done)
            return n - 1;
    }
}

static void a_good_file_is_refused_when_any_memory_is_missing(void **state)
{
    (void)state;
    assert_true(load_starved(good, true) > 200);
}

static void a_bad_file_stays_refused(void **state)
{
    (void)state;
    assert_true(load_starved(bad, false) > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_refused_when_any_memory_is_missing),
        cmocka_unit_test(a_bad_file_stays_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
