/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a file while memory runs out, at each allocation of ours in turn. Linked with --wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config_fixture.h"

static int allocations, fail_at;

static bool fails(void)
{
    return ++allocations == fail_at;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails() ? NULL : __real_strndup(s, n);
}

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
static int starve(const char *text, bool is_good)
{
    int n = 0;
    for (fail_at = 1; n == 0; fail_at++) {
        allocations = 0;
        struct rp_config *c = load_text(text, strlen(text));
        if (allocations < fail_at) /* it was not needed */
            n = allocations;
        if (n > 0)
            assert_int_equal(c != NULL, is_good);
        else
            assert_null(c); /* refused, whatever it is that could not be had */
        if (c == NULL)
            assert_int_not_equal(load_error.text[0], '\0');
        rp_config_free(c);
    }
    return n;
}

static void a_good_file_is_refused_when_any_memory_is_missing(void **state)
{
    (void)state;
    assert_true(starve(good, true) > 200);
}

static void a_bad_file_stays_refused(void **state)
{
    (void)state;
    assert_true(starve(bad, false) > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_refused_when_any_memory_is_missing),
        cmocka_unit_test(a_bad_file_stays_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
