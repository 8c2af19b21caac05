/* SPDX-License-Identifier: Apache-2.0 */
/* What the archiver does beside its rows, on a PostgreSQL that is played and refuses. */
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

#include "clock_fixture.h"
#include "config_fixture.h"
#include "day.h"
#include "log.h"
#include "pg_fixture.h"
#include "retention.h"
#include "statistics.h"
#include "store.h"

/* 2026-11-21T03:00:00Z, and how PostgreSQL says it. */
#define NOW_MS   INT64_C(1795230000000)
#define NOW_TEXT "1795230000000"
#define AGAIN_MS 60000
#define HOUR_MS  3600000

static char folder[] = "/tmp/reprise-days-XXXXXX";
static struct rp_config *plain, *exporting;
static struct rp_metrics *metrics;
static struct metrics_archiver counts;
static struct retention retention;
static struct rp_db *db;
static struct rp_error err;

static int set_up(void **state)
{
    (void)state;
    static atomic_bool stop;
    metrics = rp_metrics_new();
    counts = (struct metrics_archiver){0};
    metrics_archiver_init(&counts, metrics);
    retention = (struct retention){.config = plain, .metrics = &counts, .stop = &stop};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rp_metrics_free(metrics);
    return 0;
}

static int serve(const struct pg_answer *answers, int fail_at, const char *sqlstate)
{
    pg_begin(answers);
    assert_int_equal(rp_db_open("", "test", 1000, &db, &err), 0);
    pg_fail_at(fail_at, 1, sqlstate);
    retention.next_ms = 0;
    int rc = retention_serve(&retention, db, NOW_MS, &err);
    rp_db_close(db);
    return rc;
}

/* A day that is too old, on which nothing is replayed. */
#define CLOCK                                                                                      \
    {                                                                                              \
        "floor(extract", "n", NOW_TEXT                                                             \
    }
#define DAYS                                                                                       \
    {                                                                                              \
        "FROM dead_letter_day", "day|ms", "2026-01-02|1767312000000"                               \
    }
#define FREE                                                                                       \
    {                                                                                              \
        "WITH r AS", "n", "0"                                                                      \
    }
#define NO_JOB                                                                                     \
    {                                                                                              \
        "DELETE FROM replay_item", "n", "0"                                                        \
    }
#define NO_ROW                                                                                     \
    {                                                                                              \
        "array_agg(DISTINCT", "types", "NULL"                                                      \
    }
static const struct pg_answer one_day[] = {
    CLOCK, DAYS, FREE, NO_JOB, NO_ROW, {"dead_letter_drop_day", "n", "5"}, {0}};

static void what_is_refused_is_tried_again_in_a_minute(void **state)
{
    (void)state;
    int n = 1;
    for (; serve(one_day, n, n % 2 == 0 ? "" : "42501") != 0; n++) {
        assert_int_equal(retention.next_ms, NOW_MS + AGAIN_MS);
        assert_int_equal(rp_series_value(counts.retention_failures), n);
        assert_memory_equal(err.text, "retention: ", 11);
    }
    assert_int_equal(n, 13);
    assert_true(retention.next_ms > NOW_MS + HOUR_MS); /* tomorrow */
    assert_int_equal(pg_statements("SELECT pg_advisory_unlock"), 1);
}

static void nothing_is_dropped_by_a_wrong_clock(void **state)
{
    (void)state;
    const struct pg_answer slow[] = {{"floor(extract", "n", "1795220000000"}, {0}};
    const struct pg_answer fast[] = {{"floor(extract", "n", "1795240000000"}, {0}};
    assert_int_equal(serve(slow, 0, ""), -1);
    assert_non_null(strstr(err.text, "are 10000 s apart"));
    assert_int_equal(serve(fast, 0, ""), -1);
    assert_non_null(strstr(err.text, "are -10000 s apart"));
    assert_int_equal(pg_statements("SELECT dead_letter_drop_day"), 0);
    assert_int_equal(pg_statements("SELECT count(*) FILTER (WHERE dead_letter_add_day"), 0);
}

static void a_clock_that_was_ahead_puts_nothing_off(void **state)
{
    (void)state;
    pg_begin(one_day);
    assert_int_equal(rp_db_open("", "test", 1000, &db, &err), 0);
    assert_int_equal(retention_serve(&retention, db, NOW_MS + 40 * DAY_MS, &err), -1);
    assert_int_equal(retention_serve(&retention, db, NOW_MS, &err), 0);
    rp_db_close(db);
    assert_int_equal(rp_series_value(counts.days_dropped), 1);
}

static void another_archiver_that_is_at_it_is_left_alone(void **state)
{
    (void)state;
    const struct pg_answer locked[] = {CLOCK, {"pg_try_advisory_lock", "n", "0"}, {0}};
    assert_int_equal(serve(locked, 0, ""), 0);
    assert_int_equal(retention.next_ms, NOW_MS + AGAIN_MS);
    assert_int_equal(pg_statements("SELECT dead_letter_drop_day"), 0);
}

static void a_day_that_is_replayed_is_looked_at_in_an_hour(void **state)
{
    (void)state;
    const struct pg_answer held[] = {CLOCK, DAYS, NO_JOB, NO_ROW, {0}};
    assert_int_equal(serve(held, 0, ""), 0);
    assert_int_equal(retention.next_ms, NOW_MS + HOUR_MS);
    assert_int_equal(rp_series_value(counts.days_dropped), 0);
    const struct pg_answer since[] = {
        CLOCK, DAYS, FREE, NO_JOB, NO_ROW, {"dead_letter_drop_day", "n", "-1"}, {0}};
    assert_int_equal(serve(since, 0, ""), 0);
    assert_int_equal(retention.next_ms, NOW_MS + HOUR_MS);
    assert_int_equal(rp_series_value(counts.days_dropped), 0);
}

static void a_dropped_day_is_counted(void **state)
{
    (void)state;
    assert_int_equal(serve(one_day, 0, ""), 0);
    assert_int_equal(rp_series_value(counts.days_dropped), 1);
    assert_int_equal(rp_series_value(counts.rows_dropped), 5);
}

/* The day's export, which is then removed. */
static bool was_exported(void)
{
    char path[100];
    (void)snprintf(path, sizeof path, "%s/dead-letters-2026-01-02.jsonl.zst", folder);
    return unlink(path) == 0;
}

#define ROWS                                                                                       \
    {                                                                                              \
        "FROM archive AS d WHERE", "j|dead_at|id|found", "{\"a\": 1}|2026-01-02|1|1"               \
    }
#define OTHER_ROWS                                                                                 \
    {                                                                                              \
        "dead_letter_drop_day", "n", "-2"                                                          \
    }

/* The first drop only asks; the second one, with the number of the export's rows, does it. */
static const struct pg_answer other_rows[] = {
    CLOCK,  DAYS, FREE,       NO_JOB,
    NO_ROW, ROWS, OTHER_ROWS, {"FROM dead_letter WHERE dead_at", "n", "2"},
    {0}};

static void a_day_that_stays_is_exported_again(void **state)
{
    (void)state;
    retention.config = exporting;
    assert_int_equal(serve(other_rows, 0, ""), -1);
    assert_non_null(strstr(err.text, "changed while it was exported"));
    assert_false(was_exported());
    for (int n = 1; n <= 11; n++) {
        assert_int_equal(serve(other_rows, n, "53100"), -1);
        assert_false(was_exported());
    }
    assert_int_equal(rp_series_value(counts.days_dropped), 0);
}

static void a_day_that_was_counted_wrongly_is_counted_anew(void **state)
{
    (void)state;
    const struct pg_answer same_rows[] = {
        CLOCK,  DAYS, FREE,       NO_JOB,
        NO_ROW, ROWS, OTHER_ROWS, {"FROM dead_letter WHERE dead_at", "n", "1"},
        {0}};
    retention.config = exporting;
    assert_int_equal(serve(same_rows, 0, ""), -1);
    assert_non_null(strstr(err.text, "than its counts say; to count it anew: done"));
    assert_int_equal(pg_statements("SELECT dead_letter_recount"), 1);
    for (int n = 11; n <= 14; n++) { /* to look, and to begin, count and commit */
        assert_int_equal(serve(same_rows, n, "53100"), -1);
        assert_null(strstr(err.text, "anew: done"));
        assert_false(was_exported());
    }
    assert_int_equal(serve(other_rows, 0, ""), -1);
    assert_int_equal(pg_statements("SELECT dead_letter_recount"), 0);
}

static void whether_a_day_went_may_not_be_known(void **state)
{
    (void)state;
    int left = 0;
    retention.config = exporting;
    for (int n = 1; n <= 11; n++) {
        assert_int_equal(serve(other_rows, n, ""), -1);
        left += was_exported();
    }
    assert_int_equal(left, 2); /* lost at the drop, or behind the export: for us that is the same */
}

static void statistics_are_taken_once_an_interval(void **state)
{
    (void)state;
    static const struct pg_answer answers[] = {
        {"dead_letter_snapshot", "n", "1"},
        {"FROM dead_letter_count", "type|reason|category|status|n|hour",
         "a|EXHAUSTED|NET|dead|3|100\na|EXHAUSTED|NET|dead|4|50\na|OTHER|NET|replayed|2|NULL"},
        {"extract(epoch FROM now() - d.dead_at)", "age", "12.5"},
        {0}};
    struct statistics s = {.config = plain, .metrics = &counts};
    for (int n = 1; n <= 4; n++) {
        pg_begin(answers);
        assert_int_equal(rp_db_open("", "test", 1000, &db, &err), 0);
        pg_fail_at(n, 1, "53100");
        s.taken = s.again_mono_ms = s.gauge_mono_ms = 0;
        rp_series_set(counts.oldest_dead, 0);
        assert_int_equal(statistics_serve(&s, db, NOW_MS, &err), -1);
        /* What cannot be taken is still shown, and not tried again at once. */
        assert_int_equal(rp_series_value(counts.oldest_dead), n <= 2 ? 12 : 0);
        assert_int_equal(s.again_mono_ms > 0, n <= 2);
        /* Nor is what cannot be shown. */
        assert_true(s.gauge_mono_ms > now_mono_ms);
        assert_int_equal(pg_statements("SELECT dead_letter_skip_snapshot"), n == 1);
        rp_db_close(db);
    }
    pg_begin(answers);
    assert_int_equal(rp_db_open("", "test", 1000, &db, &err), 0);
    s.gauge_mono_ms = 0;
    assert_int_equal(statistics_serve(&s, db, NOW_MS, &err), 0);
    assert_int_equal(statistics_serve(&s, db, NOW_MS, &err), 0);
    rp_db_close(db);
    assert_int_equal(pg_statements("SELECT dead_letter_snapshot"), 0); /* the failed one had it */
    assert_int_equal(rp_series_value(metrics_archiver_status(&counts, rp_str("dead"))), 7);
    assert_int_equal(rp_series_value(metrics_archiver_status(&counts, rp_str("replayed"))), 2);
    assert_int_equal(rp_series_value(counts.oldest_dead), 12);
}

/* Who wrote it down may have died before it added up, or by a clock that was ahead. */
static void what_another_wrote_down_is_added_up_all_the_same(void **state)
{
    (void)state;
    static const struct pg_answer known[] = {{"dead_letter_snapshot", "n", "0"}, {0}};
    struct statistics s = {.config = plain, .metrics = &counts};
    pg_begin(known);
    assert_int_equal(rp_db_open("", "test", 1000, &db, &err), 0);
    assert_int_equal(statistics_serve(&s, db, NOW_MS, &err), 0);
    rp_db_close(db);
    assert_int_equal(pg_statements("SELECT dead_letter_fold"), 1);
}

static void a_store_is_connected_whole_or_not(void **state)
{
    (void)state;
    static const struct pg_answer old[] = {{"max(version)", "n", "1"}, {0}};
    static const struct pg_answer now[] = {{"max(version)", "n", "2"}, {0}};
    static const struct pg_answer fenced[] = {{"INSERT INTO archive_offset", "e|n", ""}, {0}};
    struct store *s;
    struct store_claim claim = {.partition = 3, .epoch = 7};
    assert_int_equal(store_new("", "dead-letter", "me", &s, &err), 0);
    pg_begin(old);
    assert_int_equal(store_connect(s, &err), -1);
    assert_int_equal(err.code, RP_E_SCHEMA);
    assert_non_null(strstr(err.text, "is at version 1, this program needs 2"));
    for (int n = 1; n <= 5; n++) {
        pg_begin(now);
        pg_fail_at(n, 1, n % 2 == 0 ? "" : "42501");
        assert_int_equal(store_connect(s, &err), -1);
        assert_false(store_connected(s));
        assert_null(store_db(s));
    }
    pg_begin(now);
    assert_int_equal(store_connect(s, &err), 0);
    assert_int_equal(store_claim(s, "", &claim, &err), 0);
    assert_int_equal(claim.epoch, 1);
    pg_begin(fenced);
    assert_int_equal(store_claim(s, "", &claim, &err), -1);
    assert_int_equal(err.code, RP_E_FENCED);
    assert_string_equal(err.text, "partition 3 has a newer owner");
    pg_begin(now);
    pg_fail_at(2, 1, "42501"); /* what the owner before has under way goes on: it is not ours */
    assert_int_equal(store_claim(s, "", &claim, &err), -1);
    store_free(s);
}

/* So that a batch asks once, and what is known stays bounded. */
static void a_day_is_asked_for_until_many_others_were(void **state)
{
    (void)state;
    static const struct pg_answer now[] = {{"max(version)", "n", "2"}, {0}};
    struct store *s;
    assert_int_equal(store_new("", "dead-letter", "me", &s, &err), 0);
    pg_begin(now);
    assert_int_equal(store_connect(s, &err), 0);
    for (int64_t day = 0; day < 65; day++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(store_add_day(s, day, &err), 0);
    assert_int_equal(pg_statements("SELECT dead_letter_add_day"), 65);
    assert_int_equal(store_add_day(s, 0, &err), 0);
    assert_int_equal(pg_statements("SELECT dead_letter_add_day"), 66);
    pg_fail_at(1, 1, "53100");
    assert_int_equal(store_add_day(s, 1, &err), -1);
    assert_memory_equal(err.text, "cannot make the partition of 1970-01-02: ", 41);
    store_free(s);
    store_free(NULL);
}

static void the_time_is_the_databases(void **state)
{
    (void)state;
    static const struct pg_answer then[] = {{"max(version)", "n", "2"}, CLOCK, {0}};
    static const struct pg_answer stepped[] = {{"floor(extract", "n", "1795240000000"}, {0}};
    struct store *s;
    int64_t now_ms;
    assert_int_equal(store_new("", "dead-letter", "me", &s, &err), 0);
    pg_begin(then);
    assert_int_equal(store_connect(s, &err), 0);
    assert_int_equal(store_now_ms(s, &now_ms, &err), 0);
    assert_int_equal(now_ms, NOW_MS);
    pg_begin(stepped); /* not asked for each row */
    now_mono_ms += 9999;
    assert_int_equal(store_now_ms(s, &now_ms, &err), 0);
    assert_int_equal(now_ms, NOW_MS + 9999);
    now_mono_ms++;
    pg_fail_at(1, 1, "53100");
    assert_int_equal(store_now_ms(s, &now_ms, &err), -1);
    assert_int_equal(store_now_ms(s, &now_ms, &err), 0);
    assert_int_equal(now_ms, INT64_C(1795240000000));
    store_free(s);
}

int main(void)
{
    char text[200];
    if (mkdtemp(folder) == NULL)
        return 2;
    rp_log_setup(RP_LOG_ERROR, false, "test");
    plain = load_good("targets: {allow: [a]}\nretention: {by_type: {a: 2d}}\n");
    (void)snprintf(text, sizeof text, "targets: {allow: [a]}\nretention: {export: %s}\n", folder);
    exporting = load_good(text);
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(what_is_refused_is_tried_again_in_a_minute),
        T(nothing_is_dropped_by_a_wrong_clock),
        T(a_clock_that_was_ahead_puts_nothing_off),
        T(another_archiver_that_is_at_it_is_left_alone),
        T(a_day_that_is_replayed_is_looked_at_in_an_hour),
        T(a_dropped_day_is_counted),
        T(a_day_that_stays_is_exported_again),
        T(a_day_that_was_counted_wrongly_is_counted_anew),
        T(whether_a_day_went_may_not_be_known),
        T(statistics_are_taken_once_an_interval),
        T(what_another_wrote_down_is_added_up_all_the_same),
        T(a_store_is_connected_whole_or_not),
        T(a_day_is_asked_for_until_many_others_were),
        T(the_time_is_the_databases),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rp_config_free(plain);
    rp_config_free(exporting);
    (void)rmdir(folder);
    return failed;
}
