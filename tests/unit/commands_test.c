/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands say of a database that is played: of what is in it, and when it refuses them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli_fixture.h"
#include "clock_fixture.h"
#include "pg_fixture.h"

static int run(const char *words)
{
    return cli_run(cli_commands, words);
}

static void a_list_says_how_the_next_page_is_asked_for(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"FROM", "id|status|error|cursor",
         "1|dead|a|2026-11-21T03:00:00Z/1\n2|dead|b|2026-11-21T02:00:00Z/2"},
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

/* Each of a command's statements fails in turn, and then the connection is lost at each. */
static void assert_database_matters(const char *words)
{
    for (int n = 1, failed = 1; failed; n++)
        for (int lost = 0; lost < 2; lost++) {
            pg_begin(NULL);
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

/* Who wants to delete waits for a batch, and for nothing else. */
static void a_discard_looks_as_long_as_it_takes_and_keeps_nobody_waiting(void **state)
{
    (void)state;
    for (int n = 1, failed = 1; failed; n++) {
        pg_begin(NULL);
        pg_fail_at(n, 1, "57014");
        (void)run("dlq discard --class a --reason x --yes");
        failed = pg_failed();
        if (pg_statements("SET statement_timeout = '59min'") == 0 ||
            pg_statements("SET lock_timeout = 1800000") == 0)
            assert_int_equal(pg_statements("HAVING sum(g.n) > 0") + pg_statements("WITH added"), 0);
        if (pg_statements("WITH added") == 0)
            assert_int_equal(pg_statements("BEGIN"), 0);
        assert_int_equal(pg_statements("BEGIN"), pg_statements("BEGIN; SET LOCAL lock_timeout"));
    }
    assert_int_equal(pg_statements("WITH added"), 1);
    assert_int_equal(pg_statements("BEGIN; SET LOCAL lock_timeout"), 1);
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

static void a_migration_says_which_version_there_is(void **state)
{
    (void)state;
    static const struct {
        const char *version, *says;
    } cases[] = {
        {"2", "the schema is at version 2 already; nothing to do\n"},
        {"9", "the schema is at version 9; this program is older and knows 2\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pg_answer answers[] = {{"to_regclass('schema_migration')", "n", "1"},
                                            {"max(version)", "n", cases[i].version},
                                            {"server_encoding", "e", "UTF8"},
                                            {0}};
        pg_begin(answers);
        assert_int_equal(run("db migrate"), CLI_OK);
        assert_string_equal(printed, cases[i].says);
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

static void an_export_to_a_terminal_has_its_escapes(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {{"json_build_object", "json|dead_at|id|found",
                                                "{\"a\": \"\xc2\x9b\x7f\xe2\x80\xae\"}|t|1|1"},
                                               {0}};
    pg_begin(answers);
    assert_int_equal(run("dlq export"), CLI_OK);
    assert_printed("{\"a\": \"\xc2\x9b\x7f\xe2\x80\xae\"}\n");
    pg_begin(answers);
    terminal = true;
    assert_int_equal(run("dlq export"), CLI_OK);
    terminal = false;
    assert_string_equal(printed, "{\"a\": \"\\u009b\\u007f\\u202e\"}\nexported 1 dead letter\n");
}

/* Or Ctrl-C in a pager, which stays, would leave the terminal to two who read from it. */
static void an_interrupt_is_left_to_the_pager(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {{"FROM", "id|status|error|cursor", "1|dead|a|1"},
                                               {0}};
    struct sigaction now;
    pg_begin(answers);
    terminal = true;
    (void)signal(SIGINT, SIG_DFL);
    assert_int_equal(
        setenv("PAGER", "read line; kill -INT $PPID; kill -QUIT $PPID; sed s/^/paged:/", 1), 0);
    assert_int_equal(run("dlq list"), CLI_OK);
    assert_printed("paged:");
    assert_int_equal(sigaction(SIGINT, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
    terminal = false;
}

static void a_pager_that_cannot_be_run_is_a_failure(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {GROUPS, GROUP_COLUMNS, "00ab|1|1|0|0|0|0|f|l|1|a|E|7|m"},
        {"FROM", "id|status|error|cursor", "1|dead|a|2026-11-21T03:00:00Z/1"},
        {0}};
    static const char *const commands[] = {"dlq list", "dlq list --format json", "dlq groups",
                                           "dlq stats"};
    terminal = true;
    assert_int_equal(setenv("PAGER", "/nowhere/pager", 1), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        pg_begin(answers);
        assert_int_equal(run(commands[i]), CLI_FAILED);
        assert_printed("the pager cannot be run; see $PAGER");
    }
    terminal = false;
}

static void stop(void)
{
    (void)raise(SIGTERM);
}

/* The last of the tests, since a wish to stop stays. */
static void a_tail_goes_on_until_it_is_stopped(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"min(id) - 1", "n", "5"},
        {"SELECT coalesce(max(id), 0)", "n", "7"},
        {"SELECT id, old", "id|old", "5|4"},
        {"ORDER BY d.id LIMIT", "line|found|id", "7  a\x1b[2J|2|7\n6  b|2|6"},
        {0}};
    pg_begin(answers);
    pg_fail_at(200, 1, "42P01");
    assert_int_equal(run("dlq tail"), CLI_FAILED);
    assert_printed("7  a\\x1b[2J\n6  b\n");
    /* Which ids are looked for no more is asked later than a batch may take. */
    assert_true(now_mono_ms > 60000);
    assert_in_range(pg_statements("SELECT coalesce(max(id), 0)"), 2, 1 + now_mono_ms / 30001);
    for (int n = 1; n <= 6; n++) {
        pg_begin(answers);
        pg_fail_at(n, 1, n % 2 == 0 ? "42P01" : "");
        assert_int_equal(run("dlq tail --format json"), CLI_FAILED);
        assert_printed("PostgreSQL");
    }
    pg_begin(answers);
    const int64_t stop_mono_ms = now_mono_ms + 1000;
    clock_call(stop_mono_ms, stop);
    assert_int_equal(run("dlq tail --lines 3"), CLI_OK);
    assert_int_equal(now_mono_ms, stop_mono_ms);
}

int main(void)
{
    cli_configure("kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n"
                  "targets: {allow: [a]}\n"
                  "postgres: {dsn: \"host=nowhere\"}\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_says_how_the_next_page_is_asked_for),
        cmocka_unit_test(a_database_that_refuses_ends_a_command),
        cmocka_unit_test(a_discard_looks_as_long_as_it_takes_and_keeps_nobody_waiting),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(why_a_replay_does_not_do_what_is_wished_is_said),
        cmocka_unit_test(a_replay_handed_to_the_archiver_is_left_to_it),
        cmocka_unit_test(what_could_not_be_decoded_is_shown_as_it_is),
        cmocka_unit_test(a_check_says_what_is_missing),
        cmocka_unit_test(a_migration_says_which_version_there_is),
        cmocka_unit_test(a_group_says_what_became_of_it),
        cmocka_unit_test(a_terminal_gets_colours_and_a_pager),
        cmocka_unit_test(an_export_to_a_terminal_has_its_escapes),
        cmocka_unit_test(an_interrupt_is_left_to_the_pager),
        cmocka_unit_test(a_pager_that_cannot_be_run_is_a_failure),
        cmocka_unit_test(a_tail_goes_on_until_it_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
