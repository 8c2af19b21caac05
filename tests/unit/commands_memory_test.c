/* SPDX-License-Identifier: Apache-2.0 */
/* Commands while memory runs out: each does what it does with memory, or fails and says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "archive_import.h"
#include "cli_fixture.h"
#include "discard.h"
#include "file_fixture.h"
#include "memory_fixture.h"
#include "pg_fixture.h"
#include "replay_plan.h"

static char whole[sizeof printed];

/* Returns how many requests of memory it makes. */
static int starve_command(const char *words, const struct pg_answer *answers)
{
    pg_begin(answers);
    int expected = cli_run(cli_commands, words);
    memcpy(whole, printed, sizeof whole);
    for (int n = 1;; n++) {
        pg_begin(answers);
        memory_fail_at(n);
        int code = cli_run(cli_commands, words);
        bool failed = memory_failed();
        memory_fail_at(0);
        bool same = code == expected && strcmp(printed, whole) == 0;
        if (!failed)
            assert_true(same);
        else if (!same && (code == CLI_OK || printed[0] == '\0'))
            fail_msg("%s: request %d: exit code %d: %s", words, n, code, printed);
        if (!failed)
            return n - 1;
    }
}

static void policies_are_explained_or_not(void **state)
{
    (void)state;
    assert_true(starve_command("policy check", NULL) > 100);
    assert_true(starve_command("policy explain a --error E --message m", NULL) > 100);
    assert_true(starve_command("policy explain a --success 50%", NULL) > 100);
}

static void the_archive_answers_or_not(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"json", "j|cursor|found", "{\"a\": [1, \"\\u00e4\"]}|2026-11-22T03:00Z/1|1"}, {0}};
    static const struct pg_answer several[] = {
        {"BETWEEN", "group", "c57b000000000001\nc57b000000000002"}, {0}};
    assert_true(starve_command("dlq count --type a --since 2h", NULL) > 100);
    assert_true(starve_command("dlq list --format json --where 'class = E'", answers) > 100);
    assert_true(starve_command("dlq stats --by type,day --format json", answers) > 100);
    assert_true(starve_command("dlq discard --group c57b --dry-run", several) > 100);
    assert_true(starve_command("replay rate j 5 --as me", NULL) > 100);
    assert_true(starve_command("db check", NULL) > 100);
    assert_true(starve_command("db migrate", NULL) > 100);
}

static struct rp_filter *filter;

/* Nothing is committed that is not whole. */
static int plan(struct rp_error *err)
{
    struct rp_db *db;
    char job[RP_REPLAY_ID_SIZE];
    int64_t total;
    struct rp_replay_options options;
    struct rp_replay_request r = {
        .filter = filter, .options = &options, .actor = "me", .reason = "a test", .edited = "{}"};
    pg_begin(NULL);
    rp_replay_options_init(&options);
    options.limit = 5;
    if (rp_db_open("", "test", 1000, &db, err) != 0)
        return -1;
    int rc = rp_replay_plan(db, &r, job, &total, err);
    assert_int_equal(pg_statements("COMMIT"), rc == 0);
    assert_int_equal(pg_statements("ROLLBACK"), rc != 0);
    rp_db_close(db);
    return rc;
}

/* What is committed is in the audit. */
static int discard(struct rp_error *err)
{
    struct rp_db *db;
    struct rp_discard_progress progress;
    const struct rp_discard d = {.actor = "me",
                                 .reason = "a test",
                                 .filter = filter,
                                 .filter_text = "type = a",
                                 .archived_until = "2026-11-22"};
    pg_begin(NULL);
    if (rp_db_open("", "test", 1000, &db, err) != 0)
        return -1;
    int rc = rp_discard_run(db, &d, &progress, err);
    assert_true(pg_statements("COMMIT") <= pg_statements("INSERT INTO audit"));
    rp_db_close(db);
    return rc;
}

static char file[] = "/tmp/reprise-import-XXXXXX";

static void tell_bad(void *opaque, int64_t line, const char *why)
{
    (void)opaque;
    fail_msg("line %d: %s", (int)line, why);
}

static bool go_on(void *opaque, const struct rp_import_progress *progress)
{
    (void)opaque;
    (void)progress;
    return true;
}

/* No line is blamed, and none is left out. */
static int import(struct rp_error *err)
{
    static const struct pg_answer inserted[] = {
        {"SELECT max((line", "n", "0"}, {"'dead_at'", "n|added|renumbered", "2|2|0"}, {0}};
    static const struct rp_import p = {
        .actor = "me", .reason = "a test", .file = "x", .bad = tell_bad, .go_on = go_on};
    struct rp_import_progress progress = {0};
    struct rp_lines *lines;
    struct rp_db *db;
    pg_begin(inserted);
    if (rp_lines_open(file, &lines, err) != 0)
        return -1;
    int rc = rp_db_open("", "test", 1000, &db, err);
    if (rc == 0) {
        rc = rp_import_run(db, lines, &p, &progress, err);
        assert_int_equal(pg_statements("COMMIT"), progress.added / 2);
        rp_db_close(db);
    }
    rp_lines_close(lines);
    assert_true(rc != 0 || progress.added == 2);
    return rc;
}

static void what_is_done_is_done_whole_or_not_at_all(void **state)
{
    (void)state;
    struct rp_error err;
    assert_int_equal(rp_filter_new(0, &filter, &err), 0);
    assert_int_equal(rp_filter_where(filter, "type = a and class != B", &err), 0);
    assert_true(starve(plan) > 20);
    assert_true(starve(discard) > 20);
    file_make(file, "{\"a\": 1}\n\\\n", 11);
    assert_true(starve(import) > 10);
    assert_int_equal(unlink(file), 0);
    rp_filter_free(filter);
}

int main(void)
{
    cli_configure("targets: {allow: [a]}\n"
                  "postgres: {dsn: \"host=nowhere\"}\n"
                  "policies: {a: {target: a, retry: {max_attempts: 3}}}\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_explained_or_not),
        cmocka_unit_test(the_archive_answers_or_not),
        cmocka_unit_test(what_is_done_is_done_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
