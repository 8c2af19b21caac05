/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "policies.h"

static struct rp_config *plain, *extended;

static const char *category_of(const struct rp_config *c, const struct rp_failed_task *task)
{
    return rp_classify(c->policies, task)->name;
}

static const char *category_of_class(const struct rp_config *c, const char *name)
{
    const struct rp_failed_task task = {.error_class = rp_str(name)};
    return category_of(c, &task);
}

static const char *category_of_message(const struct rp_config *c, const char *text)
{
    const struct rp_failed_task task = {.error_class = rp_str("E"), .error_message = rp_str(text)};
    return category_of(c, &task);
}

static void what_java_python_and_go_report_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *name, *category;
    } cases[] = {
        {"java.net.ConnectException", "NETWORK"},
        {"java.net.SocketTimeoutException", "TIMEOUT"},
        {"java.lang.IllegalArgumentException", "INVALID"},
        {"java.lang.NullPointerException", "BUG"},
        {"org.springframework.dao.DeadlockLoserDataAccessException", "DEADLOCK"},
        {"javax.persistence.OptimisticLockException", "DEADLOCK"},
        {"java.io.FileNotFoundException", "NOT_FOUND"},
        {"java.lang.ClassNotFoundException", "BUG"},
        {"java.nio.file.AccessDeniedException", "UNAUTHORIZED"},
        {"java.util.concurrent.RejectedExecutionException", "BUSY"},
        {"TimeoutError", "TIMEOUT"},
        {"requests.exceptions.ConnectionError", "NETWORK"},
        {"ConnectionRefusedError", "NETWORK"},
        {"KeyError", "BUG"},
        {"ModuleNotFoundError", "BUG"},
        {"json.decoder.JSONDecodeError", "INVALID"},
        {"PermissionError", "UNAUTHORIZED"},
        {"psycopg2.errors.UniqueViolation", "CONFLICT"},
        {"psycopg2.errors.DeadlockDetected", "DEADLOCK"},
        {"stripe.error.RateLimitError", "RATE_LIMITED"},
        {"*net.OpError", "NETWORK"},
        {"net.OpError", "NETWORK"},
        {"context.deadlineExceededError", "TIMEOUT"},
        {"*json.SyntaxError", "INVALID"},
        {"runtime.boundsError", "BUG"},
        {"com.acme.ServiceUnavailableException", "UNAVAILABLE"},
        {"com.acme.Strange", "UNKNOWN"},
        {"", "UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(category_of_class(plain, cases[i].name), cases[i].category);
}

static void a_known_category_of_the_event_counts_first(void **state)
{
    (void)state;
    struct rp_failed_task task = {.error_class = rp_str("KeyError"),
                                  .error_category = rp_str("rate_limited")};
    assert_string_equal(category_of(plain, &task), "RATE_LIMITED");
    task.error_category = rp_str("RATE_LIMITED_");
    assert_string_equal(category_of(plain, &task), "BUG");
    task.error_category = rp_str("");
    assert_string_equal(category_of(plain, &task), "BUG");
}

static void causes_are_asked_after_the_class_outermost_first(void **state)
{
    (void)state;
    const struct rp_cause causes[] = {
        {rp_str("com.acme.Wrapped"), RP_NULL_BYTES},
        {rp_str("java.net.ConnectException"), RP_NULL_BYTES},
        {rp_str("java.lang.NullPointerException"), RP_NULL_BYTES},
    };
    struct rp_failed_task task = {.error_class = rp_str("java.lang.RuntimeException"),
                                  .error_message = rp_str("deadlock"),
                                  .causes = causes,
                                  .n_causes = 3};
    assert_string_equal(category_of(plain, &task), "NETWORK");
    task.error_class = rp_str("KeyError");
    assert_string_equal(category_of(plain, &task), "BUG");
}

static void the_message_is_asked_last(void **state)
{
    (void)state;
    assert_string_equal(category_of_message(plain, "ERROR: Deadlock detected"), "DEADLOCK");
    assert_string_equal(category_of_message(plain, "Lock wait timeout exceeded"), "DEADLOCK");
    assert_string_equal(category_of_message(plain, "dial tcp: i/o timeout"), "TIMEOUT");
    assert_string_equal(category_of_message(plain, "no idea"), "UNKNOWN");
}

static void configured_rules_come_before_the_built_in_ones(void **state)
{
    (void)state;
    assert_string_equal(category_of_class(extended, "x.QuotaExceededError"), "QUOTA");
    assert_string_equal(category_of_message(extended, "Quota Exceeded, timeout"), "QUOTA");
    assert_string_equal(category_of_class(extended, "KeyError"), "NOT_FOUND");
    assert_string_equal(category_of_class(extended, "acme.KeyError"), "BUG");
    struct rp_failed_task task = {.error_category = rp_str("Quota")};
    assert_string_equal(category_of(extended, &task), "QUOTA");
    assert_string_equal(category_of(plain, &task), "UNKNOWN");
}

static void wildcards_may_stand_anywhere_in_a_rule(void **state)
{
    (void)state;
    assert_string_equal(category_of_class(extended, "Zx"), "QUOTA");
    assert_string_equal(category_of_class(extended, "Zxy"), "UNKNOWN");
    assert_string_equal(category_of_class(extended, "a1b9c9d"), "QUOTA");
    assert_string_equal(category_of_class(extended, "a1b9c"), "UNKNOWN");
    assert_string_equal(category_of_message(extended, "it is OUT  of\tmoney"), "QUOTA");
    assert_string_equal(category_of_message(extended, "~"), "QUOTA");
}

static void an_exact_class_beats_a_glob_of_the_same_file(void **state)
{
    (void)state;
    assert_string_equal(category_of_class(extended, "acme.TimeoutError"), "BUSY");
    assert_string_equal(category_of_class(extended, "acme.Other"), "BUG");
}

static void a_category_may_be_made_persistent_or_not(void **state)
{
    (void)state;
    struct rp_failed_task task = {.error_category = rp_str("TIMEOUT")};
    assert_false(rp_classify(plain->policies, &task)->persistent);
    assert_true(rp_classify(extended->policies, &task)->persistent);
    task.error_category = rp_str("CONFLICT");
    assert_true(rp_classify(plain->policies, &task)->persistent);
    assert_false(rp_classify(extended->policies, &task)->persistent);
}

static void hostile_errors_cost_little_and_break_nothing(void **state)
{
    (void)state;
    size_t n = 1 << 20;
    char *text = malloc(n);
    struct rp_cause *causes = calloc(100000, sizeof *causes);
    assert_non_null(text);
    assert_non_null(causes);
    memset(text, 'a', n);
    for (size_t i = 0; i < 100000; i++)
        causes[i].class_name = (struct rp_bytes){text, n};
    struct rp_failed_task task = {.error_class = {text, n},
                                  .error_message = {text, n},
                                  .error_category = {text, n},
                                  .causes = causes,
                                  .n_causes = 100000};
    assert_string_equal(category_of(plain, &task), "UNKNOWN");
    free(text);
    free(causes);
}

static void a_nul_in_a_class_is_a_byte_like_any_other(void **state)
{
    (void)state;
    const struct rp_failed_task task = {.error_class = {"KeyError\0x", 10}};
    assert_string_equal(category_of(plain, &task), "UNKNOWN");
}

static int load(void **state)
{
    (void)state;
    plain = load_good("");
    extended = load_good("categories:\n"
                         "  QUOTA: {classes: [\"*QuotaExceeded*\", \"Z?\", \"*9*9*\"],\n"
                         "          messages: [quota exceeded, \"Out*of?money\", \"~\"]}\n"
                         "  NOT_FOUND: {classes: [KeyError]}\n"
                         "  bug: {classes: [\"acme.*\"]}\n"
                         "  BUSY: {classes: [acme.TimeoutError]}\n"
                         "  TIMEOUT: {persistent: true}\n"
                         "  CONFLICT: {persistent: false, profile: fast}\n");
    return 0;
}

static int unload(void **state)
{
    (void)state;
    rp_config_free(plain);
    rp_config_free(extended);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_java_python_and_go_report_is_known),
        cmocka_unit_test(a_known_category_of_the_event_counts_first),
        cmocka_unit_test(causes_are_asked_after_the_class_outermost_first),
        cmocka_unit_test(the_message_is_asked_last),
        cmocka_unit_test(configured_rules_come_before_the_built_in_ones),
        cmocka_unit_test(wildcards_may_stand_anywhere_in_a_rule),
        cmocka_unit_test(an_exact_class_beats_a_glob_of_the_same_file),
        cmocka_unit_test(a_category_may_be_made_persistent_or_not),
        cmocka_unit_test(hostile_errors_cost_little_and_break_nothing),
        cmocka_unit_test(a_nul_in_a_class_is_a_byte_like_any_other),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
