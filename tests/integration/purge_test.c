/* SPDX-License-Identifier: Apache-2.0 */
/* Purge and export on a real PostgreSQL, whose dsn is in REPRISE_TEST_DSN; what is in it is
 * dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zstd.h>

#include "archive_export.h"
#include "migration.h"
#include "purge.h"

static struct rp_db *db;
static struct rp_error err;
static struct rp_query where;
static char folder[] = "/tmp/reprise-purge-XXXXXX";
static char path[80], part[96];

static void run_on(struct rp_db *connection, const char *sql)
{
    if (rp_db_script(connection, sql, &err) != 0)
        fail_msg("%s: %s", sql, err.text);
}

static void run(const char *sql)
{
    run_on(db, sql);
}

static void answers(const char *sql, const char *expected)
{
    PGresult *result = NULL;
    if (rp_db_query(db, sql, 0, NULL, &result, &err) != 0)
        fail_msg("%s: %s", sql, err.text);
    assert_string_equal(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
}

/* 300 dead letters of type a, whose first 10 are being replayed, and 100 of type b. */
static int fill(void **state)
{
    (void)state;
    (void)unlink(path);
    if (rp_db_script(db, "DROP SCHEMA public CASCADE; CREATE SCHEMA public", &err) != 0 ||
        rp_migrate(db, NULL, NULL, &err) != 0)
        return -1;
    run("SELECT dead_letter_add_day('2026-11-21')");
    run("INSERT INTO dead_letter (dead_at, record_topic, record_partition, record_offset, reason,"
        " task_id, task_type, payload) SELECT '2026-11-21'::date + n * interval '1 s', 't', 0, n,"
        " 'EXHAUSTED', 'task-' || n, CASE WHEN n < 300 THEN 'a' ELSE 'b' END, '\\x00ff'"
        " FROM generate_series(0, 399) AS n");
    run("INSERT INTO dead_letter_state (dead_at, id, status, reason, task_type, fingerprint)"
        " SELECT dead_at, id, 'replaying', reason, task_type, fingerprint FROM dead_letter"
        " WHERE record_offset < 10");
    rp_query_clear(&where);
    rp_query_add(&where, "(d.task_type = ");
    rp_query_param(&where, "a");
    rp_query_add(&where, ")");
    return 0;
}

static struct rp_purge purge_of_a(void)
{
    return (struct rp_purge){.action = "purge",
                             .actor = "me",
                             .reason = "a test",
                             .filter = "type = a",
                             .where = &where,
                             .batch = 40};
}

static struct rp_purge_progress purge(const struct rp_purge *p, int expected)
{
    struct rp_purge_progress progress;
    int failed = rp_purge_run(db, p, &progress, &err);
    if (failed != expected)
        fail_msg("%d: %s", failed, err.text);
    return progress;
}

static const char left[] = "SELECT string_agg(concat_ws(' ', task_type, status, n), ', '"
                           " ORDER BY task_type, status) FROM (SELECT task_type, status, count(*)"
                           " FROM archive GROUP BY 1, 2) AS t (task_type, status, n)";
static const char counted[] = "SELECT string_agg(concat_ws(' ', task_type, status, n), ', '"
                              " ORDER BY task_type, status) FROM (SELECT task_type, status, sum(n)"
                              " FROM dead_letter_count GROUP BY 1, 2 HAVING sum(n) <> 0)"
                              " AS t (task_type, status, n)";

static void what_matches_goes_and_what_is_being_replayed_stays(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    struct rp_purge_progress progress = purge(&p, 0);
    assert_int_equal(progress.matched, 290);
    assert_int_equal(progress.deleted, 290);
    assert_int_equal(progress.done, 290);
    answers(left, "a replaying 10, b dead 100");
    answers(counted, "a replaying 10, b dead 100");
    answers("SELECT row(actor, action, reason, detail)::text FROM audit",
            "(me,purge,\"a test\",\"{\"\"rows\"\": 290, \"\"filter\"\": \"\"type = a\"\","
            " \"\"finished\"\": true}\")");
}

static void the_oldest_go_first(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    p.limit = 100;
    assert_int_equal(purge(&p, 0).deleted, 100);
    answers("SELECT min(record_offset) FROM archive WHERE status = 'dead'", "110");
}

/* Lines of the export, each of which must be JSON with a task. */
static int lines_of_export(void)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    static uint8_t in[1 << 20], out[1 << 22];
    ZSTD_inBuffer packed = {in, fread(in, 1, sizeof in, f), 0};
    ZSTD_outBuffer text = {out, sizeof out, 0};
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    assert_int_equal(ZSTD_decompressStream(zstd, &text, &packed), 0); /* a whole frame */
    assert_int_equal(packed.pos, packed.size);
    int n = 0;
    for (size_t i = 0; i < text.pos; i++)
        n += out[i] == '\n';
    assert_non_null(memmem(out, text.pos, "\"payload\" : \"AP8=\"", 18));
    assert_int_equal(ZSTD_freeDCtx(zstd), 0);
    assert_int_equal(fclose(f), 0);
    return n;
}

static void what_goes_is_exported_before(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    p.export_path = path;
    assert_int_equal(purge(&p, 0).exported, 290);
    assert_int_equal(lines_of_export(), 290);
    assert_int_equal(access(part, F_OK), -1);
    answers("SELECT detail->>'export' FROM audit", path);
    answers(left, "a replaying 10, b dead 100");
}

static void an_export_alone_has_all_that_matches(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    struct rp_purge_progress progress;
    p.export_path = path;
    if (rp_purge_export(db, &p, &progress, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(progress.exported, 300);
    assert_int_equal(lines_of_export(), 300);
    assert_int_equal(unlink(path), 0);
    p.limit = 150;
    assert_int_equal(rp_purge_export(db, &p, &progress, &err), 0);
    assert_int_equal(lines_of_export(), 150);
    answers("SELECT count(*) FROM dead_letter", "400");
}

static void nothing_goes_when_the_export_fails(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    p.export_path = "/dev/null/no/folder.zst";
    assert_int_equal(purge(&p, -1).deleted, 0);
    p.export_path = path;
    FILE *there = fopen(path, "w");
    assert_non_null(there);
    assert_int_equal(fclose(there), 0);
    assert_int_equal(purge(&p, -1).deleted, 0);
    assert_non_null(strstr(err.text, "exists already"));
    answers(left, "a dead 290, a replaying 10, b dead 100");
    answers("SELECT count(*) FROM audit", "0");
}

static void (*before_lock)(void);

/* In libc's place, so that a test can be another process just before the lock is taken. */
int flock(int fd, int operation)
{
    if (before_lock != NULL)
        before_lock();
    before_lock = NULL;
    return (int)syscall(SYS_flock, fd, operation);
}

static void write_part(void)
{
    FILE *f = fopen(part, "w");
    assert_non_null(f);
    assert_true(fputs("another's", f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void name_part(void)
{
    assert_int_equal(rename(part, path), 0);
}

static void name_another_part(void)
{
    name_part();
    write_part();
}

static void assert_refused(void (*meanwhile)(void), const char *why)
{
    struct rp_export *file = NULL;
    char text[16] = "";
    write_part();
    before_lock = meanwhile;
    assert_int_equal(rp_export_open(path, &file, &err), -1);
    assert_non_null(strstr(err.text, why));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    assert_int_equal(fclose(f), 0);
    assert_string_equal(text, "another's");
    assert_int_equal(unlink(path), 0);
}

static void what_another_process_finished_meanwhile_stays_whole(void **state)
{
    (void)state;
    assert_refused(name_part, "written by another");
    assert_refused(name_another_part, "written by another");
    (void)unlink(part);
}

static void a_name_that_was_taken_meanwhile_is_not_overwritten(void **state)
{
    (void)state;
    struct rp_export *file = NULL;
    assert_int_equal(rp_export_open(path, &file, &err), 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rp_export_commit(file, &err), -1);
    assert_non_null(strstr(err.text, "exists already"));
    rp_export_free(file);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(part, F_OK), -1);
}

static bool stop_at_100(void *opaque, const struct rp_purge_progress *progress)
{
    (void)opaque;
    return progress->exported < 100;
}

static void an_export_that_is_stopped_leaves_no_file_and_deletes_nothing(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    p.export_path = path;
    p.go_on = stop_at_100;
    assert_int_equal(purge(&p, -1).deleted, 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(part, F_OK), -1);
    answers("SELECT count(*) FROM dead_letter", "400");
}

static bool replay_one_that_is_exported(void *opaque, const struct rp_purge_progress *progress)
{
    bool *replayed = opaque;
    if (progress->exported == 290 && !*replayed)
        run("INSERT INTO dead_letter_state (dead_at, id, status, reason, task_type, fingerprint)"
            " SELECT dead_at, id, 'replayed', reason, task_type, fingerprint FROM dead_letter"
            " WHERE record_offset = 299");
    *replayed = progress->exported == 290;
    return true;
}

static void what_is_replayed_after_it_was_exported_stays(void **state)
{
    (void)state;
    bool replayed = false;
    struct rp_purge p = purge_of_a();
    p.export_path = path;
    p.go_on = replay_one_that_is_exported;
    p.opaque = &replayed;
    assert_int_equal(purge(&p, 0).deleted, 289);
    answers(left, "a replayed 1, a replaying 10, b dead 100");
    answers("SELECT detail->>'rows' FROM audit", "289");
}

static void nothing_goes_where_there_are_more_than_were_shown(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    p.shown = 289;
    assert_int_equal(purge(&p, -1).deleted, 0);
    assert_string_equal(err.text,
                        "nothing was done: 289 dead letters were shown, and now there are 290");
    answers("SELECT count(*) FROM audit", "0");
    p.shown = 290;
    assert_int_equal(purge(&p, 0).deleted, 290);
}

/* Between batches others go on: one row is claimed, one is new and matches too. */
static bool others_go_on(void *opaque, const struct rp_purge_progress *progress)
{
    (void)opaque;
    if (progress->done == 40) {
        run("INSERT INTO dead_letter_state (dead_at, id, status, reason, task_type, fingerprint)"
            " SELECT dead_at, id, 'replaying', reason, task_type, fingerprint FROM dead_letter"
            " WHERE record_offset = 299");
        run("INSERT INTO dead_letter (dead_at, record_topic, record_partition, record_offset,"
            " reason, task_type) VALUES ('2026-11-21 12:00', 't', 0, 1000, 'OTHER', 'a')");
    }
    return progress->done < 200 || progress->done >= 240;
}

static void what_changes_meanwhile_stays_and_the_audit_is_right_at_any_moment(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    p.go_on = others_go_on;
    assert_int_equal(purge(&p, 0).deleted, 200);
    answers("SELECT concat(detail->'rows', ' ', detail->'finished') FROM audit", "200 false");
    p.go_on = NULL;
    assert_int_equal(purge(&p, 0).deleted, 90);
    answers(left, "a replaying 11, b dead 100");
    answers(counted, "a replaying 11, b dead 100");
}

/* The server refuses to delete the row that has this offset. */
static void refuse(const char *offset)
{
    char sql[400];
    (void)snprintf(
        sql, sizeof sql,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        " RAISE 'not this one'; END$$; CREATE TRIGGER refuse BEFORE DELETE ON dead_letter"
        " FOR EACH ROW WHEN (old.record_offset = %s) EXECUTE FUNCTION refuse()",
        offset);
    run(sql);
}

static void a_purge_that_did_nothing_is_not_in_the_audit(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    refuse("12");
    assert_int_equal(purge(&p, -1).deleted, 0);
    answers("SELECT count(*) FROM audit", "0");
}

static void the_audit_says_why_a_purge_ended_early(void **state)
{
    (void)state;
    struct rp_purge p = purge_of_a();
    refuse("100");
    assert_int_equal(purge(&p, -1).deleted, 80);
    answers("SELECT concat(detail->'rows', ' ', detail->'finished') FROM audit", "80 false");
    answers("SELECT (detail->>'error' LIKE '%not this one%')::text FROM audit", "true");
}

/* Another connection has the lock that a batch needs, until the batch has waited for it once. */
static bool another_has_the_lock(void *opaque, const struct rp_purge_progress *progress)
{
    if (progress->done == 40)
        run_on(opaque, "BEGIN; SELECT dead_letter_keep();"
                       "SET idle_in_transaction_session_timeout = '6s'");
    return true;
}

static void a_lock_that_did_not_come_in_time_is_asked_for_again(void **state)
{
    (void)state;
    struct rp_db *other;
    struct rp_purge p = purge_of_a();
    assert_int_equal(rp_db_open(getenv("REPRISE_TEST_DSN"), "other", 10000, &other, &err), 0);
    p.go_on = another_has_the_lock;
    p.opaque = other;
    assert_int_equal(purge(&p, 0).deleted, 290);
    rp_db_close(other);
    answers("SELECT detail->>'rows' FROM audit", "290");
}

int main(void)
{
    const char *dsn = getenv("REPRISE_TEST_DSN");
    if (dsn == NULL || mkdtemp(folder) == NULL || rp_db_open(dsn, "purge_test", 10000, &db, &err)) {
        (void)fprintf(stderr, "REPRISE_TEST_DSN is not set, or is not a database\n");
        return 2;
    }
    (void)snprintf(path, sizeof path, "%s/letters.jsonl.zst", folder);
    (void)snprintf(part, sizeof part, "%s.part", path);
#define FRESH(test) cmocka_unit_test_setup(test, fill)
    const struct CMUnitTest tests[] = {
        FRESH(what_matches_goes_and_what_is_being_replayed_stays),
        FRESH(the_oldest_go_first),
        FRESH(what_goes_is_exported_before),
        FRESH(an_export_alone_has_all_that_matches),
        FRESH(nothing_goes_when_the_export_fails),
        FRESH(what_another_process_finished_meanwhile_stays_whole),
        FRESH(a_name_that_was_taken_meanwhile_is_not_overwritten),
        FRESH(an_export_that_is_stopped_leaves_no_file_and_deletes_nothing),
        FRESH(a_lock_that_did_not_come_in_time_is_asked_for_again),
        FRESH(a_purge_that_did_nothing_is_not_in_the_audit),
        FRESH(the_audit_says_why_a_purge_ended_early),
        FRESH(what_is_replayed_after_it_was_exported_stays),
        FRESH(nothing_goes_where_there_are_more_than_were_shown),
        FRESH(what_changes_meanwhile_stays_and_the_audit_is_right_at_any_moment),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rp_query_clear(&where);
    rp_db_close(db);
    (void)unlink(path);
    (void)rmdir(folder);
    return failed;
}
