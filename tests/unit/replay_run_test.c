/* SPDX-License-Identifier: Apache-2.0 */
/* A job's runner while PostgreSQL refuses a statement or is gone. The sender is played, and time
 * passes as it naps. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock_fixture.h"
#include "log.h"
#include "pg_fixture.h"
#include "replay_pulse.h"
#include "replay_run.h"
#include "replay_sender.h"

#define JOB        "261122-abcdef"
#define TOTAL      30
#define BATCH      4
#define TO_SETTLE  30000
#define LONG_MS    INT64_C(600000)
#define IS(end)    (1u << (end))
#define LET_GO     (IS(RP_REPLAY_LET_GO) | IS(RP_REPLAY_LEFT))
#define MARKS      "WITH item AS"
#define MARKED     "coalesce(max(refused), 0) / count(*) FROM j"
#define ASKS_STATE ", state FROM replay_job"

#define MARKED_AT_ONCE 32000

static atomic_bool stop;

/* Who waits for ever is stopped. */
static void stop_waiting(void)
{
    atomic_store(&stop, true);
}

int __wrap_rp_replay_pulse_start(const char *dsn, const struct rp_replay_job *job,
                                 struct rp_replay_pulse **out, struct rp_error *err);
void __wrap_rp_replay_pulse_stop(struct rp_replay_pulse *p);
struct rp_replay_news __wrap_rp_replay_pulse_news(struct rp_replay_pulse *p);
static struct rp_replay_news news;
static int ends_unknown; /* so often */
static int n_opened;     /* the sender */
static int opened_first; /* by the first question for ends */

/* Once somebody waits for the archive, PostgreSQL is away until then, and the archive is there some
 * seconds later. */
#define AWAY_MS   INT64_C(6000)
#define BEHIND_MS INT64_C(12000)
static int64_t await_mono_ms;
static int shown_well; /* so often, behind that */

int __wrap_rp_replay_pulse_start(const char *dsn, const struct rp_replay_job *job,
                                 struct rp_replay_pulse **out, struct rp_error *err)
{
    (void)dsn;
    (void)job;
    (void)err;
    *out = NULL;
    return 0;
}

void __wrap_rp_replay_pulse_stop(struct rp_replay_pulse *p)
{
    (void)p;
}

struct rp_replay_news __wrap_rp_replay_pulse_news(struct rp_replay_pulse *p)
{
    (void)p;
    news.canary_age_ms = pg_statements("UPDATE replay_job SET canary_at") > 0 ? LONG_MS : -1;
    if (await_mono_ms > 0) {
        news.trouble.code = RP_OK;
        if (now_mono_ms < await_mono_ms + AWAY_MS)
            (void)rp_fail(&news.trouble, RP_E_POSTGRES, RP_RETRIABLE, "away");
        news.archived = now_mono_ms >= await_mono_ms + BEHIND_MS;
    }
    return news;
}

/* So far the archive has to be. */
#define ENDS "{7,0}"

int __wrap_rp_replay_sender_dead_ends(struct rp_replay_sender *s, struct rp_buf *out,
                                      struct rp_error *err);
int __wrap_rp_replay_pulse_await(struct rp_replay_pulse *p, const char *topic, const char *ends,
                                 struct rp_error *err);

int __wrap_rp_replay_sender_dead_ends(struct rp_replay_sender *s, struct rp_buf *out,
                                      struct rp_error *err)
{
    (void)s;
    if (opened_first == 0)
        opened_first = n_opened;
    assert_true(n_opened == opened_first || pg_failed()); /* nothing is begun anew for a question */
    if (ends_unknown > 0) {
        ends_unknown--;
        return rp_fail(err, RP_E_IO, RP_RETRIABLE, "not now");
    }
    return rp_buf_append(out, ENDS, sizeof ENDS, err);
}

int __wrap_rp_replay_pulse_await(struct rp_replay_pulse *p, const char *topic, const char *ends,
                                 struct rp_error *err)
{
    (void)p;
    (void)err;
    assert_string_equal(topic, "dead-letter");
    assert_string_equal(ends, ENDS);
    assert_true(news.canary_age_ms > 0); /* what dies later would be missed */
    assert_int_equal(await_mono_ms, 0);  /* asked once */
    await_mono_ms = now_mono_ms;
    return 0;
}

/* What Kafka knows: items are out up to here. */
static int64_t out_to;
static bool stop_on_first, refuses_first;
static int64_t batch_takes_ms, batch_items = BATCH, most_unmarked;
static struct rp_error send_error;
static int nothing_sent; /* so often */
static struct rp_replay_refuser refuser;

void __wrap_rp_replay_sender_read_ahead(struct rp_replay_sender *s, int64_t until_mono_ms);
int __wrap_rp_replay_sender_new(const struct rp_config *config, const struct rp_replay_job *job,
                                struct rp_replay_refuser r, struct rp_replay_sender **out,
                                struct rp_error *err);
void __wrap_rp_replay_sender_free(struct rp_replay_sender *s);
int __wrap_rp_replay_sender_open(struct rp_replay_sender *s, int64_t *out_next,
                                 struct rp_error *err);
int __wrap_rp_replay_sender_send(struct rp_replay_sender *s, int64_t *next, int64_t until,
                                 int64_t *sent, struct rp_error *err);

int __wrap_rp_replay_sender_new(const struct rp_config *config, const struct rp_replay_job *job,
                                struct rp_replay_refuser r, struct rp_replay_sender **out,
                                struct rp_error *err)
{
    static char any;
    (void)config;
    (void)job;
    (void)err;
    refuser = r;
    *out = (struct rp_replay_sender *)(void *)&any;
    return 0;
}

void __wrap_rp_replay_sender_free(struct rp_replay_sender *s)
{
    (void)s;
}

void __wrap_rp_replay_sender_read_ahead(struct rp_replay_sender *s, int64_t until_mono_ms)
{
    (void)s;
    assert_true(until_mono_ms >= now_mono_ms);
}

int __wrap_rp_replay_sender_open(struct rp_replay_sender *s, int64_t *out_next,
                                 struct rp_error *err)
{
    (void)s;
    (void)err;
    n_opened++;
    *out_next = out_to > 0 ? out_to : -1;
    return 0;
}

int __wrap_rp_replay_sender_send(struct rp_replay_sender *s, int64_t *next, int64_t until,
                                 int64_t *sent, struct rp_error *err)
{
    (void)s;
    assert_int_equal(*next, out_to); /* else it goes out twice, or never */
    if (nothing_sent > 0) {
        nothing_sent--;
        return rp_fail(err, RP_E_IO, RP_RETRIABLE, "not now");
    }
    if (refuses_first && out_to == 0 && refuser.refuse(refuser.opaque, "[]", err) != 0)
        return -1;
    *sent = until - *next < batch_items ? until - *next : batch_items;
    int64_t unmarked = *next - (int64_t)pg_statements(MARKS) * MARKED_AT_ONCE;
    most_unmarked = unmarked > most_unmarked ? unmarked : most_unmarked;
    out_to += *sent;
    now_mono_ms += batch_takes_ms;
    atomic_store(&stop, stop_on_first);
    if (send_error.code != RP_OK) { /* out all the same */
        *err = send_error;
        send_error.code = RP_OK;
        return -1;
    }
    *next = out_to;
    return 0;
}

static int n_shown;

static void show(void *opaque, const struct rp_replay_progress *progress)
{
    (void)opaque;
    assert_string_equal(progress->job, JOB);
    assert_true(progress->done <= out_to);
    if (strstr(progress->what, "archivers") != NULL && progress->trouble == NULL &&
        now_mono_ms > await_mono_ms + AWAY_MS)
        shown_well++;
    n_shown++;
}

/* What is asked for, and how it may end where a statement is refused, or none is. */
struct course {
    const char *options; /* the claimed job's */
    const char *state;   /* what it is at last, by PostgreSQL */
    int marked;
    struct rp_replay_news news;
    bool stop, pause_on_stop, settle;
    unsigned ends, ends_refused;
};

static struct rp_replay_result result;

static int run_once(const struct course *c, struct rp_error *err)
{
    const struct rp_config config = {.topics.dead_letter = (char[]){"dead-letter"}};
    const struct rp_replay_run r = {.config = &config,
                                    .runner = "one",
                                    .stop = &stop,
                                    .pause_on_stop = c->pause_on_stop,
                                    .settle = c->settle,
                                    .settle_within_ms = TO_SETTLE,
                                    .progress = show};
    *err = (struct rp_error){0};
    news = c->news;
    ends_unknown = 2;
    await_mono_ms = 0;
    n_opened = opened_first = 0;
    out_to = 0;
    now_mono_ms = 1000;
    clock_call(LONG_MS, stop_waiting);
    stop_on_first = c->stop;
    atomic_store(&stop, false);
    return rp_replay_run(&r, JOB, &result, err);
}

#define COLUMNS "epoch|total|marked|refused|canary|options|stamp|state|unsettled"

/* Runs with its first statement refused, its second and so on, and those behind it, `times` in all.
 */
static void refuse_each(const struct course *c, int times, const char *sqlstate)
{
    char claimed[200], state[40];
    const struct pg_answer answers[] = {{"runner = $2", COLUMNS, claimed},
                                        {ASKS_STATE, COLUMNS, state},
                                        {"heartbeat_at = clock_timestamp()", COLUMNS, "1|30|0|0|f"},
                                        {MARKED, "refused", "0"},
                                        {0}};
    (void)snprintf(claimed, sizeof claimed, "1|30|0|0|f|%s|stamp|running|f", c->options);
    (void)snprintf(state, sizeof state, "1|30|%d|0|f|%s", c->marked, c->state);
    for (int n = 1;; n++) {
        struct rp_error err;
        pg_begin(answers);
        pg_fail_at(n, times, sqlstate);
        int rc = run_once(c, &err);
        bool failed = pg_failed();
        if (rc != 0) {
            assert_true(failed);
            assert_int_equal(err.cls, RP_RETRIABLE);
            assert_int_equal(out_to, 0); /* it never was ours */
            continue;
        }
        if ((IS(result.end) & (failed ? c->ends_refused : c->ends)) == 0)
            fail_msg("statement %d: end %d: %s", n, (int)result.end, err.text);
        assert_true(result.done <= out_to);
        assert_true(result.done == out_to || result.unmarked);
        if (result.end == RP_REPLAY_DONE)
            assert_int_equal(out_to, TOTAL);
        if (!failed)
            break;
    }
}

static void refuse_each_way(const struct course *c)
{
    refuse_each(c, 1, "57014");
    refuse_each(c, 1, "");
}

static void a_job_is_done_whichever_statement_is_refused(void **state)
{
    (void)state;
    const struct course plain = {"{}",
                                 "done",
                                 0,
                                 {.known = true},
                                 .ends = IS(RP_REPLAY_DONE),
                                 .ends_refused = IS(RP_REPLAY_DONE)};
    refuse_each_way(&plain);
    assert_int_equal(result.done, TOTAL);
    assert_true(n_shown > 0);
    struct course slow = plain;
    slow.news.rate = 100;
    refuse_each_way(&slow);
    assert_int_equal(result.done, TOTAL);
    struct course with_canaries = plain;
    with_canaries.options = "{\"canary\": 6, \"canary_wait_ms\": 1000, \"canary_share\": 0.5}";
    shown_well = 0;
    refuse_each_way(&with_canaries);
    assert_true(shown_well > 0);
    refuses_first = true;
    refuse_each_way(&plain);
    refuses_first = false;
}

/* How many statements mark a job of so many items. */
static int marks(int64_t total, double rate)
{
    char claimed[80], position[40], done[80];
    const struct pg_answer answers[] = {{"runner = $2", COLUMNS, claimed},
                                        {"heartbeat_at = clock_timestamp()", COLUMNS, position},
                                        {MARKED, "refused", "0"},
                                        {ASKS_STATE, COLUMNS, done},
                                        {0}};
    const struct course course = {.news = {.known = true, .rate = rate}};
    struct rp_error err;
    (void)snprintf(position, sizeof position, "1|%" PRId64 "|0|0|f", total);
    (void)snprintf(claimed, sizeof claimed, "%s|{}|stamp|running|f", position);
    (void)snprintf(done, sizeof done, "%s|{}|stamp|done", position);
    pg_begin(answers);
    most_unmarked = 0;
    assert_int_equal(run_once(&course, &err), 0);
    assert_int_equal(result.end, RP_REPLAY_DONE);
    assert_int_equal(result.done, total);
    return pg_statements(MARKS);
}

static void marks_trail_what_is_sent_by_5_s_or_by_half_a_second_where_there_is_a_rate(void **state)
{
    (void)state;
    assert_int_equal(marks(TOTAL, 0), 1);
    batch_takes_ms = 800;
    assert_int_equal(marks(TOTAL, 0), 2); /* 5.6 s: before the last batch, and behind it */
    batch_takes_ms = 2000;
    assert_int_equal(marks(TOTAL, 0), 3);
    batch_takes_ms = 600;
    assert_true(marks(TOTAL, 100) >= 8); /* which is slower than the rate */
    batch_takes_ms = 0;
    assert_true(marks(TOTAL, 2) >= 8); /* an item each half second */
}

static void marks_are_behind_by_half_a_million_at_most(void **state)
{
    (void)state;
    batch_items = 100000;
    assert_int_equal(marks(2000000, 0), 63);
    assert_in_range(most_unmarked, 400000, 499999);
    batch_items = BATCH;
}

static void what_people_wish_is_done_whichever_statement_is_refused(void **state)
{
    (void)state;
    const struct course wishes[] = {
        {"{}",
         "paused",
         0,
         {.known = true, .wish = RP_REPLAY_PAUSE},
         .ends = IS(RP_REPLAY_PAUSED),
         .ends_refused = IS(RP_REPLAY_PAUSED)},
        {"{}",
         "cancelled",
         0,
         {.known = true, .wish = RP_REPLAY_CANCEL},
         .ends = IS(RP_REPLAY_CANCELLED),
         .ends_refused = IS(RP_REPLAY_CANCELLED)},
        {"{\"stop_if_dead\": 0.1}",
         "stopped",
         20,
         {.known = true, .came_back = 20},
         .ends = IS(RP_REPLAY_STOPPED),
         .ends_refused = IS(RP_REPLAY_STOPPED)},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        refuse_each_way(&wishes[i]);
}

static void who_is_stopped_lets_go(void **state)
{
    (void)state;
    struct course stopped = {"{}",
                             "running",
                             0,
                             {.known = true},
                             .stop = true,
                             .ends = IS(RP_REPLAY_LET_GO),
                             .ends_refused = LET_GO};
    for (int pause = 0; pause < 2; pause++) {
        stopped.pause_on_stop = pause == 1;
        refuse_each_way(&stopped);
        assert_false(result.unmarked);
        refuse_each(&stopped, 1000, "");
    }
}

#define RENEWS                                                                                     \
    {                                                                                              \
        "heartbeat_at = clock_timestamp()", COLUMNS, "1|30|0|0|f"                                  \
    }

static void a_job_that_somebody_took_over_is_lost(void **state)
{
    static const struct pg_answer answers[] = {
        {"runner = $2", COLUMNS, "1|30|0|0|f|{}|stamp|running|f"},
        {ASKS_STATE, COLUMNS, ""},
        RENEWS,
        {0}};
    const struct course lost = {.news = {.known = true, .lost = true}};
    struct rp_error err;
    (void)state;
    pg_begin(answers);
    assert_int_equal(run_once(&lost, &err), 0);
    assert_int_equal(result.end, RP_REPLAY_LOST);
    assert_int_equal(out_to, 0);
}

static const struct pg_answer running[] = {
    {"runner = $2", COLUMNS, "1|30|0|0|f|{}|stamp|running|f"},
    RENEWS,
    {MARKED, "refused", "0"},
    {0}};

/* Once what is out is marked, and whatever fails meanwhile. */
static void a_job_that_cannot_go_on_fails(void **state)
{
    static const struct course plain = {.news = {.known = true}};
    struct rp_error err;
    bool failed = true;
    (void)state;
    for (int n = 0; failed; n++) {
        for (int lost = 0; lost < 2; lost++) {
            (void)rp_fail(&send_error, RP_E_CONFIG, RP_FATAL, "no such codec");
            pg_begin(running);
            pg_fail_at(n, lost == 1 ? 1000 : 1, lost == 1 ? "" : "42501");
            int rc = run_once(&plain, &err);
            failed = pg_failed() || n == 0;
            send_error.code = RP_OK;
            if (rc != 0)
                continue;
            /* While the database is away from the start it is not known to fail. */
            assert_true(result.end == RP_REPLAY_FAILED || (lost == 1 && out_to == 0));
            assert_true(result.done == out_to || result.unmarked);
            if (!failed)
                assert_string_equal(err.text, "no such codec");
        }
    }
}

static void what_failed_but_may_be_out_is_found_out_again(void **state)
{
    static const struct course plain = {.news = {.known = true}};
    struct rp_error err;
    (void)state;
    (void)rp_fail(&send_error, RP_E_KAFKA, RP_RETRIABLE, "no broker");
    pg_begin(running);
    assert_int_equal(run_once(&plain, &err), 0);
    assert_int_equal(result.end, RP_REPLAY_DONE);
    assert_int_equal(out_to, TOTAL);
}

static void it_tries_again_ever_more_seldom(void **state)
{
    static const struct course plain = {.news = {.known = true}};
    struct rp_error err;
    (void)state;
    nothing_sent = 5;
    pg_begin(running);
    assert_int_equal(run_once(&plain, &err), 0);
    assert_int_equal(result.end, RP_REPLAY_DONE);
    assert_true(now_mono_ms - 1000 >= 100 + 200 + 400 + 800 + 1600);
}

static void who_only_settles_sends_nothing_and_leaves_it_as_it_was(void **state)
{
    const struct course settling = {"{}",
                                    "running",
                                    0,
                                    {.known = true},
                                    .settle = true,
                                    .ends = IS(RP_REPLAY_PAUSED),
                                    .ends_refused = IS(RP_REPLAY_PAUSED)};
    (void)state;
    refuse_each_way(&settling);
    assert_int_equal(out_to, 0);
}

/* Who settles gives up in time, and says what is in the way. */
static void what_cannot_be_settled_in_time_is_left(void **state)
{
    static const struct course settling = {.settle = true};
    struct rp_error err;
    (void)state;
    pg_begin(running);
    assert_int_equal(run_once(&settling, &err), 0); /* without news */
    assert_in_range(now_mono_ms, TO_SETTLE, 2 * TO_SETTLE);
    assert_int_equal(result.end, RP_REPLAY_LET_GO);
    assert_true(result.unmarked);
    assert_string_equal(err.text, "PostgreSQL does not say what is wished");
    pg_begin(running);
    pg_fail_at(5, 1000, "57014"); /* all that follows the claim */
    assert_int_equal(run_once(&settling, &err), 0);
    assert_in_range(now_mono_ms, TO_SETTLE, 2 * TO_SETTLE);
    assert_true(result.unmarked);
    assert_non_null(strstr(err.text, "(57014)"));
}

/* And one whose server does not know the job's table waits for nobody. */
static void trouble_of_the_pulse_that_must_be_mended_fails_the_job(void **state)
{
    struct course troubled = {.news = {.known = true}};
    struct rp_error err;
    (void)state;
    (void)rp_fail(&troubled.news.trouble, RP_E_POSTGRES, RP_FATAL, "no such column");
    pg_begin(running);
    assert_int_equal(run_once(&troubled, &err), 0);
    assert_int_equal(result.end, RP_REPLAY_FAILED);
    assert_string_equal(err.text, "no such column");
    assert_int_equal(out_to, 0);
}

static void a_job_that_is_not_there_for_us_is_not_run(void **state)
{
    static const struct {
        const char *row, *text;
        enum rp_error_code code;
    } of[] = {{"", "there is no replay '" JOB "'", RP_E_NOT_FOUND},
              {"done|x|t", "has ended: done", RP_E_INVALID},
              {"running|other|f", "is being run by other", RP_E_FENCED}};
    static const struct course plain = {.news = {.known = true}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const struct pg_answer answers[] = {
            {"runner = $2", COLUMNS, ""}, {"SELECT state, runner", "s|r|f", of[i].row}, {0}};
        struct rp_error err;
        pg_begin(answers);
        assert_int_equal(run_once(&plain, &err), -1);
        assert_int_equal(err.code, of[i].code);
        assert_non_null(strstr(err.text, of[i].text));
    }
}

int main(void)
{
    rp_log_setup(RP_LOG_ERROR + 1, false, "test");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_done_whichever_statement_is_refused),
        cmocka_unit_test(marks_trail_what_is_sent_by_5_s_or_by_half_a_second_where_there_is_a_rate),
        cmocka_unit_test(marks_are_behind_by_half_a_million_at_most),
        cmocka_unit_test(what_people_wish_is_done_whichever_statement_is_refused),
        cmocka_unit_test(who_is_stopped_lets_go),
        cmocka_unit_test(a_job_that_somebody_took_over_is_lost),
        cmocka_unit_test(a_job_that_cannot_go_on_fails),
        cmocka_unit_test(what_failed_but_may_be_out_is_found_out_again),
        cmocka_unit_test(it_tries_again_ever_more_seldom),
        cmocka_unit_test(who_only_settles_sends_nothing_and_leaves_it_as_it_was),
        cmocka_unit_test(what_cannot_be_settled_in_time_is_left),
        cmocka_unit_test(trouble_of_the_pulse_that_must_be_mended_fails_the_job),
        cmocka_unit_test(a_job_that_is_not_there_for_us_is_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
