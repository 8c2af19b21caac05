/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli_fixture.h"
#include "consent.h"

/* What the commands below were called with, and what was printed. */
static struct {
    int calls;
    char config[64], first[64], second[64], positional[64], many[64];
    bool dry;
} seen;

static int remember(const struct cli_args *args)
{
    const char *first = cli_value(args, "first"), *second = cli_value(args, "second");
    seen.calls++;
    seen.dry = cli_value(args, "dry-run") != NULL;
    (void)snprintf(seen.config, sizeof seen.config, "%s", args->config_file);
    (void)snprintf(seen.first, sizeof seen.first, "%s", first == NULL ? "(null)" : first);
    (void)snprintf(seen.second, sizeof seen.second, "%s", second == NULL ? "(null)" : second);
    seen.positional[0] = seen.many[0] = '\0';
    for (size_t i = 0; cli_value_at(args, "many", i) != NULL; i++) {
        size_t n = strlen(seen.many);
        (void)snprintf(seen.many + n, sizeof seen.many - n, "%s;", cli_value_at(args, "many", i));
    }
    for (size_t i = 0; i < args->n_positional; i++) {
        size_t n = strlen(seen.positional);
        (void)snprintf(seen.positional + n, sizeof seen.positional - n, "%s;", args->positional[i]);
    }
    return CLI_NOTHING;
}

static const struct cli_option options[] = {
    {"first", "N", "the first number"},
    {"second", "N", "the second number"},
    {"dry-run", NULL, "only say what would be done"},
    {"many", "X...", "any number of these"},
    {NULL, NULL, NULL},
};

static const struct cli_command add_command = {.group = "sum",
                                               .name = "add",
                                               .positional = "[FILE] [FILE]",
                                               .summary = "Adds.",
                                               .about = "It adds.",
                                               .options = options,
                                               .run = remember};
static const struct cli_command show_command = {.group = "sum",
                                                .name = "show",
                                                .positional = "TYPE",
                                                .summary = "Shows.",
                                                .options = options,
                                                .run = remember};
static const struct cli_command fail_command = {
    .name = "fail", .summary = "Fails.", .options = options, .run = remember};
static const struct cli_command *const commands[] = {&add_command, &show_command, &fail_command,
                                                     NULL};

static int setup(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    (void)unsetenv("REPRISE_CONFIG");
    return 0;
}

static int run(const char *words)
{
    return cli_run(commands, words);
}

static void assert_refused(const char *words, const char *why)
{
    assert_int_equal(run(words), CLI_USAGE);
    assert_int_equal(seen.calls, 0);
    assert_printed(why);
}

static void a_command_gets_its_options_and_returns_its_code(void **state)
{
    (void)state;
    assert_int_equal(run("sum add --first 1 a --second=2 --dry-run b"), CLI_NOTHING);
    assert_int_equal(seen.calls, 1);
    assert_string_equal(seen.first, "1");
    assert_string_equal(seen.second, "2");
    assert_true(seen.dry);
    assert_string_equal(seen.positional, "a;b;");
}

static void a_command_without_a_group_is_called_by_its_name(void **state)
{
    (void)state;
    assert_int_equal(run("fail --first=x"), CLI_NOTHING);
    assert_string_equal(seen.second, "(null)");
    assert_false(seen.dry);
}

static void a_value_may_be_empty_or_look_like_an_option(void **state)
{
    (void)state;
    assert_int_equal(run("fail --first= --second --first"), CLI_NOTHING);
    assert_string_equal(seen.first, "");
    assert_string_equal(seen.second, "--first");
}

static void an_option_with_many_values_keeps_them_in_order(void **state)
{
    (void)state;
    assert_int_equal(run("fail --many a=1 --first 1 --many=b=2 --many a=1"), CLI_NOTHING);
    assert_string_equal(seen.many, "a=1;b=2;a=1;");
}

static void what_can_be_meant_once_is_refused_the_second_time(void **state)
{
    (void)state;
    assert_refused("fail --first 1 --first 2", "option '--first' is given twice");
    assert_refused("fail --first 1 --dry-run --dry-run", "option '--dry-run' is given twice");
}

static void what_the_arguments_say_reaches_no_terminal_raw(void **state)
{
    (void)state;
    assert_refused("fail --first 1 \x1b[2J", "unexpected argument '\\x1b[2J'");
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    assert_int_equal(run("sum add --first 1 - -- --help"), CLI_NOTHING);
    assert_string_equal(seen.positional, "-;--help;");
}

static void the_configuration_is_named_anywhere_or_in_the_environment(void **state)
{
    (void)state;
    assert_int_equal(run("fail --first 1"), CLI_NOTHING);
    assert_string_equal(seen.config, "reprise.yaml");
    assert_int_equal(setenv("REPRISE_CONFIG", "/etc/env.yaml", 1), 0);
    assert_int_equal(run("fail --first 1"), CLI_NOTHING);
    assert_string_equal(seen.config, "/etc/env.yaml");
    assert_int_equal(run("-c a.yaml fail --first 1"), CLI_NOTHING);
    assert_string_equal(seen.config, "a.yaml");
    assert_int_equal(run("--config=a.yaml fail --config b.yaml --first 1"), CLI_NOTHING);
    assert_string_equal(seen.config, "b.yaml");
    assert_int_equal(run("sum -c c.yaml add --first 1"), CLI_NOTHING);
    assert_string_equal(seen.config, "c.yaml");
}

static void an_unknown_option_is_refused_with_a_suggestion(void **state)
{
    (void)state;
    assert_refused("fail --frist 1", "unknown option '--frist': did you mean '--first'?");
    assert_refused("fail --sec=1", "did you mean '--second'?");
    assert_refused("fail --confg x", "did you mean '--config'?");
    assert_refused("fail --nothing-like-it", "--help lists what there is");
    assert_refused("fail -x", "unknown option '-x'");
    assert_refused("--verson", "unknown option '--verson'");
    assert_refused("sum --verson add", "unknown option '--verson'");
    assert_refused("sum -c", "option '-c' needs a value");
}

static void an_unknown_command_is_refused_with_a_suggestion(void **state)
{
    (void)state;
    assert_refused("sun add", "unknown command 'sun': did you mean 'sum'?");
    assert_refused("sum shwo", "unknown command 'shwo': did you mean 'show'?");
    assert_refused("add", "unknown command 'add'");
    assert_refused("sum fail", "unknown command 'fail'");
}

static void missing_and_superfluous_arguments_are_refused(void **state)
{
    (void)state;
    assert_refused("sum show --first 1", "TYPE is missing");
    assert_refused("fail --first 1 more", "unexpected argument 'more'");
    assert_refused("fail --first", "option '--first' needs a value");
    assert_refused("fail --config", "option '--config' needs a value");
    assert_refused("fail --first 1 --dry-run=yes", "option '--dry-run' takes no value");
}

static void help_is_there_at_each_level(void **state)
{
    (void)state;
    assert_int_equal(run("--help"), CLI_OK);
    assert_non_null(strstr(printed, "sum show"));
    assert_non_null(strstr(printed, "Exit codes:"));
    assert_int_equal(run("sum -h"), CLI_OK);
    assert_non_null(strstr(printed, "Usage: reprise sum COMMAND"));
    assert_int_equal(run("sum add -h"), CLI_OK);
    assert_non_null(strstr(printed, "Usage: reprise sum add [OPTION...] [FILE] [FILE]"));
    assert_non_null(strstr(printed, "--first N"));
    assert_int_equal(seen.calls, 0);
}

static void no_command_at_all_is_a_mistake(void **state)
{
    (void)state;
    assert_refused("", "Usage: reprise COMMAND");
    assert_refused("sum", "Usage: reprise sum COMMAND");
}

static void the_version_is_printed(void **state)
{
    (void)state;
    assert_int_equal(run("--version"), CLI_OK);
    assert_string_equal(printed, "reprise " REPRISE_VERSION "\n");
}

#define CLI_TEST(f) cmocka_unit_test_setup(f, setup)

static int print_actor(const struct cli_args *args)
{
    (void)printf("<%s>\n", consent_actor(args));
    return CLI_OK;
}

static void who_acts_is_named_by_the_first_that_knows(void **state)
{
    (void)state;
    static const struct cli_option who[] = {CONSENT_WHO, {0}};
    static const struct cli_command act = {
        .group = "do", .name = "act", .summary = "Acts.", .options = who, .run = print_actor};
    static const struct cli_command *const acts[] = {&act, NULL};
    assert_int_equal(setenv("REPRISE_ACTOR", "ada", 1), 0);
    assert_int_equal(setenv("SUDO_USER", "bob", 1), 0);
    assert_int_equal(cli_run(acts, "do act --as eve"), CLI_OK);
    assert_printed("<eve>");
    assert_int_equal(cli_run(acts, "do act"), CLI_OK);
    assert_printed("<ada>");
    assert_int_equal(setenv("REPRISE_ACTOR", "", 1), 0);
    assert_int_equal(cli_run(acts, "do act"), CLI_OK);
    assert_printed("<bob>");
    assert_int_equal(unsetenv("SUDO_USER"), 0);
    assert_int_equal(cli_run(acts, "do act"), CLI_OK);
    assert_null(strstr(printed, "<bob>"));
    assert_null(strstr(printed, "<>"));
    assert_int_equal(unsetenv("REPRISE_ACTOR"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLI_TEST(a_command_gets_its_options_and_returns_its_code),
        CLI_TEST(a_command_without_a_group_is_called_by_its_name),
        CLI_TEST(a_value_may_be_empty_or_look_like_an_option),
        CLI_TEST(an_option_with_many_values_keeps_them_in_order),
        CLI_TEST(what_can_be_meant_once_is_refused_the_second_time),
        CLI_TEST(what_the_arguments_say_reaches_no_terminal_raw),
        CLI_TEST(two_dashes_end_the_options),
        CLI_TEST(the_configuration_is_named_anywhere_or_in_the_environment),
        CLI_TEST(an_unknown_option_is_refused_with_a_suggestion),
        CLI_TEST(an_unknown_command_is_refused_with_a_suggestion),
        CLI_TEST(missing_and_superfluous_arguments_are_refused),
        CLI_TEST(help_is_there_at_each_level),
        CLI_TEST(no_command_at_all_is_a_mistake),
        CLI_TEST(the_version_is_printed),
        cmocka_unit_test(who_acts_is_named_by_the_first_that_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
