/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands refuse: words, options, files and lines that they cannot mean. The database is
 * played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli_fixture.h"
#include "file_fixture.h"
#include "pg_fixture.h"

struct refusal {
    const char *words, *why;
};

static int run(const char *words)
{
    return cli_run(cli_commands, words);
}

static void assert_all_refused(const struct refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pg_begin(NULL);
        int code = run(cases[i].words);
        if (code != CLI_USAGE)
            fail_msg("%s: exit code %d: %s", cases[i].words, code, printed);
        assert_printed(cases[i].why);
        assert_int_equal(pg_statements("INSERT"), 0);
        assert_int_equal(pg_statements("WITH"), 0);
    }
}
#define ALL_REFUSED(cases) assert_all_refused(cases, sizeof cases / sizeof *cases)

static void help_and_completion_know_what_there_is(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"help", "TOPIC is missing"},
        {"help me", "there is help on: filter"},
        {"completion fish", "SHELL is bash or zsh, not 'fish'"},
    };
    ALL_REFUSED(cases);
    assert_int_equal(run("help filter"), CLI_OK);
    assert_printed("A filter says which dead letters are meant");
    assert_int_equal(run("completion bash"), CLI_OK);
    assert_printed("complete ");
    assert_printed("came-back");
    assert_int_equal(run("completion zsh"), CLI_OK);
    assert_printed("#compdef reprise");
    assert_int_equal(run("--help"), CLI_OK);
    assert_printed("dlq replay");
}

static void man_pages_that_cannot_be_written_are_a_failure(void **state)
{
    (void)state;
    static char words[5100] = "man /";
    assert_int_equal(run("man /none/such"), CLI_FAILED);
    assert_printed("cannot write into /none/such: No such file or directory");
    memset(words + 5, 'a', sizeof words - 6);
    assert_int_equal(run(words), CLI_FAILED);
    assert_printed("cannot write into /aaaa");
}

static void a_filter_that_cannot_be_read_is_pointed_at(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"dlq count --where 'type ='", "^"},
        {"dlq count --where 'type = aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa and nothing = 1 "
         "and "
         "type = bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'",
         "there is no field 'nothing'"},
        {"dlq count --where \"type = "
         "'\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
         "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4'"
         " or\"",
         "^"},
        {"dlq count --attempts many", "--attempts"},
        {"dlq count --since tomorrow", "--since"},
        {"dlq count --reason none-such", "--reason"},
        {"dlq count --group xyz", "no group"},
        {"dlq count --id '<x'", "--id"},
        {"dlq discard --dead-for none-such --reason x", "--dead-for: there is no 'none-such'"},
    };
    ALL_REFUSED(cases);
}

static void options_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"dlq list --format xml", "--format is table, wide or json, not 'xml'"},
        {"dlq list --limit 0", "--limit is a number from 1 on, not '0'"},
        {"dlq list --before x", "--before takes what an earlier list gave, not 'x'"},
        {"dlq list --before x/1", "--before takes"},
        {"dlq list --before 2026-11-21T03:00:00Z/x", "--before takes"},
        {"dlq list --before 2026-11-21T03:00:00.000000000000000000000Z/1", "--before takes"},
        {"dlq list --limit many", "--limit is a number from 1 on"},
        {"dlq groups --limit -1", "--limit is a number from 1 on"},
        {"dlq groups --hours 0", "--hours is a number from 1 on"},
        {"dlq groups --hours 169", "--hours goes to 168"},
        {"dlq stats --by colour", "colour"},
        {"dlq stats --by type,type", "type"},
        {"dlq tail --lines -1", "--lines is a number from 1 on"},
        {"dlq show 1 --format wide", "--format is table or json, not 'wide'"},
        {"dlq show 1 --payload xml", "--payload"},
        {"dlq show", "ID"},
        {"dlq show x", "'x'"},
        {"dlq edit", "name a dead letter by its ID, or a task by --task"},
        {"dlq edit 1 --task t", "name a dead letter by its ID, or a task by --task"},
        {"dlq edit x", "ID is a number, not 'x'"},
        {"dlq edit 1 --print --jq .", "only one of --jq, --file and --print"},
        {"replay list --format wide", "--format is table or json, not 'wide'"},
        {"replay list --limit 0", "--limit is a number from 1 on, not '0'"},
        {"replay show j --format wide", "--format is table or json, not 'wide'"},
        {"replay rate j fast", "the rate is tasks a second, or none, not 'fast'"},
        {"replay rate j -1", "'-1'"},
        {"replay resume j --detach --here", "--detach and --here exclude each other"},
    };
    ALL_REFUSED(cases);
}

static void a_replay_that_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"policy explain a --success %", "--success"},
        {"policy explain a --success 5%x", "--success"},
        {"dlq replay --type a --rate 0", "--rate is tasks a second, or none, not '0'"},
        {"dlq replay --type a --rate 1e10", "--rate is"},
        {"dlq replay --type a --rate inf", "--rate is"},
        {"dlq replay --type a --rate ''", "--rate is"},
        {"dlq replay --type a --rate 5x", "--rate is"},
        {"dlq replay --type a --rate nan", "--rate is"},
        {"dlq replay --type a --stop-if-dead %", "--stop-if-dead is a share"},
        {"dlq replay --type a --stop-if-dead ''", "--stop-if-dead is a share"},
        {"dlq replay --type a --stop-if-dead 1.1", "--stop-if-dead is a share"},
        {"dlq replay --type a --stop-if-dead 1", "--stop-if-dead is a share"},
        {"dlq replay --type a --jq .\xff", "--jq is no UTF-8"},
        {"dlq replay --type a --stop-if-dead 0.5x", "--stop-if-dead is a share"},
        {"dlq replay --type a --jq @/", "/: Is a directory"},
        {"dlq replay --type a --limit 0", "--limit is a number from 1 on, not '0'"},
        {"dlq replay --type a --limit 9999999999", "--limit is"},
        {"dlq replay --type a --canary x", "--canary is a number"},
        {"dlq replay --type a --max-replays 1.5", "--max-replays is"},
        {"dlq replay --type a --canary 1 --canary-wait soon", "--canary-wait is a time like 30s"},
        {"dlq replay --type a --success-within 1", "--success-within is a time"},
        {"dlq replay --type a --canary 1 --canary-share 110%", "--canary-share is a share like"},
        {"dlq replay --type a --stop-if-dead -1", "--stop-if-dead is a share"},
        {"dlq replay --type a --stop-if-dead 1%%", "--stop-if-dead is a share"},
        {"dlq replay --type a --canary-share 1%", "--canary-wait and --canary-share need --canary"},
        {"dlq replay --type a --to nowhere", "--to is target or router, not 'nowhere'"},
        {"dlq replay --type a --order random", "--order is oldest, newest or key, not 'random'"},
        {"dlq replay --type a --send-to 'a b'", "--send-to is the name of a topic, not 'a b'"},
        {"dlq replay --type a --set-header x", "--set-header: a header is NAME=VALUE, not 'x'"},
        {"dlq replay --type a --set-header reprise-due=1", "are reprise's"},
        {"dlq replay --type a --payload-schema s", "--payload-schema needs --jq"},
        {"dlq replay --type a --jq @/none/such", "/none/such: No such file or directory"},
        {"dlq replay --type a --jq @/dev/zero", "/dev/zero: too long"},
        {"dlq replay --type a --jq . --payload-schema /none/such", "/none/such: No such file"},
    };
    ALL_REFUSED(cases);
}

static void an_event_that_breaks_the_contract_is_not_sent(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"fail", "an event needs --type and --error"},
        {"fail --type a", "an event needs --type and --error"},
        {"fail FILE --type a", "do not go together"},
        {"fail /none/such", "/none/such: No such file or directory"},
        {"fail --type a --error E --attempt 0", "attempt"},
        {"fail --type a --error E --attempt 1x", "attempt"},
        {"fail --type a --error E --target ''", "--target is the name of a topic, not ''"},
        {"fail --type a --error E --category TIMEOT --attempt 0", "no category 'TIMEOT'"},
        {"fail --type a --error E --attempt 99999999999999999999", "attempt"},
        {"fail --type a --error E --header x", "header"},
        {"fail --type a --error E --header =x", "header"},
        {"fail --type '' --error E", "task_type"},
        {"fail --type a --error E --attempt ''", "attempt"},
        {"fail --type a --error E --attempt 2147483648", "attempt"},
    };
    ALL_REFUSED(cases);
    assert_int_equal(run("fail --type a --error E --payload @/none/such"), CLI_FAILED);
    assert_printed("/none/such: No such file or directory");
    assert_int_equal(run("fail /dev/null"), CLI_NOTHING);
    assert_printed("0 of 0 events sent, 0 refused");
    assert_int_equal(run("fail /"), CLI_FAILED);
    assert_printed("after line 0: Is a directory");
}

static void lines_that_are_no_events_are_refused_one_by_one(void **state)
{
    (void)state;
    char path[] = "/tmp/reprise-lines-XXXXXX", words[64];
    static const char text[] = "  \t\n[]\n  {\"task_id\": 1}\r\n{\"a\": 1";
    file_make(path, text, sizeof text - 1);
    (void)snprintf(words, sizeof words, "fail %s", path);
    assert_int_equal(run(words), CLI_FAILED);
    assert_int_equal(unlink(path), 0);
    assert_printed("line 2: not a JSON object");
    assert_printed("line 3: JSON: task_id");
    assert_printed("line 4: JSON: line 1");
    assert_printed("0 of 3 events sent, 3 refused");
}

static void a_report_has_bounds(void **state)
{
    (void)state;
    static char words[4000];
    (void)strcpy(words, "fail --type a --error E");
    for (int i = 0; i <= 100; i++)
        (void)strcat(words, " --header n=v");
    assert_int_equal(run(words), CLI_USAGE);
    assert_printed("more than 100 headers");
    (void)strcpy(words, "fail --type a --error E");
    for (int i = 0; i <= 20; i++)
        (void)strcat(words, " --cause C:m");
    assert_int_equal(run(words), CLI_USAGE);
    assert_printed("more than 20 causes");
}

static void a_line_without_end_is_one_refused_event(void **state)
{
    (void)state;
    static char text[4 << 20];
    static const char behind[] = "\n{\n";
    char path[] = "/tmp/reprise-lines-XXXXXX", words[64];
    memset(text, 'x', sizeof text);
    memcpy(text + sizeof text - (sizeof behind - 1), behind, sizeof behind - 1);
    file_make(path, text, sizeof text);
    (void)snprintf(words, sizeof words, "fail %s", path);
    terminal = true;
    assert_int_equal(run(words), CLI_FAILED);
    terminal = false;
    assert_int_equal(unlink(path), 0);
    assert_printed("line 1: longer than ");
    assert_printed("line 2: JSON: line 1");
    assert_printed("\r\033[K2 lines, 0 confirmed, 2 refused\n");
    assert_printed("0 of 2 events sent, 2 refused");
}

static void lines_that_cannot_be_imported_are_told_up_to_a_point(void **state)
{
    (void)state;
    char text[50], path[] = "/tmp/reprise-import-XXXXXX", words[64];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 2 == 0 ? '\0' : '\n';
    file_make(path, text, sizeof text);
    (void)snprintf(words, sizeof words, "dlq import %s", path);
    pg_begin(NULL);
    assert_int_equal(run(words), CLI_PARTLY);
    assert_int_equal(unlink(path), 0);
    assert_printed("line 20: ");
    assert_null(strstr(printed, "line 21: "));
    assert_printed("and 5 lines more that cannot be imported");
    assert_printed("25 lines cannot be imported\n");
}

static void without_a_configuration_nothing_is_done(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"-c /none/such dlq count", "/none/such"},
        {"-c /none/such dlq show 1", "/none/such"},
        {"-c /none/such dlq edit 1 --reason x", "/none/such"},
        {"-c /none/such dlq replay --type a --reason x", "/none/such"},
        {"-c /none/such dlq purge --type a --reason x", "/none/such"},
        {"-c /none/such replay pause j", "/none/such"},
        {"-c /none/such db check", "/none/such"},
        {"-c /none/such topics check", "/none/such"},
        {"-c /none/such fail --type a --error E", "/none/such"},
    };
    ALL_REFUSED(cases);
}

int main(void)
{
    cli_configure("kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n"
                  "targets: {allow: [a]}\n"
                  "postgres: {dsn: \"host=nowhere\"}\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_completion_know_what_there_is),
        cmocka_unit_test(man_pages_that_cannot_be_written_are_a_failure),
        cmocka_unit_test(a_filter_that_cannot_be_read_is_pointed_at),
        cmocka_unit_test(options_that_mean_nothing_are_refused),
        cmocka_unit_test(a_replay_that_cannot_be_meant_is_refused),
        cmocka_unit_test(an_event_that_breaks_the_contract_is_not_sent),
        cmocka_unit_test(lines_that_are_no_events_are_refused_one_by_one),
        cmocka_unit_test(a_report_has_bounds),
        cmocka_unit_test(a_line_without_end_is_one_refused_event),
        cmocka_unit_test(lines_that_cannot_be_imported_are_told_up_to_a_point),
        cmocka_unit_test(without_a_configuration_nothing_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
