/* SPDX-License-Identifier: Apache-2.0 */
/* What `reprise dlq show` tells of a dead letter, from a database that is played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cli_fixture.h"
#include "pg_fixture.h"
#include "target_fixture.h"

static int run(const char *words, const struct pg_answer *answers)
{
    pg_begin(answers);
    return cli_run(cli_commands, words);
}

#define EVENTS "SELECT to_char(at, 'YYYY-MM-DD HH24:MI:SS.MS'), what FROM ("
#define SHOWN                                                                                      \
    "reason|status|task_type|attempt|attempts|category|target|job|came_back_when|came_of_it|"      \
    "replays|replay_of|status_when|id|task_id|group_hex|failed_ms|decided_ms|error_class|causes|"  \
    "policy|replay_job|payload|was_fallback|payload_bytes"
#define TASK "7|t|00ab|1000|1000|TimeoutError|[[\"E\", \"m\"]]|p|j-0|"
#define REST TASK "\\x00|f|1001"

static void a_dead_letter_s_story_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *row, *says;
    } cases[] = {
        {"EXHAUSTED|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "today         policy p decides the same: "},
        {"EXHAUSTED|dead|p|2|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST, "decides the same: "},
        {"EXHAUSTED|dead|p|1|1|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "today         policy p would retry it, "},
        {"EXHAUSTED|dead|q|2|2|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "today         policy q would give it a last try by b\n"},
        {"DEADLINE_EXCEEDED|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "today         policy p would make it EXHAUSTED: "},
        {"NON_RETRYABLE|dead|p|3|3|BUSY|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "the error is of category TIMEOUT today, and was BUSY\n"},
        {"EXHAUSTED|dead|p|0|0|NULL|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "decided by    policy p, category not known\n"},
        {"EXHAUSTED|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "2026-11-21  execution 1 failed\\x1b[2J\n"},
        {"NO_TARGET|dead|p|3|3|TIMEOUT|NULL|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "target        the policy's: is there\n"},
        {"NEVER_HEARD_OF|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST,
         "reason        NEVER_HEARD_OF: \n"},
        {"OVERSIZED|replaying|p|3|3|TIMEOUT|a|j-1|NULL|NULL|0|NULL|NULL|" REST,
         "a replay has it: reprise replay show j-1\n"},
        {"OVERSIZED|replayed|p|3|3|TIMEOUT|a|j-1|NULL|NULL|1|NULL|then|" REST,
         "status        replayed since then, by replay j-1\n  replayed      1 time\n"},
        {"OVERSIZED|replayed|p|3|3|TIMEOUT|a|j-1|NULL|NULL|2|NULL|then|" REST,
         "once more     reprise dlq replay --id 7 --status replayed --reason WHY\n"},
        {"OVERSIZED|replayed|p|3|3|TIMEOUT|a|j-1|now|NULL|2|NULL|then|" REST,
         "came back     dead again, now\n"},
        {"OVERSIZED|replayed|p|3|3|TIMEOUT|a|j-1|now|9|2|NULL|then|" REST,
         "came back     dead again, now: dead letter 9\n"},
        {"OVERSIZED|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|3|NULL|" REST,
         "comes from    dead letter 3, sent again by replay j-0\n"},
        {"OVERSIZED|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" TASK "NULL|f|NULL",
         "not possible: its payload was too large to be kept\n"},
        {"EXHAUSTED|dead|q|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" TASK "\\x00|t|1",
         "today         policy q decides the same: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pg_answer answers[] = {
            {EVENTS, "at|what", "2026-11-21|execution 1 failed\x1b[2J"},
            {"archive AS d", SHOWN, cases[i].row},
            {0}};
        assert_int_equal(run("dlq show 7", answers), CLI_OK);
        assert_printed(cases[i].says);
        assert_int_equal(pg_statements("INSERT"), 0);
    }
}

static void what_cannot_be_asked_is_left_out_of_the_story(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"archive AS d", SHOWN, "EXHAUSTED|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST},
        {0}};
    bool told = false;
    for (int n = 1, code = CLI_FAILED; !told && n < 10; n++) {
        pg_begin(answers);
        pg_fail_at(n, 1, "57014");
        code = cli_run(cli_commands, "dlq show 7");
        told = strstr(printed, "(cannot be asked: PostgreSQL") != NULL;
        assert_int_equal(code, told ? CLI_OK : CLI_FAILED);
    }
    assert_true(told);
    target_refused = "no such topic";
    assert_int_equal(run("dlq show 7", answers), CLI_OK);
    assert_printed("target        a: no such topic\n");
    target_rc = -1;
    assert_int_equal(run("dlq show 7", answers), CLI_OK);
    assert_printed("target        a; whether it takes it is not known: the brokers are away\n");
}

static void a_replay_that_is_sure_to_be_refused_is_not_recommended(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"archive AS d", SHOWN, "OVERSIZED|dead|p|3|3|TIMEOUT|a|NULL|NULL|NULL|0|NULL|NULL|" REST},
        {0}};
    static const char not_possible[] = "as it is      not possible as things are\n"
                                       "  changed       reprise dlq edit 7 --reason WHY\n";
    target_refused = NULL;
    target_rc = 0;
    target_max_bytes = 1000;
    assert_int_equal(run("dlq show 7", answers), CLI_OK);
    assert_printed("target        a: takes 1000 bytes, less than the payload has\n");
    assert_printed(not_possible);
    target_max_bytes = 1001;
    assert_int_equal(run("dlq show 7", answers), CLI_OK);
    assert_printed("target        a: is there\n");
    assert_printed("as it is      reprise dlq replay --id 7 --reason WHY\n");
    target_refused = "no such topic";
    assert_int_equal(run("dlq show 7", answers), CLI_OK);
    assert_printed(not_possible);
}

int main(void)
{
    cli_configure("kafka: {bootstrap.servers: \"127.0.0.1:1\"}\n"
                  "targets: {allow: [a, b]}\n"
                  "postgres: {dsn: \"host=nowhere\"}\n"
                  "policies: {p: {target: a, max_attempts: 3},\n"
                  "           q: {target: a, fallback: b, max_attempts: 2}}\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_letter_s_story_is_told),
        cmocka_unit_test(what_cannot_be_asked_is_left_out_of_the_story),
        cmocka_unit_test(a_replay_that_is_sure_to_be_refused_is_not_recommended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
