/* SPDX-License-Identifier: Apache-2.0 */
/* A batch on its way into the archive, while memory runs out or PostgreSQL refuses: each record
 * becomes its row, or the batch stays as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "batch.h"
#include "codec_fixture.h"
#include "groups.h"
#include "log.h"
#include "memory_fixture.h"
#include "pg_fixture.h"
#include "reprise/task.h"
#include "writer.h"

#define N        5
#define STRAIGHT 2 /* the first of them, which no replay led to */
#define GARBAGE  2 /* the record that is no dead letter */
#define REPLAYED 3 /* the record that a replay led to */

static struct rp_buf values[N];
static rd_kafka_headers_t *of_replay;
static rd_kafka_message_t messages[N];
static int n_alive; /* messages that are not destroyed */
static struct rp_metrics *metrics;
static struct metrics_archiver counts;

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *m);
const char *__wrap_rd_kafka_topic_name(const rd_kafka_topic_t *topic);
int64_t __wrap_rd_kafka_message_timestamp(const rd_kafka_message_t *m,
                                          rd_kafka_timestamp_type_t *type);
rd_kafka_resp_err_t __wrap_rd_kafka_message_headers(const rd_kafka_message_t *m,
                                                    rd_kafka_headers_t **out);

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *m)
{
    assert_non_null(m->payload);
    m->payload = NULL;
    n_alive--;
}

const char *__wrap_rd_kafka_topic_name(const rd_kafka_topic_t *topic)
{
    (void)topic;
    return "dead-letter";
}

int64_t __wrap_rd_kafka_message_timestamp(const rd_kafka_message_t *m,
                                          rd_kafka_timestamp_type_t *type)
{
    (void)m;
    *type = RD_KAFKA_TIMESTAMP_CREATE_TIME;
    return 1795230000000;
}

rd_kafka_resp_err_t __wrap_rd_kafka_message_headers(const rd_kafka_message_t *m,
                                                    rd_kafka_headers_t **out)
{
    *out = of_replay;
    return m->offset == REPLAYED ? RD_KAFKA_RESP_ERR_NO_ERROR : RD_KAFKA_RESP_ERR__NOENT;
}

static rd_kafka_message_t *message(int i)
{
    messages[i] = (rd_kafka_message_t){
        .payload = values[i].data, .len = values[i].len, .partition = i % 2, .offset = i};
    n_alive++;
    return &messages[i];
}

/* A COPY that is played: its steps from `fail_from` on, to before `fail_until`, fail. */
static int steps, fail_from, fail_until, recalled;
static enum rp_error_class fail_class;
static struct rp_buf rows; /* what the last COPY sent */
static bool marks;         /* it marks a letter that was replayed as come back */

static int step(struct rp_error *err)
{
    steps++;
    return steps >= fail_from && steps < fail_until
               ? rp_fail(err, RP_E_POSTGRES, fail_class, "step %d", steps)
               : 0;
}

int __wrap_rp_db_copy_begin(struct rp_db *db, const char *sql, struct rp_error *err);
int __wrap_rp_db_copy_send(struct rp_db *db, struct rp_bytes sent, struct rp_error *err);
int __wrap_rp_db_copy_next(struct rp_db *db, struct rp_error *err);
int __wrap_rp_db_copy_end(struct rp_db *db, PGresult **out, struct rp_error *err);
void __wrap_rp_db_copy_cancel(struct rp_db *db);
int __real_rp_buf_append(struct rp_buf *b, const void *data, size_t n, struct rp_error *err);

int __wrap_rp_db_copy_begin(struct rp_db *db, const char *sql, struct rp_error *err)
{
    (void)db;
    assert_non_null(strstr(sql, "'dead-letter'"));
    rows.len = 0;
    marks = strstr(sql, "came_back_at") != NULL;
    return step(err);
}

int __wrap_rp_db_copy_send(struct rp_db *db, struct rp_bytes sent, struct rp_error *err)
{
    (void)db;
    assert_int_equal(__real_rp_buf_append(&rows, sent.data, sent.len, NULL), 0);
    return step(err);
}

int __wrap_rp_db_copy_next(struct rp_db *db, struct rp_error *err)
{
    (void)db;
    return step(err);
}

/* All was new, and both partitions are still ours. */
int __wrap_rp_db_copy_end(struct rp_db *db, PGresult **out, struct rp_error *err)
{
    PGresAttDesc columns[2] = {{.name = (char[]){"partition"}}, {.name = (char[]){"n"}}};
    (void)db;
    if (step(err) != 0)
        return -1;
    *out = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    assert_int_equal(PQsetResultAttrs(*out, 2, columns), 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(PQsetvalue(*out, i, 0, (char[]){(char)('0' + i), '\0'}, 1), 1);
        assert_int_equal(PQsetvalue(*out, i, 1, (char[]){"5"}, 1), 1);
    }
    return 0;
}

void __wrap_rp_db_copy_cancel(struct rp_db *db)
{
    (void)db;
    recalled++;
}

static void play(int from, int times, enum rp_error_class class)
{
    steps = recalled = 0;
    fail_from = from;
    fail_until = from + times;
    fail_class = class;
}

static struct store *store;
static struct batch *batch;
static struct parts parts;

static int open_all(struct rp_error *err)
{
    static const struct pg_answer now[] = {{"max(version)", "n", "2"}, {0}};
    const struct batch_options options = {.max_rows = N, .keep_ms = 86400000, .metrics = &counts};
    pg_begin(now);
    if (store_new("", "dead-letter", "me", &store, err) != 0 || store_connect(store, err) != 0 ||
        batch_new(&options, &batch, err) != 0)
        return -1;
    for (int32_t i = 0; i < 2; i++) {
        if (parts_add(&parts, i, &counts, err) != 0 || parts_add(&parts, i, &counts, err) != 0)
            return -1;
        if (store_claim(store, "", &parts.items[i].claim, err) != 0)
            return -1;
        parts.items[i].live = true;
    }
    assert_int_equal(parts.n, 2);
    return 0;
}

static int n_filled; /* N, or as many as go the straight way */

static int fill(struct rp_error *err)
{
    for (int i = 0; i < n_filled; i++)
        if (batch_add(batch, message(i), 1795230000000, err) != 0)
            return -1;
    return 0;
}

static void close_all(void)
{
    batch_free(batch);
    batch = NULL;
    store_free(store);
    store = NULL;
    parts_clear(&parts);
    assert_int_equal(n_alive, 0);
}

static double undecodable(void)
{
    return rp_series_value(counts.archived[RP_UNDECODABLE]);
}

/* An archive that is full of bare rows says that the producers are to blame. */
static void try_without_memory(void)
{
    bool ended = false;
    int n = 1;
    play(0, 0, RP_RETRIABLE);
    for (; !ended; n++) {
        struct rp_error err = {0};
        double before = undecodable();
        memory_fail_at(n);
        int rc = open_all(&err);
        if (rc == 0)
            rc = fill(&err);
        if (rc == 0)
            rc = batch_write(batch, store, &parts, &err);
        ended = !memory_failed();
        memory_fail_at(0);
        if (rc != 0 && (ended || err.code != RP_E_NOMEM || err.cls == RP_POISON))
            fail_msg("request %d: class %d: %s", n, (int)err.cls, err.text);
        if (rc == 0) {
            assert_int_equal(undecodable() - before, n_filled > GARBAGE);
            assert_int_equal(parts.items[0].claim.next_offset, n_filled < N ? 1 : N);
            assert_int_equal(parts.items[1].claim.next_offset, n_filled < N ? 2 : N - 1);
        }
        close_all();
    }
    assert_true(n > 50);
}

static void want_of_memory_makes_no_row_undecodable(void **state)
{
    (void)state;
    for (n_filled = STRAIGHT; n_filled <= N; n_filled += N - STRAIGHT)
        try_without_memory();
}

/* Straight, then by the table of our own, then in halves, down to the bare record. */
static void try_refusals(void)
{
    struct rp_error err;
    int n = 1, failed = 0;
    for (bool ended = false; !ended; n++) {
        assert_int_equal(open_all(&err), 0);
        assert_int_equal(fill(&err), 0);
        play(n, 1, RP_POISON);
        assert_int_equal(batch_write(batch, store, &parts, &err), 0);
        assert_int_equal(batch_rows(batch), 0);
        assert_int_equal(parts.items[0].claim.next_offset, n_filled < N ? 1 : N);
        ended = steps < n;
        close_all();
    }
    assert_true(n > 10);
    for (n = 1; n < 10; n++) {
        assert_int_equal(open_all(&err), 0);
        assert_int_equal(fill(&err), 0);
        play(n, 1000, RP_POISON);
        failed += batch_write(batch, store, &parts, &err) != 0;
        assert_int_equal(batch_rows(batch), failed > n - 1 ? n_filled : 0);
        close_all();
    }
    assert_true(failed > 0);
}

static void a_refused_row_goes_in_bare_and_stalls_none(void **state)
{
    (void)state;
    for (n_filled = STRAIGHT; n_filled <= N; n_filled += N - STRAIGHT)
        try_refusals();
}

static void try_failures(void)
{
    struct rp_error err;
    for (int n = 1; n < 12; n++) {
        assert_int_equal(open_all(&err), 0);
        assert_int_equal(fill(&err), 0);
        int64_t next = parts.items[0].claim.next_offset;
        play(n, 1000, RP_RETRIABLE);
        assert_int_equal(batch_write(batch, store, &parts, &err), -1);
        assert_int_equal(batch_rows(batch), n_filled);
        assert_int_equal(parts.items[0].claim.next_offset, next);
        play(0, 0, RP_RETRIABLE);
        assert_int_equal(batch_write(batch, store, &parts, &err), 0);
        assert_int_equal(parts.items[0].claim.next_offset, n_filled < N ? 1 : N);
        close_all();
    }
}

static void a_batch_that_failed_stays_whole(void **state)
{
    (void)state;
    for (n_filled = STRAIGHT; n_filled <= N; n_filled += N - STRAIGHT)
        try_failures();
}

static void rows_of_a_partition_that_is_not_ours_are_left_out(void **state)
{
    (void)state;
    n_filled = N;
    struct rp_error err;
    play(0, 0, RP_RETRIABLE);
    assert_int_equal(open_all(&err), 0);
    assert_int_equal(batch_write(batch, store, &parts, &err), 0); /* nothing */
    assert_int_equal(steps, 0);
    assert_int_equal(fill(&err), 0);
    int64_t next = parts.items[1].claim.next_offset;
    parts.items[1].claim.epoch = 0;
    assert_int_equal(batch_write(batch, store, &parts, &err), 0);
    assert_int_equal(parts.items[0].claim.next_offset, N);
    assert_int_equal(parts.items[1].claim.next_offset, next);
    assert_int_equal(fill(&err), 0);
    assert_int_equal(
        store_send(store, STORE_DAYS, rp_str("sent ahead"), &parts.items[0].claim, 1, &err), 0);
    steps = 0;
    parts.items[0].claim.epoch = 0;
    parts_remove(&parts, 1);
    parts_remove(&parts, 1);
    assert_int_equal(parts.n, 1);
    assert_int_equal(batch_write(batch, store, &parts, &err), 0);
    assert_int_equal(steps, 0);
    assert_int_equal(recalled, 1); /* else the next batch would follow it */
    assert_int_equal(batch_rows(batch), 0);
    close_all();
}

/* Whether a letter whose record and task name these replays is taken for one of a replay's. */
static bool is_of_replay(const char *record_job, const char *task_id, const char *task_job)
{
    struct rp_error err;
    struct rp_dead_letter letter = sample_letter();
    const struct rp_header headers[] = {{rp_str(RP_HDR_TASK_ID), rp_str(task_id)},
                                        {rp_str(RP_HDR_REPLAY_ID), rp_str(task_job)}};
    struct rp_buf value = {0};
    letter.task = plain_task(); /* its id is "t" */
    letter.task.headers = headers;
    letter.task.n_headers = task_id == NULL ? 0 : 2;
    assert_int_equal(rp_dead_letter_encode(&letter, &value, &err), 0);
    rd_kafka_headers_t *before = of_replay;
    of_replay = rd_kafka_headers_new(1);
    assert_int_equal(rd_kafka_header_add(of_replay, RP_HDR_REPLAY_ID, -1, record_job, -1), 0);
    play(0, 0, RP_RETRIABLE);
    assert_int_equal(open_all(&err), 0);
    rd_kafka_message_t *m = message(REPLAYED);
    m->payload = value.data;
    m->len = value.len;
    assert_int_equal(batch_add(batch, m, 1795230000000, &err), 0);
    assert_int_equal(batch_write(batch, store, &parts, &err), 0);
    close_all();
    rd_kafka_headers_destroy(of_replay);
    of_replay = before;
    rp_buf_clear(&value);
    return marks;
}

static void only_what_is_named_like_a_replay_of_ours_is_one(void **state)
{
    static const char too_long[] = "01234567890123456789012345678901234567890123456789"
                                   "012345678901234";
    static const char *const others[] = {"", "Job", "{", "!", "a:b", too_long};
    (void)state;
    assert_true(is_of_replay("job-1z", NULL, NULL));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(is_of_replay(others[i], NULL, NULL));
    assert_true(is_of_replay("", "t", "job-2"));
    assert_false(is_of_replay("", "another", "job-2")); /* a header that was handed on */
}

static int copy_parts(struct rp_error *err)
{
    struct parts from = {0}, to = {0};
    int rc = parts_copy(&to, &from, err);
    assert_int_equal(to.n, 0);
    for (int32_t i = 0; rc == 0 && i < 20; i++)
        rc = parts_add(&from, i, &counts, err);
    if (rc == 0)
        rc = parts_copy(&to, &from, err);
    if (rc == 0)
        assert_int_equal(to.items[19].claim.partition, 19);
    parts_clear(&from);
    parts_clear(&to);
    return rc;
}

static int give(struct rp_error *err)
{
    struct writer *w;
    struct parts some = {0}, none = {0};
    if (parts_add(&some, 0, &counts, err) != 0)
        return -1;
    int rc = writer_new(&w, err);
    if (rc == 0) {
        rc = writer_give(w, batch, store, &some, err);
        assert_int_equal(writer_busy(w), rc == 0);
        if (rc == 0)
            assert_int_equal(writer_take(w, &none, err), 0); /* its partition has gone since */
        writer_free(w);
    }
    parts_clear(&some);
    return rc;
}

static void what_is_given_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    struct rp_error err;
    assert_true(starve(copy_parts) > 2);
    assert_int_equal(open_all(&err), 0);
    assert_int_equal(starve(give), 3);
    close_all();
    writer_free(NULL);
}

static void each_group_is_new_once(void **state)
{
    (void)state;
    struct groups g = {0};
    memory_fail_at(1);
    assert_true(groups_add(&g, 7)); /* without memory each time, which does no harm */
    memory_fail_at(0);
    for (int64_t i = 1; i <= 200; i++) { /* many in the same place */
        assert_true(groups_add(&g, i % 3 == 0 ? i << 32 : i));
        assert_false(groups_add(&g, i % 3 == 0 ? i << 32 : i));
    }
    groups_drop(&g);
    assert_true(groups_add(&g, 1));
    groups_clear(&g);
}

static void encode(int i, const struct rp_dead_letter *letter)
{
    struct rp_error err;
    if (rp_dead_letter_encode(letter, &values[i], &err) != 0)
        fail_msg("%s", err.text);
}

static int make_records(void **state)
{
    (void)state;
    struct rp_dead_letter letter = sample_letter();
    encode(0, &letter);
    letter.task = plain_task();
    encode(1, &letter);
    letter.task.task_id = (struct rp_bytes){"a\0b", 3}; /* PostgreSQL takes no NUL */
    encode(REPLAYED, &letter);
    letter.has_task = false;
    letter.raw = rp_str("raw");
    encode(4, &letter);
    assert_int_equal(rp_buf_append(&values[GARBAGE], "\xff\xff", 2, NULL), 0);
    of_replay = rd_kafka_headers_new(1);
    assert_int_equal(rd_kafka_header_add(of_replay, RP_HDR_REPLAY_ID, -1, "job-1", 5), 0);
    metrics = rp_metrics_new();
    metrics_archiver_init(&counts, metrics);
    for (int32_t i = 0; i < 20; i++)
        (void)metrics_archiver_lag(&counts, i); /* which does without memory */
    rp_log_setup(RP_LOG_ERROR + 1, false, "test");
    return 0;
}

static int drop_records(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        rp_buf_clear(&values[i]);
    rp_buf_clear(&rows);
    rd_kafka_headers_destroy(of_replay);
    rp_metrics_free(metrics);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(want_of_memory_makes_no_row_undecodable),
        cmocka_unit_test(a_refused_row_goes_in_bare_and_stalls_none),
        cmocka_unit_test(a_batch_that_failed_stays_whole),
        cmocka_unit_test(rows_of_a_partition_that_is_not_ours_are_left_out),
        cmocka_unit_test(only_what_is_named_like_a_replay_of_ours_is_one),
        cmocka_unit_test(what_is_given_is_taken_whole_or_not_at_all),
        cmocka_unit_test(each_group_is_new_once),
    };
    return cmocka_run_group_tests(tests, make_records, drop_records);
}
