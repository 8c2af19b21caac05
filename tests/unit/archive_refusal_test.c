/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to the archive, while PostgreSQL refuses a statement or is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "archive_import.h"
#include "discard.h"
#include "file_fixture.h"
#include "migration.h"
#include "pg_fixture.h"
#include "purge.h"
#include "replay_plan.h"

static struct rp_db *db;
static struct rp_filter *filter;
static struct rp_error err;

static void open_db(void)
{
    if (rp_db_open("", "test", 1000, &db, &err) != 0)
        fail_msg("%s", err.text);
}

/* Runs `step` with its first statement refused, its second and so on. It must fail, and commit
 * nothing behind that. Returns how many statements it has. */
static int refuse_each(int (*step)(void), const struct pg_answer *answers, const char *sqlstate)
{
    for (int n = 1;; n++) {
        pg_begin(answers);
        open_db();
        pg_fail_at(n, 1, sqlstate);
        int rc = step();
        bool failed = pg_failed(), alive = rp_db_alive(db);
        rp_db_close(db);
        assert_int_equal(rc, failed ? -1 : 0);
        if (!failed)
            return n - 1;
        assert_int_equal(pg_since_failure("COMMIT"), 0);
        assert_int_equal(alive, sqlstate[0] != '\0');
        assert_int_equal(err.code, RP_E_POSTGRES);
        assert_int_equal(err.cls, RP_RETRIABLE);
    }
}

static char job[RP_REPLAY_ID_SIZE];
static int64_t total;
static const char *edited;
static struct rp_replay_options options;

static struct rp_replay_request request(void)
{
    return (struct rp_replay_request){.filter = filter,
                                      .options = &options,
                                      .actor = "me",
                                      .reason = "a test",
                                      .edited = edited,
                                      .archived_by = "2026-11-21"};
}

static int plan(void)
{
    struct rp_replay_request r = request();
    return rp_replay_plan(db, &r, job, &total, &err);
}

static int preview(void)
{
    int64_t held_back;
    struct rp_replay_request r = request();
    return rp_replay_preview(db, &r, &held_back, &err);
}

static void a_plan_is_made_whole_or_not_at_all(void **state)
{
    (void)state;
    edited = "{}";
    options.limit = 7;
    options.order = RP_REPLAY_BY_KEY;
    assert_true(refuse_each(plan, NULL, "42P01") > 8);
    options.order = RP_REPLAY_NEWEST;
    assert_true(refuse_each(plan, NULL, "") > 8);
    assert_int_equal(strlen(job), 13);
    assert_int_equal(total, 1);
    assert_true(refuse_each(preview, NULL, "53100") > 2);
    edited = NULL;
    options.limit = 0;
}

static void a_plan_that_meets_another_is_tried_five_times(void **state)
{
    (void)state;
    static const char *const states[] = {"40P01", "23505", "55P03", "40001"};
    for (int i = 0; i < 4; i++) {
        pg_begin(NULL);
        open_db();
        pg_fail_at(2, 1, states[i]);
        assert_int_equal(plan(), 0);
        assert_int_equal(pg_statements("ROLLBACK"), 1);
        assert_int_equal(pg_statements("COMMIT"), 1);
        pg_fail_at(1, 1000, states[i]);
        assert_int_equal(plan(), -1); /* even the ROLLBACK fails */
        assert_int_equal(pg_statements("ROLLBACK"), 2);
        rp_db_close(db);
    }
}

static void a_plan_of_nothing_is_no_job(void **state)
{
    (void)state;
    static const struct pg_answer none[] = {{"RETURNING total", "total", "0"}, {0}};
    pg_begin(none);
    open_db();
    assert_int_equal(plan(), 0);
    assert_int_equal(total, 0);
    assert_int_equal(pg_statements("COMMIT"), 0);
    assert_int_equal(pg_statements("ROLLBACK"), 1);
    rp_db_close(db);
}

static void an_edit_is_of_one_dead_letter(void **state)
{
    (void)state;
    static const struct pg_answer two[] = {{"RETURNING total", "total", "2"}, {0}};
    pg_begin(two);
    open_db();
    edited = "{}";
    assert_int_equal(plan(), -1);
    edited = NULL;
    assert_int_equal(err.cls, RP_POISON);
    assert_int_equal(pg_statements("COMMIT"), 0);
    assert_int_equal(pg_statements("ROLLBACK"), 1);
    rp_db_close(db);
}

static void whether_there_is_a_job_is_asked_on_another_connection(void **state)
{
    (void)state;
    static const struct pg_answer known[] = {{"FROM replay_job", "total", "5"}, {0}};
    static const struct pg_answer unknown[] = {{"FROM replay_job", "total", ""}, {0}};
    pg_begin(known);
    open_db();
    assert_int_equal(rp_replay_is_planned(db, "j", &total, &err), 0);
    assert_int_equal(total, 5);
    pg_begin(unknown);
    assert_int_equal(rp_replay_is_planned(db, "j", &total, &err), 0);
    assert_int_equal(total, 0);
    pg_fail_at(1, 1, "");
    assert_int_equal(rp_replay_is_planned(db, "j", &total, &err), -1);
    rp_db_close(db);
}

/* Four rows in two batches, then no more. */
static struct rp_purge_progress purged;

static int purge(void)
{
    struct rp_query where = {0};
    rp_query_add(&where, "d.task_type = ");
    rp_query_param(&where, "a");
    const struct rp_purge p = {.action = "purge",
                               .actor = "me",
                               .reason = "a test",
                               .filter = "type = a",
                               .where = &where,
                               .limit = 4,
                               .batch = 2};
    int rc = rp_purge_run(db, &p, &purged, &err);
    rp_query_clear(&where);
    return rc;
}

static const struct pg_answer of_purge[] = {{"WITH added", "n", "4"}, {"WITH mine", "n", "2"}, {0}};

static void a_purge_that_fails_says_what_is_done(void **state)
{
    (void)state;
    pg_begin(of_purge);
    open_db();
    assert_int_equal(purge(), 0);
    rp_db_close(db);
    assert_int_equal(purged.deleted, 4);
    int n = pg_statements(""), committed = 0;
    for (int at = 1; at <= n - 3; at++) { /* but for what opens the connection */
        pg_begin(of_purge);
        open_db();
        pg_fail_at(at, 1, at % 2 == 0 ? "42501" : "");
        int rc = purge();
        rp_db_close(db);
        committed = pg_statements("COMMIT") - (pg_since_failure("COMMIT") == 0 ? 0 : 1);
        if (rc == 0)
            continue; /* what tidies up may fail */
        assert_int_equal(pg_since_failure("COMMIT"), 0);
        assert_true(purged.deleted <= 2 * committed);
    }
    assert_int_equal(committed, 2);
}

static void a_purge_waits_for_a_lock_five_times(void **state)
{
    (void)state;
    pg_begin(of_purge);
    open_db();
    pg_fail_at(5, 1, "55P03"); /* the first batch's begin */
    assert_int_equal(purge(), 0);
    assert_int_equal(purged.deleted, 4);
    assert_int_equal(pg_statements("ROLLBACK"), 1);
    rp_db_close(db);
}

static struct rp_discard_progress discarded;

static int discard(void)
{
    const struct rp_discard p = {.actor = "me",
                                 .reason = "a test",
                                 .filter = filter,
                                 .filter_text = "type = a",
                                 .archived_until = "2026-11-22"};
    return rp_discard_run(db, &p, &discarded, &err);
}

static void a_discard_ends_where_it_is_refused(void **state)
{
    (void)state;
    assert_int_equal(refuse_each(discard, NULL, "42501"), 9);
    assert_int_equal(refuse_each(discard, NULL, ""), 9);
    pg_begin(NULL);
    open_db();
    pg_fail_at(6, 1, "40P01"); /* the batch */
    assert_int_equal(discard(), 0);
    assert_int_equal(discarded.changed, 1);
    assert_int_equal(pg_statements("ROLLBACK"), 1);
    assert_int_equal(pg_statements("UPDATE audit"), 2);
    rp_db_close(db);
}

static int n_applied;

static void applied(void *opaque, const struct rp_migration *m)
{
    (void)opaque;
    assert_non_null(m->name);
    n_applied++;
}

static int migrate(void)
{
    return rp_migrate(db, applied, NULL, &err);
}

static void a_migration_that_is_refused_is_not_done(void **state)
{
    (void)state;
    static const struct pg_answer empty[] = {
        {"server_encoding", "e", "UTF8"}, {"to_regclass", "n", "0"}, {0}};
    static const struct pg_answer latin[] = {{"server_encoding", "e", "LATIN1"}, {0}};
    assert_int_equal(refuse_each(migrate, empty, "42501"), 5 + rp_n_migrations);
    n_applied = 0;
    pg_begin(empty);
    open_db();
    assert_int_equal(migrate(), 0);
    assert_int_equal(n_applied, rp_n_migrations);
    pg_begin(latin);
    assert_int_equal(migrate(), -1);
    assert_int_equal(err.cls, RP_FATAL);
    assert_non_null(strstr(err.text, "is LATIN1"));
    assert_int_equal(n_applied, rp_n_migrations);
    rp_db_close(db);
}

#define ONE_LINE "{\"a\": \"\\n\"}\n"
static const char one_line[] = ONE_LINE, two_lines[] = ONE_LINE "\n{\"b\": 1}\n";
static char file[] = "/tmp/reprise-import-XXXXXX";
static struct rp_import_progress imported;
static int64_t told[4];
static int n_told;
static char told_why[200];
static bool goes_on;
static int n_asked;

static void tell_bad(void *opaque, int64_t line, const char *why)
{
    (void)opaque;
    assert_in_range(n_told, 0, 3);
    told[n_told++] = line;
    (void)snprintf(told_why, sizeof told_why, "%s", why);
}

static bool go_on(void *opaque, const struct rp_import_progress *progress)
{
    (void)opaque;
    assert_ptr_equal(progress, &imported);
    n_asked++;
    return goes_on;
}

static int import(void)
{
    static const struct rp_import p = {
        .actor = "me", .reason = "a test", .file = "x", .bad = tell_bad, .go_on = go_on};
    struct rp_lines *lines;
    n_told = 0;
    assert_int_equal(rp_lines_open(file, &lines, &err), 0);
    int rc = rp_import_run(db, lines, &p, &imported, &err);
    rp_lines_close(lines);
    assert_int_equal(imported.bad, n_told);
    return rc;
}

#define INSERTED                                                                                   \
    {                                                                                              \
        "'dead_at'", "n|added|renumbered", "2|1|0"                                                 \
    }

static void an_import_ends_where_it_is_refused(void **state)
{
    static const struct pg_answer answers[] = {INSERTED, {0}};
    (void)state;
    goes_on = true;
    file_make(file, two_lines, sizeof two_lines - 1);
    assert_true(refuse_each(import, answers, "42501") > 6);
    assert_int_equal(imported.lines, 3); /* one of them empty */
    assert_int_equal(imported.added, 1);
    assert_int_equal(imported.known, 1);
    assert_true(refuse_each(import, answers, "") > 6);
    goes_on = false;
    pg_begin(answers);
    open_db();
    assert_int_equal(import(), 0);
    assert_int_equal(imported.lines, 0);
    rp_db_close(db);
    assert_int_equal(unlink(file), 0);
    memcpy(file + sizeof file - 7, "XXXXXX", 6);
}

/* Of the lines that are refused together each is tried by itself, and what is refused by itself is
 * told of. */
static void a_line_that_is_refused_alone_is_told_of(void **state)
{
    static const struct pg_answer timeless[] = {
        {"'dead_at' IS NULL", "t", "t"}, {"'dead_at'", "n|added|renumbered", "1|1|0"}, {0}};
    static const struct pg_answer timed[] = {
        {"'dead_at' IS NULL", "t", "f"}, {"'dead_at'", "n|added|renumbered", "1|1|0"}, {0}};
    int alone = 0, together = 0;
    (void)state;
    goes_on = true;
    for (int one = 0; one < 2; one++) {
        bool failed = true;
        file_make(file, one == 1 ? one_line : two_lines,
                  one == 1 ? sizeof one_line - 1 : sizeof two_lines - 1);
        for (int n = 1; failed; n++) {
            bool without_time = n % 2 == 0;
            pg_begin(without_time ? timeless : timed);
            open_db();
            pg_fail_at(n, 1, "23514");
            int rc = import();
            rp_db_close(db);
            failed = pg_failed();
            if (rc != 0 || !failed)
                continue;
            assert_int_equal(n_told, one);
            if (n_told == 1) {
                assert_int_equal(told[0], 1);
                assert_int_equal(strstr(told_why, "no dead_at") != NULL, without_time);
            }
            alone += one == 1;
            together += one == 0;
        }
        assert_int_equal(unlink(file), 0);
        memcpy(file + sizeof file - 7, "XXXXXX", 6);
    }
    assert_true(alone >= 4);
    assert_true(together >= 4);
}

/* A small file may unpack to gigabytes of them. */
static void an_import_can_be_stopped_among_empty_lines(void **state)
{
    char empty[5000];
    (void)state;
    memset(empty, '\n', sizeof empty);
    file_make(file, empty, sizeof empty);
    goes_on = true;
    n_asked = 0;
    pg_begin(NULL);
    open_db();
    assert_int_equal(import(), 0);
    assert_int_equal(imported.lines, sizeof empty);
    assert_true(n_asked >= 10);
    rp_db_close(db);
    assert_int_equal(unlink(file), 0);
    memcpy(file + sizeof file - 7, "XXXXXX", 6);
}

int main(void)
{
    if (rp_filter_new(0, &filter, &err) != 0 || rp_filter_where(filter, "type = a", &err) != 0)
        return 2;
    rp_replay_options_init(&options);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_made_whole_or_not_at_all),
        cmocka_unit_test(a_plan_that_meets_another_is_tried_five_times),
        cmocka_unit_test(a_plan_of_nothing_is_no_job),
        cmocka_unit_test(an_edit_is_of_one_dead_letter),
        cmocka_unit_test(whether_there_is_a_job_is_asked_on_another_connection),
        cmocka_unit_test(a_purge_that_fails_says_what_is_done),
        cmocka_unit_test(a_purge_waits_for_a_lock_five_times),
        cmocka_unit_test(a_discard_ends_where_it_is_refused),
        cmocka_unit_test(a_migration_that_is_refused_is_not_done),
        cmocka_unit_test(an_import_ends_where_it_is_refused),
        cmocka_unit_test(a_line_that_is_refused_alone_is_told_of),
        cmocka_unit_test(an_import_can_be_stopped_among_empty_lines),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rp_replay_options_clear(&options);
    rp_filter_free(filter);
    return failed;
}
