/* SPDX-License-Identifier: Apache-2.0 */
/* The rows and what is made of them are played; the brokers are librdkafka's mock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "clock.h"
#include "log.h"
#include "mock_fixture.h"
#include "replay_message.h"
#include "replay_rows.h"
#include "replay_sender.h"

#define TOPIC   "work"
#define JOB     "261122-abcdef"
#define ITEMS   5
#define PRODUCE 0 /* the protocol's number */

int __wrap_rp_replay_rows_new(const char *dsn, const char *job, bool about,
                              struct rp_replay_rows **out, struct rp_error *err);
void __wrap_rp_replay_rows_free(struct rp_replay_rows *r);
void __wrap_rp_replay_rows_forget(struct rp_replay_rows *r);
int __wrap_rp_replay_rows_at(struct rp_replay_rows *r, int64_t n, struct rp_replay_row *out,
                             struct rp_error *err);
bool __wrap_rp_replay_rows_come_by(struct rp_replay_rows *r, int64_t n, int64_t until_mono_ms);
int64_t __real_rp_mono_ms(void);
int64_t __wrap_rp_mono_ms(void);
int __wrap_rp_replay_maker_new(const struct rp_config *config,
                               const struct rp_replay_options *options, const char *job,
                               rd_kafka_t *client, struct rp_replay_maker **out,
                               struct rp_error *err);
void __wrap_rp_replay_maker_free(struct rp_replay_maker *m);
struct rp_targets *__wrap_rp_replay_targets(struct rp_replay_maker *m);
void __wrap_rp_targets_forget(struct rp_targets *t);
int __wrap_rp_replay_make(struct rp_replay_maker *m, const struct rp_replay_row *row,
                          int64_t now_ms, struct rp_outgoing *out, const char **refused,
                          struct rp_error *err);

static char any;
static bool no_rows;
static struct rp_error rows_fail, maker_fails, make_fails, refuse_fails; /* once; RP_OK: not */
static int64_t unwanted;    /* the item that nothing is made of; -1: none */
static int64_t slow, late;  /* the item whose row takes long, or is not here in time; -1: none */
static int64_t skipped_ms;  /* by the clock, which else is so slow that no batch ends by it */
static bool refused[ITEMS]; /* on record */
static int n_refusals, value_bytes;
static int64_t max_batch_bytes; /* of the target; 0: not known */

static int fail_once(struct rp_error *with, struct rp_error *err)
{
    if (with->code == RP_OK)
        return 0;
    *err = *with;
    with->code = RP_OK;
    return -1;
}

int __wrap_rp_replay_rows_new(const char *dsn, const char *job, bool about,
                              struct rp_replay_rows **out, struct rp_error *err)
{
    (void)dsn;
    (void)job;
    (void)about;
    *out = no_rows ? NULL : (struct rp_replay_rows *)(void *)&any;
    return no_rows ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory") : 0;
}

void __wrap_rp_replay_rows_free(struct rp_replay_rows *r)
{
    (void)r;
}

void __wrap_rp_replay_rows_forget(struct rp_replay_rows *r)
{
    (void)r;
}

int __wrap_rp_replay_rows_at(struct rp_replay_rows *r, int64_t n, struct rp_replay_row *out,
                             struct rp_error *err)
{
    (void)r;
    *out = (struct rp_replay_row){.n = n};
    if (refused[n])
        out->refused = rp_str("for a reason");
    if (n == slow)
        skipped_ms += 400;
    return fail_once(&rows_fail, err);
}

bool __wrap_rp_replay_rows_come_by(struct rp_replay_rows *r, int64_t n, int64_t until_mono_ms)
{
    (void)r;
    if (n != late)
        return true;
    skipped_ms += until_mono_ms - rp_mono_ms();
    return false;
}

int64_t __wrap_rp_mono_ms(void)
{
    return __real_rp_mono_ms() / 100 + skipped_ms;
}

int __wrap_rp_replay_maker_new(const struct rp_config *config,
                               const struct rp_replay_options *options, const char *job,
                               rd_kafka_t *client, struct rp_replay_maker **out,
                               struct rp_error *err)
{
    (void)config;
    (void)options;
    (void)job;
    (void)client;
    *out = maker_fails.code != RP_OK ? NULL : (struct rp_replay_maker *)(void *)&any;
    return fail_once(&maker_fails, err);
}

void __wrap_rp_replay_maker_free(struct rp_replay_maker *m)
{
    (void)m;
}

struct rp_targets *__wrap_rp_replay_targets(struct rp_replay_maker *m)
{
    (void)m;
    return NULL;
}

void __wrap_rp_targets_forget(struct rp_targets *t)
{
    assert_null(t);
}

int __wrap_rp_replay_make(struct rp_replay_maker *m, const struct rp_replay_row *row,
                          int64_t now_ms, struct rp_outgoing *out, const char **why,
                          struct rp_error *err)
{
    static uint8_t value[9 << 20];
    (void)m;
    (void)now_ms;
    assert_false(refused[row->n]); /* it may be taken for not sent */
    *why = row->n == unwanted ? "nobody wants it" : NULL;
    value[0] = (uint8_t)row->n;
    *out = (struct rp_outgoing){.topic = rp_str(TOPIC),
                                .value = {value, (size_t)value_bytes},
                                .max_batch_bytes = max_batch_bytes};
    return row->n == 2 ? fail_once(&make_fails, err) : 0;
}

static int refuse(void *opaque, const char *json, struct rp_error *err)
{
    const char *from = json;
    assert_null(opaque);
    if (fail_once(&refuse_fails, err) != 0)
        return -1;
    for (; (from = strstr(from, "\"n\":")) != NULL; from++, n_refusals++)
        refused[from[4] - '0'] = true;
    return 0;
}

struct fixture {
    struct mock mock;
    struct rp_config *config;
    struct rp_replay_job job;
    struct rp_replay_sender *sender;
    int failures;
    struct rp_error err;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.job = {.id = JOB, .stamp = "a-stamp"}};
    rp_log_setup(RP_LOG_ERROR + 1, false, "test");
    mock_start(&f.mock, 1, TOPIC);
    f.config = mock_config(&f.mock);
    assert_int_equal(rd_kafka_mock_topic_create(f.mock.cluster, f.config->topics.dead_letter, 1, 1),
                     0);
    no_rows = false;
    unwanted = slow = late = -1;
    value_bytes = 1;
    max_batch_bytes = 0;
    n_refusals = 0;
    memset(refused, 0, sizeof refused);
    assert_int_equal(rp_replay_sender_new(f.config, &f.job,
                                          (struct rp_replay_refuser){NULL, refuse}, &f.sender,
                                          &f.err),
                     0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_replay_sender_free(f->sender);
    rp_config_free(f->config);
    mock_stop(&f->mock);
    return 0;
}

static void fail_next_produce(struct fixture *f)
{
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
}

/* Sends as a runner does, which has marks of what is out: the mock does not keep a transaction's
 * offsets. Returns how many batches it took. `bad`: the item that no broker takes; -1: none. */
static int send_all(struct fixture *f, int64_t bad)
{
    int64_t kafkas, next = 0, sent = 0, total = 0;
    int n = 0;
    bool ready = false;
    f->failures = 0;
    while (next < ITEMS) {
        assert_in_range(++n, 1, 30);
        if (!ready && rp_replay_sender_open(f->sender, &kafkas, &f->err) != 0)
            fail_msg("%s", f->err.text);
        if (bad >= next && !refused[bad] && (next == bad || f->failures == 0))
            fail_next_produce(f);
        ready = rp_replay_sender_send(f->sender, &next, ITEMS, &sent, &f->err) == 0;
        total += ready ? sent : 0;
        f->failures += !ready;
        if (!ready && f->err.cls != RP_RETRIABLE)
            return -1;
    }
    assert_int_equal(total, ITEMS - n_refusals);
    return n;
}

static void all_goes_out_in_one_batch(void **state)
{
    assert_int_equal(send_all(*state, -1), 1);
}

static void a_batch_ends_with_its_bytes(void **state)
{
    value_bytes = 9 << 20;
    ((struct fixture *)*state)->config->guarantee = RP_AT_LEAST_ONCE; /* a job is never so */
    assert_int_equal(send_all(*state, -1), 2);
}

static void a_batch_ends_after_its_time(void **state)
{
    slow = 2;
    assert_int_equal(send_all(*state, -1), 2);
}

static void a_batch_does_not_wait_for_rows(void **state)
{
    late = 3;
    assert_int_equal(send_all(*state, -1), 2);
}

/* By one part of 64 after each success. */
static void a_failure_halves_the_batches(void **state)
{
    value_bytes = 9 << 20;
    rows_fail = (struct rp_error){.code = RP_E_POSTGRES, .cls = RP_RETRIABLE};
    assert_int_equal(send_all(*state, -1), 1 + (ITEMS + 1) / 2);
}

/* What fails together is sent alone, and only what fails alone is refused. */
static void one_that_cannot_be_sent_is_refused_and_the_others_go_out(void **state)
{
    struct fixture *f = *state;
    for (int64_t bad = 0; bad < 3; bad += 2) {
        (void)send_all(f, bad);
        assert_true(f->failures >= 2);
        assert_int_equal(n_refusals, 1);
        assert_true(refused[bad]);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

static void what_does_not_fail_again_alone_goes_out(void **state)
{
    (void)rp_fail(&make_fails, RP_E_NOT_FOUND, RP_POISON, "no topic has so long a name");
    assert_in_range(send_all(*state, -1), 4, 30);
    assert_int_equal(n_refusals, 0);
}

static void what_nothing_is_made_of_is_on_record_before_the_cursor_is_past_it(void **state)
{
    struct fixture *f = *state;
    unwanted = 1;
    (void)rp_fail(&refuse_fails, RP_E_POSTGRES, RP_RETRIABLE, "PostgreSQL is away");
    assert_int_equal(send_all(f, -1), 2);
    assert_true(refused[1]);
    assert_int_equal(n_refusals, 1);
}

static void a_failure_that_no_item_is_to_blame_for_ends_the_job(void **state)
{
    struct rp_error *const where[] = {&maker_fails, &rows_fail, &refuse_fails};
    struct fixture *f = *state;
    unwanted = 1;
    for (size_t i = 0; i < 3; i++) {
        (void)rp_fail(where[i], RP_E_INVALID, RP_POISON, "something is wrong");
        assert_int_equal(send_all(f, -1), -1);
        assert_int_equal(f->err.cls, RP_FATAL);
        assert_string_equal(f->err.text, "something is wrong");
        assert_int_equal(n_refusals, 0);
    }
}

static void what_waiting_mends_is_waited_for(void **state)
{
    struct rp_error *const where[] = {&rows_fail, &maker_fails, &make_fails};
    for (size_t i = 0; i < 3; i++)
        (void)rp_fail(where[i], RP_E_IO, RP_RETRIABLE, "not now");
    assert_int_equal(send_all(*state, -1), 4);
}

static void what_an_item_waits_for_holds_up_none_before_it(void **state)
{
    struct fixture *f = *state;
    (void)rp_fail(&make_fails, RP_E_IO, RP_RETRIABLE, "not now");
    assert_int_equal(send_all(f, -1), 2);
    assert_int_equal(f->failures, 0);
}

/* A target of small batches is sent to in rounds, and one that fails takes the batch with it. */
static void a_round_that_fails_is_sent_again(void **state)
{
    struct fixture *f = *state;
    max_batch_bytes = 100;
    rd_kafka_mock_push_request_errors(f->mock.cluster, PRODUCE, 1, RD_KAFKA_RESP_ERR_UNKNOWN);
    (void)send_all(f, -1);
    assert_int_equal(f->failures, 1);
    assert_int_equal(n_refusals, 0);
}

/* What the runner then frees, or uses when it tries again, must not be what was freed here. */
static void one_that_cannot_be_made_leaves_nothing_behind(void **state)
{
    struct fixture *f = *state;
    struct rp_replay_sender *sender = NULL;
    no_rows = true;
    assert_int_equal(rp_replay_sender_new(f->config, &f->job,
                                          (struct rp_replay_refuser){NULL, refuse}, &sender,
                                          &f->err),
                     -1);
    assert_null(sender);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(all_goes_out_in_one_batch),
        T(a_batch_ends_with_its_bytes),
        T(a_batch_ends_after_its_time),
        T(a_batch_does_not_wait_for_rows),
        T(a_failure_halves_the_batches),
        T(one_that_cannot_be_sent_is_refused_and_the_others_go_out),
        T(what_does_not_fail_again_alone_goes_out),
        T(what_nothing_is_made_of_is_on_record_before_the_cursor_is_past_it),
        T(a_failure_that_no_item_is_to_blame_for_ends_the_job),
        T(what_waiting_mends_is_waited_for),
        T(what_an_item_waits_for_holds_up_none_before_it),
        T(a_round_that_fails_is_sent_again),
        T(one_that_cannot_be_made_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("replay_sender", tests, NULL, NULL);
}
