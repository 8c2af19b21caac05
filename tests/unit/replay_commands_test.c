/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that replay, on a database, a clock and a run of the job that are played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli_fixture.h"
#include "clock_fixture.h"
#include "file_fixture.h"
#include "pg_fixture.h"
#include "replay_run.h"
#include "target_fixture.h"

/* What the job's run comes to, and what it tells on its way, each a second after the other. */
static struct {
    int rc;
    struct rp_error err;
    struct rp_replay_result result;
    const struct rp_replay_progress *told;
    int n_told;
} played;

int __wrap_rp_replay_run(const struct rp_replay_run *r, const char *job,
                         struct rp_replay_result *out, struct rp_error *err);
int __wrap_rp_replay_run(const struct rp_replay_run *r, const char *job,
                         struct rp_replay_result *out, struct rp_error *err)
{
    (void)job;
    for (int i = 0; i < played.n_told; i++) {
        r->progress(r->opaque, &played.told[i]);
        now_mono_ms += 1000;
    }
    *out = played.result;
    *err = played.err;
    return played.rc;
}

static int run(const char *words, const struct pg_answer *answers)
{
    pg_begin(answers);
    return cli_run(cli_commands, words);
}

static void assert_not_printed(const char *part)
{
    if (strstr(printed, part) != NULL)
        fail_msg("'%s' is in: %s", part, printed);
}

/* What is typed at the terminal. */
static void type(const char *text)
{
    char path[] = "/tmp/reprise-typed-XXXXXX";
    file_make(path, text, strlen(text));
    terminal = true;
    assert_non_null(freopen(path, "r", stdin));
    assert_int_equal(unlink(path), 0);
}

static int calm(void **state)
{
    (void)state;
    memset(&played, 0, sizeof played);
    terminal = false;
    target_refused = NULL;
    target_rc = 0;
    target_max_bytes = RP_NO_LIMIT;
    now_mono_ms = 1;
    return 0;
}

static const struct pg_answer idle_job[] = {{"SELECT detached", "d|c", "f|f"},
                                            {"SELECT CASE", "s", "2"},
                                            {"SELECT count(*), refused", "n|why", "2|too large"},
                                            {"SELECT outcome", "o", "5 of 20 came back dead"},
                                            {0}};

static void how_a_replay_ended_is_said(void **state)
{
    (void)state;
    static const struct {
        struct rp_replay_result result;
        int code;
        const char *says, *also;
    } cases[] = {
        {{.end = RP_REPLAY_DONE, .total = 9, .done = 9},
         CLI_OK,
         "Replay j: done. 9 of 9 sent, 0 refused.\n",
         ""},
        {{.end = RP_REPLAY_DONE, .total = 9, .done = 9, .refused = 2},
         CLI_PARTLY,
         "done. 7 of 9 sent, 2 refused.\n",
         "  2 refused: too large\n"},
        {{.end = RP_REPLAY_DONE, .total = 2, .done = 2, .refused = 2},
         CLI_FAILED,
         "0 of 2 sent, 2 refused",
         "too large"},
        {{.end = RP_REPLAY_PAUSED, .total = 9, .done = 1},
         CLI_PARTLY,
         "paused. 1 of 9",
         "Go on:   reprise replay resume j\n"},
        {{.end = RP_REPLAY_LET_GO, .total = 9, .done = 1, .unmarked = true},
         CLI_PARTLY,
         "paused. at least 1 of 9",
         "More may have been sent"},
        {{.end = RP_REPLAY_LEFT, .total = 9},
         CLI_PARTLY,
         "let go. 0 of 9",
         "in 15 s it counts as abandoned"},
        {{.end = RP_REPLAY_CANCELLED, .total = 9}, CLI_PARTLY, "cancelled. 0 of 9", ""},
        {{.end = RP_REPLAY_STOPPED, .total = 99, .done = 20},
         CLI_PARTLY,
         "stopped. 20 of 99",
         "  5 of 20 came back dead\n"},
        {{.end = RP_REPLAY_LOST, .total = 9},
         CLI_PARTLY,
         "taken over by somebody else. at least 0 of 9",
         "Give up: reprise replay cancel j\n"},
        {{.end = RP_REPLAY_FAILED, .total = 9, .done = 1}, CLI_PARTLY, "failed. 1 of 9", "why not"},
        {{.end = RP_REPLAY_FAILED, .total = 9}, CLI_FAILED, "failed. 0 of 9", "why not"},
        {{.end = RP_REPLAY_FAILED, .total = 9, .unmarked = true},
         CLI_PARTLY,
         "failed. at least 0 of 9",
         "why not"},
    };
    (void)rp_fail(&played.err, RP_E_IO, RP_FATAL, "why not");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        played.result = cases[i].result;
        assert_int_equal(run("replay resume j", idle_job), cases[i].code);
        assert_printed(cases[i].says);
        assert_printed(cases[i].also);
    }
}

static void a_replay_that_cannot_be_taken_up_says_why(void **state)
{
    (void)state;
    played.rc = rp_fail(&played.err, RP_E_INVALID, RP_POISON, "the program does not load");
    assert_int_equal(run("replay resume j", idle_job), CLI_USAGE);
    assert_printed("the program does not load");
    played.rc = rp_fail(&played.err, RP_E_IO, RP_FATAL, "no such column");
    assert_int_equal(run("replay resume j", idle_job), CLI_FAILED);
    assert_printed("no such column");
}

static const struct rp_replay_progress on_its_way[] = {
    {.total = 1, .what = "sending"},
    {.total = 40000, .done = 10, .what = "sending", .rate = 5},
    {.total = 2020, .done = 20, .refused = 1, .what = "sending"},
    {.total = 70,
     .done = 30,
     .came_back = 2,
     .what = "waiting",
     .trouble = "the brokers are\taway"},
    {.total = 0, .done = 30, .what = "waiting"},
};

static void a_terminal_shows_how_far_a_replay_is(void **state)
{
    (void)state;
    played.told = on_its_way;
    played.n_told = 5;
    terminal = true;
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    (void)run("replay resume j", idle_job);
    assert_printed("\r\033[K[..............................] 0 of 1 (0%): sending");
    assert_printed("10 of 40000 (0%), 10/s of 5/s, 1h06m left: sending");
    assert_printed("20 of 2020 (0%), 10/s, 3m20s left, 1 refused: sending");
    assert_printed("[############..................] 30 of 70 (42%), 10/s, 4 s left, 2 came back "
                   "dead: waiting; waiting: the brokers are\\taway");
    assert_printed("(100%)");
}

static void elsewhere_it_is_a_line_now_and_then(void **state)
{
    (void)state;
    played.told = on_its_way;
    played.n_told = 4;
    (void)run("replay resume j", idle_job);
    assert_printed("0 of 1 (0%): sending\n30 of 70");
}

static void what_is_wished_of_a_replay_that_nobody_runs_is_done_or_said(void **state)
{
    (void)state;
    static const struct pg_answer unrun[] = {{"SELECT CASE", "s", "1"}, {0}};
    static const struct pg_answer run_by_another[] = {{"SELECT CASE", "s", "0"}, {0}};
    static const struct pg_answer ended[] = {
        {"SELECT CASE", "s", "3"}, {"SELECT format", "s", "Replay j: cancelled."}, {0}};
    static const struct pg_answer done[] = {
        {"SELECT CASE", "s", "4"}, {"SELECT format", "s", "Replay j: done."}, {0}};
    played.result.end = RP_REPLAY_LET_GO;
    played.told = &on_its_way[3];
    played.n_told = 2;
    (void)rp_fail(&played.err, RP_E_TIMEOUT, RP_RETRIABLE, "no answer");
    assert_int_equal(run("replay pause j", unrun), CLI_PARTLY);
    assert_printed("waiting: the brokers are");
    assert_printed("it is wished, and cannot be done now: no answer\n"
                   "reprise: an archiver does it, or the same command again\n");
    played.n_told = 0;
    played.result.end = RP_REPLAY_FAILED;
    assert_int_equal(run("replay cancel j", unrun), CLI_FAILED);
    assert_printed("no answer");
    played.rc = rp_fail(&played.err, RP_E_IO, RP_FATAL, "no such table");
    assert_int_equal(run("replay cancel j", unrun), CLI_FAILED);
    assert_printed("no such table");
    played.rc = rp_fail(&played.err, RP_E_FENCED, RP_FATAL, "somebody has it");
    assert_int_equal(run("replay cancel j", unrun), CLI_PARTLY);
    assert_printed("it is wished, and not done yet");
    assert_int_equal(run("replay pause j", run_by_another), CLI_PARTLY);
    assert_printed("it is wished, and not done yet");
    assert_int_equal(run("replay cancel j", ended), CLI_OK);
    assert_printed("Replay j: cancelled.\n");
    assert_int_equal(run("replay cancel j", done), CLI_NOTHING);
    assert_printed("there was nothing left to cancel\n");
    assert_int_equal(run("replay pause j", done), CLI_OK);
    assert_printed("Replay j: done.\n");
}

static void what_somebody_runs_is_not_resumed(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {{"SELECT detached", "d|c", "t|f"},
                                               {"SELECT CASE", "s", "0"},
                                               {"UPDATE replay_job", "id", ""},
                                               {"FROM replay_job", "a|b|c|d", "running|f|f|f"},
                                               {0}};
    assert_int_equal(run("replay resume j", answers), CLI_FAILED);
    assert_printed("the replay j is running");
    assert_true(now_mono_ms > 1000);
}

#define SUMS "SELECT count(*), coalesce(sum(size), 0)"

static void a_preview_says_what_a_replay_would_do(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"--to router --rate 1", "Time:       2h00m at 1 a second\n"},
        {"--to router --rate 100", "Time:       1m12s at 100 a second\n"},
        {"--to router --rate 7200", "Time:       1s at 7200 a second\n"},
        {"--to router", "Time:       as fast as it goes\n"},
        {"--to router",
         "Once more:  20 of them were replayed before\nDiscarded:  3 of them were\n"},
        {"--to router --canary 10 --canary-wait 5m",
         "and up to 5m for 10 canaries\nStops:      as soon as a canary came back dead\n"},
        {"--to router --canary 10 --canary-share 5%", "as soon as more than 5% of the canaries"},
        {"--to router --canary 7200", "Canaries:   all of them: "},
        {"--to router --stop-if-dead 2.5%", "at least); without --rate all may be out before\n"},
        {"--to router", "Payloads:   1.0 MiB, 145 bytes on average, the largest 9000 bytes\n"},
        {"--to router --max-replays 3", "Held back:  4 that were replayed 3 times or more"},
        {"--to router", "Refused:    2: its payload was too large to be kept\n"},
        {"", "Refused:    3: there is no task: its bytes could not be decoded\n"},
        {"--to router", "Refused:    1: the dead letter itself could not be decoded\n"},
        {"", "Groups, the largest first:\n"},
    };
    static const struct pg_answer answers[] = {
        {SUMS, "n|sum|max|from|to|replayed|discarded",
         "7200|1048576|9000|2026-11-21|2026-11-22|20|3"},
        {"SELECT count(*) FILTER", "n|shrunk|neither", "3|2|1"},
        {"SELECT count(*), task_type", "n|type|target|bytes|pairs", "5|a|NULL|0|2\n6|b|t|0|2"},
        {"SELECT count(*), lpad", "n", "1"},
        {"SELECT count(*)", "n", "4"},
        {0}};
    char words[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(words, sizeof words, "dlq replay --type a --dry-run %s", cases[i].words);
        int code = run(words, answers);
        assert_printed(cases[i].says);
        assert_int_equal(code, CLI_OK);
        assert_int_equal(pg_statements("COMMIT"), 0);
    }
    assert_not_printed("no such topic");
    target_refused = "no such topic";
    assert_int_equal(run("dlq replay --type a --dry-run", answers), CLI_OK);
    assert_printed("Refused:    5: no such topic\nRefused:    6: no such topic\n");
    target_rc = -1;
    assert_int_equal(run("dlq replay --type a --dry-run", answers), CLI_OK);
    assert_printed("Targets:    not looked at: the brokers are away\n");
    assert_not_printed("no such topic");
    assert_int_equal(run("dlq replay --type a --dry-run --jq 'nothing('", answers), CLI_USAGE);
    assert_printed("jq");
}

#define LETTER                                                                                     \
    {                                                                                              \
        "AS d WHERE d.id", "id|status|job|record|task|shrunk|about|message",                       \
            "7|dead|NULL|NULL|t|f|{\"id\": \"t\"}|{\"target\": \"a\", \"key\": null, "             \
            "\"headers\": [], \"payload\": {\"base64\": \"eyJuIjoxfQ==\"}}"                        \
    }
static const struct pg_answer letter[] = {LETTER, {0}};

static void a_preview_counts_what_is_larger_than_topics_take(void **state)
{
    (void)state;
    static const char preview[] = "dlq replay --type a --dry-run";
    static const struct pg_answer answers[] = {
        {"SELECT count(*), task_type", "n|type|target|bytes|pairs",
         "6|a|t|1001|5\n5|a|NULL|1000|5"},
        {"SELECT count(*), l.topic", "n|topic|max", "4|t\x1b[2J|1000"},
        {"SELECT count(*), $1::text", "n|topic|max", "7|failed-tasks|1000"},
        {0}};
    static const struct pg_answer none[] = {
        {"SELECT count(*), $1::text", "n|topic|max", "0|failed-tasks|1000"}, {0}};
    target_max_bytes = 1000;
    assert_int_equal(run(preview, answers), CLI_OK);
    assert_printed("Targets:    2 of 5 pairs of a type and a target were looked at, the largest "
                   "ones\nRefused:    at least 4: larger than the 1000 bytes that topic t\\x1b[2J "
                   "takes\n");
    assert_int_equal(run("dlq replay --type a --dry-run --to router", answers), CLI_OK);
    assert_printed("Refused:    at least 7: larger than the 1000 bytes that topic failed-tasks");
    assert_not_printed("pairs");
    assert_int_equal(run("dlq replay --type a --dry-run --to router", none), CLI_OK);
    assert_not_printed("at least");
    assert_int_equal(run("dlq replay --type a --dry-run --to router --jq .", letter), CLI_OK);
    assert_not_printed("at least");
    target_max_bytes = 1001;
    assert_int_equal(run(preview, answers), CLI_OK);
    assert_not_printed("at least");
    target_max_bytes = 1000;
    target_refused = "no such topic";
    assert_int_equal(run(preview, answers), CLI_OK);
    assert_not_printed("at least");
}

/* Each of its questions is refused in turn. */
static void a_preview_that_cannot_ask_fails(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"SELECT count(*), task_type", "n|type|target|bytes|pairs", "6|a|t|1001|1"}, {0}};
    target_max_bytes = 1000;
    bool failed = true;
    for (int n = 2; failed; n++) {
        pg_begin(answers);
        pg_fail_at(n, 1, "57014");
        int code = cli_run(cli_commands, "dlq replay --type a --dry-run");
        failed = pg_failed();
        assert_int_equal(code, failed ? CLI_FAILED : CLI_OK);
    }
}

static void of_nothing_there_is_no_replay(void **state)
{
    (void)state;
    static const struct pg_answer none[] = {{SUMS, "n|sum|max|from|to", "0|0|0|NULL|NULL"}, {0}};
    assert_int_equal(run("dlq replay --type a --reason x --yes", none), CLI_NOTHING);
    assert_printed("nothing to replay");
    static const struct pg_answer taken[] = {{"INSERT INTO replay_item", "n", "0"},
                                             {"UPDATE replay_job", "n", "0"},
                                             {"WITH", "n", "0"},
                                             {0}};
    assert_int_equal(run("dlq replay --type a --to router --reason x --yes", taken), CLI_NOTHING);
    assert_printed("somebody else has it");
    assert_int_equal(run("dlq replay --reason x --yes", none), CLI_USAGE);
    assert_printed("say which ones: a filter, or --where all");
    assert_int_equal(run("dlq replay --type a --yes", none), CLI_USAGE);
    assert_printed("--reason is required");
    assert_int_equal(run("dlq replay --type a --reason= --yes", none), CLI_USAGE);
    assert_printed("--reason is required");
    assert_int_equal(run("dlq replay --type a --reason exhausted --yes", none), CLI_USAGE);
    assert_printed("--dead-for picks");
}

static void nobody_who_says_no_replays(void **state)
{
    (void)state;
    static const struct {
        const char *typed;
        int code;
    } cases[] = {{"n\n", CLI_REFUSED},
                 {"", CLI_REFUSED},
                 {"yesterday\n", CLI_REFUSED},
                 {"YES\n", CLI_OK},
                 {"y\n", CLI_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        type(cases[i].typed);
        int code = run("dlq replay --type a --to router --reason x --detach", NULL);
        assert_printed("Replay 1 dead letters? [y/N]");
        assert_int_equal(code, cases[i].code);
        assert_int_equal(pg_statements("COMMIT"), code == CLI_OK);
    }
    terminal = false;
    assert_int_equal(run("dlq replay --type a --to router --reason x", NULL), CLI_REFUSED);
    assert_printed("there is no terminal to ask on");
}

/* Each statement is refused in turn, then the connection is lost at each. What may have been
 * committed is looked for; it is said to be on its way only if it was found. */
static void assert_told_as_it_is(const char *words, const struct pg_answer *answers, bool found)
{
    for (int n = 1, failed = 1; failed; n++)
        for (int lost = 0; lost < 2; lost++) {
            pg_begin(answers);
            pg_fail_at(n, 1, lost ? "" : "42P01");
            int code = cli_run(cli_commands, words);
            failed = pg_failed();
            if (!failed)
                continue;
            bool searched = pg_since_failure("SELECT total FROM replay_job") > 0;
            if (code != (searched && found ? CLI_OK : CLI_FAILED))
                fail_msg("%s: statement %d: exit code %d: %s", words, n, code, printed);
            assert_printed(code == CLI_OK ? "handed to the archiver" : "PostgreSQL");
            assert_int_equal(pg_since_failure("COMMIT"), 0);
        }
}

static const struct pg_answer letter_unplanned[] = {
    LETTER, {"SELECT total FROM replay_job", "n", ""}, {0}};

static void a_job_that_may_be_on_record_is_looked_for(void **state)
{
    (void)state;
    static const struct pg_answer unplanned[] = {{"SELECT total FROM replay_job", "n", ""}, {0}};
    static const char replay[] = "dlq replay --type a --to router --reason x --yes --detach";
    static const char document[] =
        "{\"target\": \"a\", \"key\": null, \"headers\": [], \"payload\": 2}";
    char path[] = "/tmp/reprise-document-XXXXXX", changed[128];
    file_make(path, document, sizeof document - 1);
    (void)snprintf(changed, sizeof changed, "dlq edit 7 --file %s --reason x --yes --detach", path);
    assert_told_as_it_is(replay, NULL, true);
    assert_told_as_it_is(replay, unplanned, false);
    assert_told_as_it_is(changed, letter, true);
    assert_told_as_it_is(changed, letter_unplanned, false);
    assert_int_equal(unlink(path), 0);
}

static void a_preview_shows_what_a_program_makes(void **state)
{
    (void)state;
    static const char preview[] = "dlq replay --type a --to router --dry-run --jq .payload.n=2";
    static const struct pg_answer gone[] = {{"AS d WHERE d.id", "id", ""}, {0}};
    assert_int_equal(run(preview, letter), CLI_OK);
    assert_printed("What jq makes of 1:\n");
    assert_printed("+     \"n\": 2\n");
    int statements = pg_statements(""); /* the last but one asks for the letter */
    pg_begin(letter);
    pg_fail_at(statements - 1, 1, "57014");
    assert_int_equal(cli_run(cli_commands, preview), CLI_FAILED);
    assert_printed("What jq makes of 1:\n");
    assert_printed("PostgreSQL");
    assert_int_equal(run(preview, gone), CLI_OK);
    assert_printed("dead letter 1: there is no such dead letter");
    assert_int_equal(run("dlq replay --type a --to router --dry-run --jq 'error(\"no\")'", letter),
                     CLI_OK);
    assert_printed("dead letter 1: ");
}

static void a_task_is_changed_by_a_program(void **state)
{
    (void)state;
    char path[] = "/tmp/reprise-program-XXXXXX", words[128];
    assert_int_equal(run("dlq edit 7 --jq .payload.n=2 --reason x --yes --detach", letter), CLI_OK);
    assert_printed("-     \"n\": 1\n+     \"n\": 2\n");
    assert_printed("handed to the archiver");
    file_make(path, ".payload.n=3", 12);
    (void)snprintf(words, sizeof words, "dlq edit 7 --jq @%s --dry-run", path);
    assert_int_equal(run(words, letter), CLI_OK);
    assert_int_equal(unlink(path), 0);
    assert_printed("+     \"n\": 3\n");
    assert_int_equal(pg_statements("COMMIT"), 0);
    assert_int_equal(run("dlq edit 7 --jq @/none/such --dry-run", letter), CLI_FAILED);
    assert_printed("/none/such: No such file or directory");
    assert_int_equal(run("dlq edit 7 --jq 'nothing(' --dry-run", letter), CLI_USAGE);
    assert_int_equal(run("dlq edit 7 --jq . --reason x --yes", letter), CLI_NOTHING);
    assert_printed("nothing is changed by it");
}

/* What an edit that failed left, for whoever wrote it. */
static void remove_what_was_left(void)
{
    char path[200];
    const char *at = strstr(printed, "what you wrote is in ");
    if (at == NULL)
        return;
    assert_int_equal(sscanf(at, "what you wrote is in %199[^;]", path), 1);
    assert_int_equal(unlink(path), 0);
}

static void a_task_is_changed_in_an_editor(void **state)
{
    (void)state;
    static const char words[] = "dlq edit 7 --reason x --yes --detach";
    assert_int_equal(unsetenv("EDITOR"), 0);
    assert_int_equal(setenv("VISUAL", "sed -i s/1/4/", 1), 0);
    assert_int_equal(run(words, letter), CLI_OK);
    assert_printed("+     \"n\": 4\n");
    assert_int_equal(setenv("VISUAL", "", 1), 0);
    assert_int_equal(setenv("EDITOR", "sed -i s/1/5/", 1), 0);
    assert_int_equal(setenv("TMPDIR", "", 1), 0);
    assert_int_equal(run(words, letter), CLI_OK);
    assert_printed("+     \"n\": 5\n");
    assert_int_equal(setenv("EDITOR", "false", 1), 0);
    assert_int_equal(run(words, letter), CLI_FAILED);
    assert_printed("the editor did not end well");
    assert_printed("what you wrote is in /tmp/reprise-edit-");
    remove_what_was_left();
    assert_int_equal(setenv("TMPDIR", "/none/such", 1), 0);
    assert_int_equal(run(words, letter), CLI_FAILED);
    assert_printed("/none/such/reprise-edit-");
    char folder[5000];
    memset(folder, 'a', sizeof folder - 1);
    folder[sizeof folder - 1] = '\0';
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    assert_int_equal(run(words, letter), CLI_FAILED);
    assert_printed("reprise: aaaaaaaa");
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

static void what_cannot_be_read_may_be_edited_again(void **state)
{
    (void)state;
    static const char words[] = "dlq edit 7 --reason x --yes --detach";
    assert_int_equal(setenv("VISUAL", "sed -i '/payload/s/{/{{/;t;s/{{/{/;s/1/6/'", 1), 0);
    type("\nn\n");
    (void)run(words, letter);
    assert_printed("Edit it again? [Y/n]");
    remove_what_was_left();
}

static void what_was_written_is_kept_until_it_is_on_its_way(void **state)
{
    (void)state;
    assert_int_equal(setenv("VISUAL", "sed -i s/1/4/", 1), 0);
    type("n\n");
    assert_int_equal(run("dlq edit 7 --reason x --detach", letter), CLI_REFUSED);
    assert_printed("what you wrote is in /tmp/reprise-edit-");
    remove_what_was_left();
    assert_int_equal(run("dlq edit 7 --dry-run", letter), CLI_OK);
    assert_printed("what you wrote is in /tmp/reprise-edit-");
    remove_what_was_left();
    assert_int_equal(setenv("VISUAL", "true", 1), 0);
    assert_int_equal(run("dlq edit 7 --dry-run", letter), CLI_NOTHING);
    assert_null(strstr(printed, "what you wrote"));
}

#define ONE                                                                                        \
    "{\"target\": \"a\", \"key\": null, \"headers\": [], \"payload\": {\"base64\": \"MQ==\"}}"

static void what_cannot_be_edited_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *row, *says;
        int code;
    } cases[] = {
        {"7|dead|NULL|NULL|f|f|NULL|{}", "there is no task in it", CLI_USAGE},
        {"7|dead|NULL|NULL|t|t|NULL|{}", "too large to be kept", CLI_USAGE},
        {"7|dead|NULL|NULL|t|f|{}|{\"a\": 1}", "'a'", CLI_USAGE},
        {"7|dead|NULL|\\x00|t|f|{}|{}", "", CLI_USAGE},
        {"7|replaying|j-1|NULL|t|f|{}|" ONE, "replay j-1 has it", CLI_FAILED},
        {"7|replayed|j-1|NULL|t|f|{}|" ONE, "it is replayed already, by j-1", CLI_OK},
        {"", "there is no such dead letter", CLI_NOTHING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pg_answer answers[] = {
            {"AS d WHERE d.", "id|status|job|record|task|shrunk|about|message", cases[i].row}, {0}};
        int code = run("dlq edit --task t --jq '.payload = 2' --reason x --yes --detach", answers);
        assert_printed(cases[i].says);
        if (code != cases[i].code)
            fail_msg("%s: exit code %d: %s", cases[i].row, code, printed);
    }
}

int main(void)
{
    cli_configure("kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n"
                  "targets: {allow: [a]}\n"
                  "postgres: {dsn: \"host=nowhere\"}\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(how_a_replay_ended_is_said, calm),
        cmocka_unit_test_setup(a_replay_that_cannot_be_taken_up_says_why, calm),
        cmocka_unit_test_setup(a_terminal_shows_how_far_a_replay_is, calm),
        cmocka_unit_test_setup(elsewhere_it_is_a_line_now_and_then, calm),
        cmocka_unit_test_setup(what_is_wished_of_a_replay_that_nobody_runs_is_done_or_said, calm),
        cmocka_unit_test_setup(what_somebody_runs_is_not_resumed, calm),
        cmocka_unit_test_setup(a_preview_says_what_a_replay_would_do, calm),
        cmocka_unit_test_setup(a_preview_counts_what_is_larger_than_topics_take, calm),
        cmocka_unit_test_setup(a_preview_that_cannot_ask_fails, calm),
        cmocka_unit_test_setup(of_nothing_there_is_no_replay, calm),
        cmocka_unit_test_setup(nobody_who_says_no_replays, calm),
        cmocka_unit_test_setup(a_job_that_may_be_on_record_is_looked_for, calm),
        cmocka_unit_test_setup(a_preview_shows_what_a_program_makes, calm),
        cmocka_unit_test_setup(a_task_is_changed_by_a_program, calm),
        cmocka_unit_test_setup(a_task_is_changed_in_an_editor, calm),
        cmocka_unit_test_setup(what_cannot_be_read_may_be_edited_again, calm),
        cmocka_unit_test_setup(what_was_written_is_kept_until_it_is_on_its_way, calm),
        cmocka_unit_test_setup(what_cannot_be_edited_is_said, calm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
