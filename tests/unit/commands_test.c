/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, as far as they come without servers: what they refuse, and what they say when the
 * database, which is played, refuses them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli_fixture.h"
#include "clock.h"
#include "file_fixture.h"
#include "pg_fixture.h"

static int64_t now_mono_ms = 1, stop_mono_ms;
static bool terminal;

int64_t __wrap_rp_mono_ms(void);
int64_t __wrap_rp_mono_ms(void)
{
    return now_mono_ms;
}

int __wrap_nanosleep(const struct timespec *wish, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wish, struct timespec *left)
{
    (void)left;
    now_mono_ms += wish->tv_nsec / 1000000;
    if (stop_mono_ms > 0 && now_mono_ms >= stop_mono_ms)
        (void)raise(SIGTERM);
    return 0;
}

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    (void)fd;
    return terminal;
}

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
        {"dlq tail --lines 0", "--lines is a number from 1 on"},
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

static void a_list_says_how_the_next_page_is_asked_for(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"FROM", "id|status|error|payload|cursor",
         "1|dead|a|NULL|2026-11-21T03:00:00Z/1\n2|dead|b|NULL|2026-11-21T02:00:00Z/2"},
        {0}};
    char words[200], *path = strdup(getenv("REPRISE_CONFIG"));
    assert_non_null(path);
    pg_begin(answers);
    assert_int_equal(run("dlq list --limit 1 --type \"it's\" --where 'id > 0' --where 'id > 1'"),
                     CLI_OK);
    assert_printed("reprise dlq list --type 'it'\\''s' ");
    assert_printed(" --where 'id > 0' --where 'id > 1'");
    assert_printed(" --before 2026-11-21T03:00:00Z/1");
    assert_null(strstr(printed, "--config"));
    assert_int_equal(unsetenv("REPRISE_CONFIG"), 0);
    (void)snprintf(words, sizeof words, "-c %s dlq list --limit 1 --before 2026-11-22T03:00:00Z/9",
                   path);
    assert_int_equal(run(words), CLI_OK);
    assert_printed(" --config /tmp/reprise-commands-");
    assert_null(strstr(printed, "2026-11-22T03"));
    assert_int_equal(setenv("REPRISE_CONFIG", path, 1), 0);
    free(path);
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

/* Each of a command's statements fails in turn, and then the connection is lost at each. */
static void assert_database_matters(const char *words)
{
    static const struct pg_answer answers[] = {{"WITH picked", "n|dead_at|id", ""}, {0}};
    for (int n = 1, failed = 1; failed; n++)
        for (int lost = 0; lost < 2; lost++) {
            pg_begin(answers);
            pg_fail_at(n, 1, lost ? "" : "42P01");
            int code = run(words);
            failed = pg_failed();
            if (!failed)
                continue;
            if (code != CLI_FAILED && code != CLI_PARTLY)
                fail_msg("%s: statement %d: exit code %d: %s", words, n, code, printed);
            assert_printed("PostgreSQL");
            assert_int_equal(pg_since_failure("COMMIT"), 0);
        }
}

static void a_database_that_refuses_ends_a_command(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "dlq count --type a",
        "dlq list --where \"message ~ 'x'\"",
        "dlq list --format json",
        "dlq list --format wide",
        "dlq stats --by type,day",
        "dlq stats --format json",
        "dlq show 1 --format json",
        "dlq show --task t --format json",
        "dlq discard --type a --reason x --yes",
        "dlq groups --type a",
        "replay list",
        "replay list --format json",
        "replay rate j 5",
        "replay rate j none",
        "db check",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        assert_database_matters(commands[i]);
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    static const struct pg_answer none[] = {
        {"FROM replay_job", "job", ""},    {"UPDATE replay_job", "id", ""},
        {"coalesce(sum(n), 0)", "n", "0"}, {"archive", "id", ""},
        {"dead_letter", "id", ""},         {0}};
    static const char *const jobs[] = {"replay show j", "replay pause j", "replay resume j",
                                       "replay cancel j", "replay rate j 5"};
    for (size_t i = 0; i < 5; i++) {
        pg_begin(none);
        assert_int_equal(run(jobs[i]), CLI_NOTHING);
        assert_printed("there is no replay 'j'");
    }
    pg_begin(none);
    assert_int_equal(run("replay list"), CLI_NOTHING);
    assert_int_equal(run("dlq list"), CLI_NOTHING);
    assert_printed("nothing matched");
    assert_int_equal(run("dlq count"), CLI_NOTHING);
    assert_string_equal(printed, "0\n");
    assert_int_equal(run("dlq groups"), CLI_NOTHING);
    assert_int_equal(run("dlq show 7"), CLI_NOTHING);
}

static void why_a_replay_does_not_do_what_is_wished_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *words, *row, *why;
        int code;
    } cases[] = {
        {"replay rate j 5", "done|t|f|f", "the replay has ended: done", CLI_NOTHING},
        {"replay rate j 5", "running|f|t|f", "is being cancelled", CLI_FAILED},
        {"replay rate j 5", "paused|f|f|t", "is paused, and somebody is marking", CLI_FAILED},
        {"replay rate j 5", "running|f|f|f", "the replay j is running", CLI_FAILED},
        {"replay resume j", "f|t", "the replay j is being cancelled", CLI_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pg_answer answers[] = {
            {"UPDATE replay_job", "id", ""}, {"FROM replay_job", "a|b|c|d", cases[i].row}, {0}};
        pg_begin(answers);
        int code = run(cases[i].words);
        assert_printed(cases[i].why);
        assert_int_equal(code, cases[i].code);
    }
}

static void a_replay_handed_to_the_archiver_is_left_to_it(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"SELECT detached", "d|c", "f|f"}, {"SELECT CASE", "s", "2"}, {0}};
    pg_begin(answers);
    assert_int_equal(run("replay resume j --detach --reason because"), CLI_OK);
    assert_string_equal(printed, "Replay j: handed to the archiver.\n");
}

static void what_could_not_be_decoded_is_shown_as_it_is(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"archive AS d", "id|reason|status|group_hex|raw|record_key|replays|job|policy|detail",
         "7|UNDECODABLE|dead|00ab|\\x00ff|\\x6b31|2|j-1|p|byte 3"},
        {0}};
    pg_begin(answers);
    assert_int_equal(run("dlq show 7 --payload hex"), CLI_OK);
    assert_printed("raw: the event that cannot be decoded, 2 bytes");
    assert_printed("record key    k1\n");
    assert_printed("UNDECODABLE: the event's bytes cannot be read");
    assert_printed("policy p, category not known");
    assert_printed("dead, by replay j-1");
    assert_printed("2 times");
    assert_printed("there is no task to send");
    assert_printed("reprise dlq replay --id 7 --to router --reason WHY");
}

static void a_check_says_what_is_missing(void **state)
{
    (void)state;
    static const struct {
        const char *version, *days, *says;
        int code;
    } cases[] = {
        {"0", "", "run `reprise db migrate`", CLI_FAULTS},
        {"2", " ", "schema: version 2, nothing is missing", CLI_FAULTS},
        {"9", "2026-11-23", "this program is older and knows 2", CLI_FAULTS},
        {"2", "2026-11-23", "partitions: none for 2026-11-23", CLI_FAULTS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pg_answer answers[] = {{"to_regclass('schema_migration')", "n", "1"},
                                            {"max(version)", "n", cases[i].version},
                                            {"string_agg(day", "days", cases[i].days},
                                            {0}};
        pg_begin(answers);
        int code = run("db check");
        assert_printed(cases[i].says);
        assert_int_equal(code, cases[i].code);
    }
}

#define GROUPS "SELECT lpad(to_hex(g.fingerprint)"
#define GROUP_COLUMNS                                                                              \
    "group|count|dead|replaying|replayed|discarded|came_back|first|last|trend|type|class|sample|"  \
    "message"

static void a_group_says_what_became_of_it(void **state)
{
    (void)state;
    static const struct {
        const char *row, *says;
    } cases[] = {
        {"00ab|1234|1234|0|0|0|0|then|now|1 0 8|a|E|7|m", "00ab      1,234  |. #|  then to now\n"
                                                          "    a  E: m\n"
                                                          "    sample 7, dead 1,234\n"},
        {"00ab|1000|1|0|500|5|100|f|l|0|NULL|NULL|7|byte 3",
         "    (no task)  byte 3\n"
         "    sample 7, dead 1, replayed 50% (20% of it came back), discarded <1%\n"},
        {"00ab|10|1|2|1|0|5|f|l|0|a|NULL|7|m",
         "dead 1, replaying 20%, replayed 10% (100% of it came back)\n"},
        {"00ab|10|1|0|0|0|5|f|l|0|a|NULL|7|m", "dead 1\n"},
    };
    assert_int_equal(setenv("LC_ALL", "C", 1), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pg_answer answers[] = {{GROUPS, GROUP_COLUMNS, cases[i].row}, {0}};
        pg_begin(answers);
        assert_int_equal(run("dlq groups"), CLI_OK);
        assert_printed(cases[i].says);
    }
}

static void a_terminal_gets_colours_and_a_pager(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {GROUPS, GROUP_COLUMNS, "00ab|1|1|0|0|0|0|f|l|1|a|E|7|m"},
        {"FROM", "id|status|error|time|cursor", "1|dead|a|t|1\n2|replayed|b|t|2\n3|mislaid|c|t|3"},
        {0}};
    pg_begin(answers);
    terminal = true;
    assert_int_equal(unsetenv("NO_COLOR"), 0);
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    assert_int_equal(setenv("PAGER", "sed s/^/paged:/", 1), 0);
    assert_int_equal(run("dlq list"), CLI_OK);
    assert_printed("paged:");
    assert_printed("\x1b[31mdead");
    assert_printed("\x1b[32mreplayed");
    assert_printed("mislaid");
    assert_int_equal(run("dlq groups"), CLI_OK);
    assert_printed("paged:\x1b[1m00ab\x1b[0m");
    static const struct {
        const char *name, *value;
    } plain[] = {{"NO_COLOR", "1"}, {"TERM", "dumb"}};
    for (size_t i = 0; i < 2; i++) {
        char *before = getenv(plain[i].name) == NULL ? NULL : strdup(getenv(plain[i].name));
        assert_int_equal(setenv(plain[i].name, plain[i].value, 1), 0);
        assert_int_equal(run("dlq list"), CLI_OK);
        assert_null(strchr(printed, '\x1b'));
        if (before == NULL)
            assert_int_equal(unsetenv(plain[i].name), 0);
        else
            assert_int_equal(setenv(plain[i].name, before, 1), 0);
        free(before);
    }
    assert_int_equal(setenv("PAGER", "", 1), 0);
    assert_int_equal(run("dlq list"), CLI_OK);
    assert_true(strstr(printed, "paged:") == NULL && strstr(printed, "dead") != NULL);
    terminal = false;
}

/* The last of the tests, since a wish to stop stays. */
static void a_tail_goes_on_until_it_is_stopped(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"min(id) - 1", "n", "5"},
        {"SELECT coalesce(max(id), 0)", "n", "7"},
        {"ORDER BY d.id LIMIT", "line|id", "7  a\x1b[2J|7\n6  b|6"},
        {0}};
    pg_begin(answers);
    pg_fail_at(200, 1, "42P01");
    assert_int_equal(run("dlq tail"), CLI_FAILED);
    assert_printed("7  a\\x1b[2J\n6  b\n");
    assert_true(now_mono_ms > 60000);
    assert_true(pg_statements("SELECT coalesce(max(id), 0)") >= 4);
    for (int n = 1; n <= 6; n++) {
        pg_begin(answers);
        pg_fail_at(n, 1, n % 2 == 0 ? "42P01" : "");
        assert_int_equal(run("dlq tail --format json"), CLI_FAILED);
        assert_printed("PostgreSQL");
    }
    pg_begin(answers);
    stop_mono_ms = now_mono_ms + 1000;
    assert_int_equal(run("dlq tail --lines 3"), CLI_OK);
    assert_int_equal(now_mono_ms, stop_mono_ms);
}

int main(void)
{
    char path[] = "/tmp/reprise-commands-XXXXXX";
    static const char text[] = "kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n"
                               "targets: {allow: [a]}\n"
                               "postgres: {dsn: \"host=nowhere\"}\n";
    file_make(path, text, sizeof text - 1);
    if (setenv("REPRISE_CONFIG", path, 1) != 0)
        return 2;
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
        cmocka_unit_test(a_list_says_how_the_next_page_is_asked_for),
        cmocka_unit_test(without_a_configuration_nothing_is_done),
        cmocka_unit_test(a_database_that_refuses_ends_a_command),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(why_a_replay_does_not_do_what_is_wished_is_said),
        cmocka_unit_test(a_replay_handed_to_the_archiver_is_left_to_it),
        cmocka_unit_test(what_could_not_be_decoded_is_shown_as_it_is),
        cmocka_unit_test(a_check_says_what_is_missing),
        cmocka_unit_test(a_group_says_what_became_of_it),
        cmocka_unit_test(a_terminal_gets_colours_and_a_pager),
        cmocka_unit_test(a_tail_goes_on_until_it_is_stopped),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
