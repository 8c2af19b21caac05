/* SPDX-License-Identifier: Apache-2.0 */
/* The policy commands, on the sample configuration of deploy/local. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli.h"
#include "file_fixture.h"

#define SAMPLE REPRISE_SAMPLE_CONFIG

static const struct cli_command *const commands[] = {&cmd_policy_explain, &cmd_policy_check, NULL};
static char printed[1 << 14];

/* Runs `reprise policy` with these words; what it wrote to stdout and stderr is in `printed`. */
static int run(const char *const *words)
{
    char *argv[16] = {(char[]){"reprise"}, (char[]){"policy"}};
    int argc = 2, saved[2];
    FILE *capture = tmpfile();
    assert_non_null(capture);
    for (; *words != NULL; words++)
        assert_non_null(argv[argc++] = strdup(*words));
    for (int fd = 1; fd <= 2; fd++) {
        (void)fflush(NULL);
        saved[fd - 1] = dup(fd);
        (void)dup2(fileno(capture), fd);
    }
    int rc = cli_main(commands, argc, argv);
    for (int fd = 1; fd <= 2; fd++) {
        (void)fflush(NULL);
        (void)dup2(saved[fd - 1], fd);
        (void)close(saved[fd - 1]);
    }
    rewind(capture);
    printed[fread(printed, 1, sizeof printed - 1, capture)] = '\0';
    assert_int_equal(fclose(capture), 0);
    while (argc > 2)
        free(argv[--argc]);
    return rc;
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void assert_printed(const char *part)
{
    if (strstr(printed, part) == NULL)
        fail_msg("\"%s\" is not in:\n%s", part, printed);
}

static void the_sample_has_no_fault(void **state)
{
    (void)state;
    assert_int_equal(RUN("check", SAMPLE), CLI_OK);
    assert_printed("reprise.yaml: no fault; 5 policies\n");
    assert_int_equal(RUN("check", "--config", SAMPLE), CLI_OK);
}

static void the_samples_policies_are_as_promised(void **state)
{
    (void)state;
    assert_int_equal(RUN("explain", "payment", "-c", SAMPLE), CLI_OK);
    assert_printed("retries   at most 5 executions\n"
                   "delays    exponential from 1s x2, at most 30s, plus 0 to 10% of jitter\n"
                   "target    payments\n");
    assert_int_equal(RUN("explain", "notification", "-c", SAMPLE), CLI_OK);
    assert_printed("retries   at most 3 executions\n"
                   "delays    exponential from 500ms x1.5, at most 10s, plus 0 to 10% of jitter\n");
    assert_int_equal(RUN("explain", "data-sync", "-c", SAMPLE), CLI_OK);
    assert_printed("retries   at most 3 executions\n"
                   "delays    exponential from 2s x2, at most 1m, plus 0 to 10% of jitter\n");
}

static void the_samples_classes_are_those_of_java_python_and_go(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"payment", "java.net.SocketTimeoutException", "listed    retryable: "},
        {"payment", "*net.OpError", "listed    retryable: "},
        {"payment", "requests.exceptions.Timeout", "listed    retryable: "},
        {"payment", "com.example.payments.InsufficientFundsException", "listed    non_retryable: "},
        {"notification", "ValidationError", "listed    non_retryable: "},
        {"notification", "TimeoutError", "listed    retryable: "},
        {"data-sync", "psycopg2.errors.UniqueViolation", "listed    non_retryable: "},
        {"data-sync", "*json.SyntaxError", "listed    non_retryable: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(RUN("explain", cases[i][0], "--error", cases[i][1], "-c", SAMPLE), CLI_OK);
        assert_printed(cases[i][2]);
    }
}

static void the_message_and_the_category_count(void **state)
{
    (void)state;
    assert_int_equal(RUN("explain", "report", "--message", "rate limit exceeded", "-c", SAMPLE),
                     CLI_OK);
    assert_printed("override  the policy's for RATE_LIMITED\n");
    assert_int_equal(RUN("explain", "report", "--category", "rate_limited", "-c", SAMPLE), CLI_OK);
    assert_printed("category  RATE_LIMITED (as the event says), not persistent\n");
    assert_int_equal(RUN("explain", "report", "--category", "RATE_LIMITE", "-c", SAMPLE),
                     CLI_USAGE);
    assert_printed("did you mean 'RATE_LIMITED'?");
    assert_int_equal(RUN("explain", "report", "--category", "xyz", "-c", SAMPLE), CLI_USAGE);
    assert_printed("there is no category 'xyz'\n");
}

static void success_is_a_chance_or_a_percentage(void **state)
{
    (void)state;
    static const char *const bad[] = {"2", "-0.1", "x", "0.5x", "nan", "101%", ""};
    assert_int_equal(RUN("explain", "payment", "--success", "0.6", "-c", SAMPLE), CLI_OK);
    assert_printed(" 98.98%\n");
    assert_int_equal(RUN("explain", "payment", "--success", "60%", "-c", SAMPLE), CLI_OK);
    assert_printed(" 98.98%\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(RUN("explain", "payment", "--success", bad[i], "-c", SAMPLE), CLI_USAGE);
        assert_printed("--success is a chance from 0 to 1");
    }
}

static void a_file_with_faults_is_told_and_fails(void **state)
{
    (void)state;
    assert_int_equal(RUN("check", "/nonexistent.yaml"), CLI_FAULTS);
    assert_printed("/nonexistent.yaml: cannot read it: No such file or directory\n1 fault\n");
    char path[] = "/tmp/reprise-policy-XXXXXX", expected[128];
    file_make(path, "x: 1\ny: 2\n", 10);
    assert_int_equal(RUN("check", path), CLI_FAULTS);
    (void)snprintf(expected, sizeof expected, "%s:2: y: there is no such parameter\n2 faults\n",
                   path);
    assert_printed(expected);
    assert_int_equal(RUN("explain", "payment", "-c", path), CLI_USAGE);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sample_has_no_fault),
        cmocka_unit_test(the_samples_policies_are_as_promised),
        cmocka_unit_test(the_samples_classes_are_those_of_java_python_and_go),
        cmocka_unit_test(the_message_and_the_category_count),
        cmocka_unit_test(success_is_a_chance_or_a_percentage),
        cmocka_unit_test(a_file_with_faults_is_told_and_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
