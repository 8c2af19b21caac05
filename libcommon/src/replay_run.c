/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_run.h"

#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "crash_point.h"
#include "log.h"
#include "pace.h"
#include "replay_pulse.h"
#include "replay_sender.h"
#include "replay_verdict.h"

#define TIMEOUT_MS INT64_C(60000)
#define NAP_MS     INT64_C(20)
#define SHOW_MS    INT64_C(200)
/* Marks trail what was sent, since they slow the sends down by half: begun where an item has waited
 * so long for its mark, or so long where a rate slows them down anyway; not waited for, unless so
 * many items wait. As many are marked at once as a batch may have. */
#define TRAIL_MS   INT64_C(5000)
#define RATED_MS   INT64_C(500)
#define TRAIL_MOST 500000
#define MARK_MOST  32000
/* How long all is left alone after a failure: doubling from the first to the last. */
#define FIRST_WAIT_MS INT64_C(100)
#define LAST_WAIT_MS  INT64_C(5000)
/* What is wished of the job is believed for so long. */
#define DEAF_MS INT64_C(5000)

struct runner {
    const struct rp_replay_run *run;
    struct rp_db *db;
    struct rp_replay_job job;
    struct rp_replay_pulse *pulse;
    struct rp_replay_news news;
    struct rp_replay_sender *sender;
    bool ready;      /* the sender is open, and `next` is known */
    int64_t next;    /* the next item to send */
    int64_t marking; /* a mark up to there is on its way; -1: none */
    int64_t unmarked_mono_ms; /* no item waits for longer for its mark to begin */
    struct rp_pace pace;
    int64_t wait_ms, again_mono_ms; /* after a failure */
    struct rp_error trouble;
    struct rp_error failure;      /* the job fails of it, once it is settled; RP_OK: none */
    int64_t settle_until_mono_ms; /* 0: no limit */
    const char *what;
    int64_t shown_mono_ms;
    bool asked; /* how far the archivers have to be for the canaries' sake */
    bool ended, unmarked, offset_gone;
    enum rp_replay_end end;
};

static bool stopping(const struct runner *r)
{
    return atomic_load(r->run->stop);
}

static void show(struct runner *r, bool now)
{
    int64_t now_mono_ms = rp_mono_ms();
    if (r->run->progress == NULL || (!now && now_mono_ms - r->shown_mono_ms < SHOW_MS))
        return;
    r->shown_mono_ms = now_mono_ms;
    const struct rp_replay_progress progress = {
        .job = r->job.id,
        .total = r->job.total,
        .done = r->next > r->job.marked ? r->next : r->job.marked,
        .refused = r->job.refused,
        .came_back = r->news.came_back,
        .rate = r->news.rate,
        .what = r->what,
        .trouble = r->trouble.code == RP_OK ? NULL : r->trouble.text,
    };
    r->run->progress(r->run->opaque, &progress);
}

/* While nothing is sent: a query that waits for who reads its rows holds its locks. */
static void look_after(struct runner *r, int64_t until_mono_ms)
{
    show(r, false);
    if (r->sender != NULL)
        rp_replay_sender_read_ahead(r->sender, until_mono_ms);
}

static void nap(struct runner *r, int64_t ms)
{
    int64_t until_mono_ms = rp_mono_ms() + (ms < NAP_MS ? ms : NAP_MS);
    look_after(r, until_mono_ms);
    int64_t left_ms = until_mono_ms - rp_mono_ms();
    if (left_ms > 0)
        (void)usleep((useconds_t)left_ms * 1000);
}

static void end(struct runner *r, enum rp_replay_end how)
{
    r->ended = true;
    r->end = how;
}

static int finish_mark(struct runner *r, struct rp_error *err)
{
    int64_t until = r->marking;
    if (until < 0)
        return 0;
    r->marking = -1;
    if (rp_replay_job_marked(r->db, &r->job, until, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_marked);
    return 0;
}

static int begin_mark(struct runner *r, struct rp_error *err)
{
    int64_t until = r->next - r->job.marked > MARK_MOST ? r->job.marked + MARK_MOST : r->next;
    if (until == r->next)
        r->unmarked_mono_ms = rp_mono_ms();
    if (rp_replay_job_mark(r->db, &r->job, until, err) != 0)
        return -1;
    r->marking = until;
    RP_CRASH_POINT(replay_mark_asked);
    return 0;
}

/* Lets the marks trail what was sent, by a bounded number and time. */
static int serve_marks(struct runner *r, struct rp_error *err)
{
    int64_t after_ms = r->news.rate > 0 ? RATED_MS : TRAIL_MS;
    while (r->next - r->job.marked >= TRAIL_MOST)
        if ((r->marking < 0 && begin_mark(r, err) != 0) || finish_mark(r, err) != 0)
            return -1;
    if (r->marking >= 0 && !rp_db_answered(r->db))
        return 0;
    if (finish_mark(r, err) != 0)
        return -1;
    bool due = rp_mono_ms() - r->unmarked_mono_ms >= after_ms;
    return due && r->next > r->job.marked ? begin_mark(r, err) : 0;
}

/* Marks all that was sent. */
static int settle(struct runner *r, struct rp_error *err)
{
    if (finish_mark(r, err) != 0)
        return -1;
    for (; r->job.marked < r->next; look_after(r, rp_mono_ms()))
        if (begin_mark(r, err) != 0 || finish_mark(r, err) != 0)
            return -1;
    return 0;
}

static int refuse(void *opaque, const char *json, struct rp_error *err)
{
    struct runner *r = opaque;
    if (finish_mark(r, err) != 0 || rp_replay_job_refuse(r->db, &r->job, json, err) != 0)
        return -1;
    r->wait_ms = 0; /* whatever failed for its sake */
    return 0;
}

/* A job's statements look their rows up by key. By the archive's statistics the planner would read
 * through all states there are for some thousands of them, at every mark again, or for each of
 * them; what is left to it can do neither: a bitmap scan needs a key. */
static int open_db(struct runner *r, struct rp_error *err)
{
    if (rp_db_open(r->run->config->postgres.dsn, "reprise replay", TIMEOUT_MS, &r->db, err) != 0)
        return -1;
    return rp_db_script(r->db,
                        "SET enable_hashjoin = off; SET enable_mergejoin = off;"
                        " SET enable_seqscan = off; SET enable_material = off;"
                        " SET enable_indexscan = off; SET enable_indexonlyscan = off",
                        err);
}

static int connect(struct runner *r, struct rp_error *err)
{
    if (r->db != NULL && rp_db_alive(r->db) && r->marking < 0)
        return 0;
    rp_db_close(r->db);
    r->db = NULL;
    r->marking = -1;
    return open_db(r, err);
}

/* Finds out how far the job is. Kafka's word counts, unless it has forgotten: offsets of a group go
 * some days after the last commit. Then the marks do, which trail by what nobody marked since. */
static int get_ready(struct runner *r, struct rp_error *err)
{
    int64_t next;
    r->what = "finding out how far it is";
    if (connect(r, err) != 0 || rp_replay_job_renew(r->db, &r->job, err) != 0)
        return -1;
    if (r->sender == NULL) {
        struct rp_replay_refuser refuser = {r, refuse};
        if (rp_replay_sender_new(r->run->config, &r->job, refuser, &r->sender, err) != 0)
            return -1;
    }
    if (rp_replay_sender_open(r->sender, &next, err) != 0)
        return -1;
    /* The producer may be younger than the one of who took the job over while we made it: then only
     * the epoch says that the job is not ours. Who takes it over from here on fences ours. */
    if (rp_replay_job_renew(r->db, &r->job, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_cursor_read);
    /* Brokers forget. What we have seen committed ourselves went out. */
    if (next < 0 && r->next > r->job.marked) {
        next = r->next;
    } else if (next < 0 && r->job.unsettled) {
        r->offset_gone = true;
        rp_log(RP_LOG_WARN, "replay-offset-gone", rp_f_str("job", r->job.id),
               rp_f_int("marked", r->job.marked));
    }
    r->next = next > r->job.marked ? next : r->job.marked;
    if (settle(r, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_recovered);
    r->ready = true;
    return 0;
}

static int rest(struct runner *r, const char *state, const char *why, enum rp_replay_end how,
                struct rp_error *err)
{
    r->what = "marking what was sent";
    if (settle(r, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_rest_before);
    if (rp_replay_job_rest(r->db, &r->job, state, why, RP_REPLAY_MARKED, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_rested);
    end(r, how);
    return 0;
}

/* Nobody ran it, so it goes back to where it was; or it is paused, where its runner died. */
static int rest_settled(struct runner *r, struct rp_error *err)
{
    if (strcmp(r->job.state, "paused") == 0 || strcmp(r->job.state, "failed") == 0)
        return rest(r, NULL, NULL, RP_REPLAY_PAUSED, err);
    const char *why = r->news.wish == RP_REPLAY_PAUSE ? NULL : "its runner died";
    return rest(r, "paused", why, RP_REPLAY_PAUSED, err);
}

/* Lets go of it although what was sent may not all be marked. Where the database is away, the end
 * of the heartbeat says the same, a little later. */
static bool leave(struct runner *r, const char *state, const char *why, enum rp_replay_end how)
{
    struct rp_error ignored;
    bool again = r->run->settle && r->failure.code != RP_OK;
    r->unmarked = true;
    end(r, how);
    return connect(r, &ignored) == 0 &&
           rp_replay_job_rest(r->db, &r->job, state, why,
                              again ? RP_REPLAY_UNMARKED_LATER : RP_REPLAY_UNMARKED, &ignored) == 0;
}

/* The database says how the job ended, or that it is not ours any more: we may have ended it
 * ourselves, and the answer to that was lost. */
static int learn_end(struct runner *r, struct rp_error *err)
{
    char state[16];
    if (connect(r, err) != 0 || rp_replay_job_state(r->db, &r->job, state, err) != 0)
        return -1;
    end(r, strcmp(state, "done") == 0        ? RP_REPLAY_DONE
           : strcmp(state, "cancelled") == 0 ? RP_REPLAY_CANCELLED
           : strcmp(state, "stopped") == 0   ? RP_REPLAY_STOPPED
           : state[0] == '\0'                ? RP_REPLAY_LOST
                                             : RP_REPLAY_LEFT);
    r->unmarked = r->end == RP_REPLAY_LEFT;
    return 0;
}

static int cancel(struct runner *r, struct rp_error *err)
{
    r->what = "giving back what was not sent";
    if (settle(r, err) != 0)
        return -1;
    for (int64_t from = r->next; from < r->job.total; look_after(r, rp_mono_ms())) {
        if (rp_replay_job_release(r->db, &r->job, &from, err) != 0)
            return -1;
        RP_CRASH_POINT(replay_released);
    }
    RP_CRASH_POINT(replay_finish_before);
    if (rp_replay_job_finish(r->db, &r->job, false, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_finished);
    return learn_end(r, err);
}

static int complete(struct runner *r, struct rp_error *err)
{
    r->what = "marking what was sent";
    if (settle(r, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_finish_before);
    if (rp_replay_job_finish(r->db, &r->job, true, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_finished);
    end(r, RP_REPLAY_DONE);
    return 0;
}

static int stop_job(struct runner *r, const char *why, struct rp_error *err)
{
    if (settle(r, err) != 0 || rp_replay_job_stop(r->db, &r->job, why, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_stopped);
    return cancel(r, err);
}

/* How many canaries are still to be sent, for all that is marked. */
static int64_t canaries_left(const struct runner *r)
{
    return r->job.options.canary - (r->next - r->job.refused);
}

/* All canaries are out, and marked: from now on they have their time. Or some of them were refused,
 * which shows by now, and others go in their place. */
static int wait_for_canaries(struct runner *r, bool *hold, struct rp_error *err)
{
    r->what = "waiting for the canaries";
    if (settle(r, err) != 0)
        return -1;
    *hold = canaries_left(r) <= 0;
    if (r->job.canary_out || !*hold)
        return 0;
    if (rp_replay_job_canaries_out(r->db, &r->job, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_canaries_out);
    return 0;
}

static void wait_a_while(struct runner *r)
{
    r->wait_ms = r->wait_ms == 0 ? FIRST_WAIT_MS : 2 * r->wait_ms;
    if (r->wait_ms > LAST_WAIT_MS)
        r->wait_ms = LAST_WAIT_MS;
    r->again_mono_ms = rp_mono_ms() + r->wait_ms;
    show(r, true);
}

static void all_is_well(struct runner *r)
{
    r->trouble.code = RP_OK;
    r->wait_ms = 0;
}

/* The canaries had their time. What became of them counts once the archivers have read all that had
 * died by then. Nothing is under way that a failure would make doubtful. */
static int ask_for_ends(struct runner *r, struct rp_error *err)
{
    const char *topic = r->run->config->topics.dead_letter;
    struct rp_buf ends = {0};
    r->what = "asking where the dead letters end";
    int failed = rp_replay_sender_dead_ends(r->sender, &ends, err);
    if (failed == 0)
        failed = rp_replay_pulse_await(r->pulse, topic, (const char *)ends.data, err);
    rp_buf_clear(&ends);
    r->asked = failed == 0;
    if (failed == 0 || err->cls != RP_RETRIABLE)
        return failed;
    r->trouble = *err;
    wait_a_while(r);
    return 0;
}

/* *hold: nothing is to be sent now. */
static int heed_verdict(struct runner *r, bool *hold, struct rp_error *err)
{
    char why[120];
    const struct rp_replay_standing standing = {
        .total = r->job.total,
        .next = r->next,
        .refused = r->job.refused,
        .came_back = r->news.came_back,
        .canary_age_ms = r->news.canary_age_ms,
        .archived = r->news.archived,
    };
    enum rp_replay_verdict verdict = rp_replay_judge(&r->job.options, &standing, why, sizeof why);
    *hold = verdict == RP_REPLAY_HOLD || verdict == RP_REPLAY_AWAIT;
    if (verdict == RP_REPLAY_STOP)
        return stop_job(r, why, err);
    if (*hold && wait_for_canaries(r, hold, err) != 0)
        return -1;
    if (!*hold)
        return 0;
    if (verdict == RP_REPLAY_AWAIT && !r->asked)
        return ask_for_ends(r, err);
    if (verdict == RP_REPLAY_AWAIT)
        r->what = "waiting for the archivers to read what died meanwhile";
    all_is_well(r);
    return 0;
}

static int serve_wishes(struct runner *r, struct rp_error *err)
{
    if (r->news.lost)
        return rp_fail(err, RP_E_FENCED, RP_FATAL, "the replay %s was taken over", r->job.id);
    if (r->next >= r->job.total)
        return complete(r, err); /* there is nothing left to pause, or to keep back */
    if (r->news.wish == RP_REPLAY_CANCEL)
        return cancel(r, err);
    if (r->run->settle)
        return rest_settled(r, err);
    if (r->news.wish == RP_REPLAY_PAUSE)
        return rest(r, "paused", NULL, RP_REPLAY_PAUSED, err);
    return 0;
}

static int send_some(struct runner *r, struct rp_error *err)
{
    int64_t sent = 0, until = r->job.total, canaries = canaries_left(r);
    int64_t most = rp_pace_allows(&r->pace, r->news.rate, rp_mono_ms());
    if (most == 0) {
        nap(r, rp_pace_wait_ms(&r->pace));
        return serve_marks(r, err);
    }
    if (canaries > 0 && canaries < until - r->next)
        until = r->next + canaries;
    if (most < until - r->next)
        until = r->next + most;
    r->what = "sending";
    if (r->next == (r->marking < 0 ? r->job.marked : r->marking))
        r->unmarked_mono_ms = rp_mono_ms();
    if (rp_replay_sender_send(r->sender, &r->next, until, &sent, err) != 0)
        return -1;
    all_is_well(r);
    rp_pace_take(&r->pace, sent);
    return serve_marks(r, err);
}

/* Whoever cannot be told to stop, and does not show that it lives, sends nothing. */
static int listen(struct runner *r, struct rp_error *err)
{
    r->news = rp_replay_pulse_news(r->pulse);
    bool deaf = !r->news.known || rp_mono_ms() - r->news.read_mono_ms > DEAF_MS;
    if (r->news.trouble.code != RP_OK && (deaf || r->news.trouble.cls == RP_FATAL))
        return rp_fail_as(err, &r->news.trouble);
    return 0;
}

static int step(struct runner *r, struct rp_error *err)
{
    bool hold = false;
    if (!r->ready && get_ready(r, err) != 0)
        return -1;
    if (r->failure.code != RP_OK)
        return rest(r, "failed", r->failure.text, RP_REPLAY_FAILED, err);
    if (listen(r, err) != 0)
        return -1;
    if (!r->news.known) {
        nap(r, NAP_MS);
        return 0;
    }
    if (serve_wishes(r, err) != 0 || r->ended)
        return r->ended ? 0 : -1;
    if (r->job.unread.code != RP_OK)
        return rp_fail(err, r->job.unread.code, RP_FATAL, "%s", r->job.unread.text);
    if (heed_verdict(r, &hold, err) != 0 || r->ended)
        return r->ended ? 0 : -1;
    show(r, false);
    if (!hold)
        return send_some(r, err);
    nap(r, NAP_MS);
    return 0;
}

static void limit_settling(struct runner *r)
{
    if (r->run->settle_within_ms > 0)
        r->settle_until_mono_ms = rp_mono_ms() + r->run->settle_within_ms;
}

/* The job rests once it is settled. What fails meanwhile, too, is left to others. */
static void fail_job(struct runner *r, const struct rp_error *err)
{
    if (r->failure.code != RP_OK) {
        (void)leave(r, "failed", r->failure.text, RP_REPLAY_FAILED);
        return;
    }
    r->failure = *err;
    r->trouble.code = RP_OK;
    r->again_mono_ms = 0;
    limit_settling(r);
}

/* What was under way may or may not be done. All of it is found out again. */
static void take_failure(struct runner *r, struct rp_error *err)
{
    r->ready = false;
    if (err->code == RP_E_FENCED && err->cls == RP_FATAL && learn_end(r, err) == 0)
        return;
    if (r->db != NULL)
        (void)rp_db_needs_mending(r->db, err);
    r->trouble = *err;
    if (err->cls == RP_RETRIABLE)
        wait_a_while(r);
    else
        fail_job(r, err);
}

static void let_go(struct runner *r)
{
    struct rp_error err;
    const char *state = r->run->settle ? NULL : r->run->pause_on_stop ? "paused" : "running";
    if (r->failure.code != RP_OK)
        (void)leave(r, "failed", r->failure.text, RP_REPLAY_FAILED);
    else if (r->ready && state != NULL && rest(r, state, NULL, RP_REPLAY_LET_GO, &err) == 0)
        return;
    else if (!leave(r, state, NULL, RP_REPLAY_LET_GO) && learn_end(r, &err) != 0)
        r->end = RP_REPLAY_LEFT;
}

static bool out_of_time(const struct runner *r)
{
    return r->settle_until_mono_ms > 0 && (!r->ready || !r->news.known) &&
           rp_mono_ms() >= r->settle_until_mono_ms;
}

/* It could not be settled in time. */
static void give_up(struct runner *r)
{
    if (r->trouble.code == RP_OK)
        (void)rp_fail(&r->trouble, RP_E_POSTGRES, RP_RETRIABLE,
                      "PostgreSQL does not say what is wished");
    if (r->failure.code != RP_OK)
        (void)leave(r, "failed", r->failure.text, RP_REPLAY_FAILED);
    else
        (void)leave(r, NULL, NULL, RP_REPLAY_LET_GO);
}

static void loop(struct runner *r, struct rp_error *err)
{
    while (!r->ended) {
        if (stopping(r))
            let_go(r);
        else if (out_of_time(r))
            give_up(r);
        else if (rp_mono_ms() < r->again_mono_ms)
            nap(r, NAP_MS);
        else if (step(r, err) != 0)
            take_failure(r, err);
    }
    *err = r->failure.code != RP_OK ? r->failure : r->trouble;
    show(r, true);
}

static int claim(struct runner *r, const char *job, struct rp_error *err)
{
    const struct rp_replay_run *run = r->run;
    if (open_db(r, err) != 0 ||
        rp_replay_job_claim(r->db, job, run->runner, run->settle, &r->job, err) != 0)
        return -1;
    RP_CRASH_POINT(replay_claimed);
    return rp_replay_pulse_start(run->config->postgres.dsn, &r->job, &r->pulse, err);
}

int rp_replay_run(const struct rp_replay_run *run, const char *job, struct rp_replay_result *out,
                  struct rp_error *err)
{
    struct runner r = {.run = run, .marking = -1, .what = "starting"};
    int failed = claim(&r, job, err);
    if (failed == 0) {
        if (run->settle)
            limit_settling(&r);
        loop(&r, err);
        *out = (struct rp_replay_result){
            .end = r.end,
            .unmarked = r.unmarked,
            .offset_gone = r.offset_gone,
            .total = r.job.total,
            .done = r.job.marked,
            .refused = r.job.refused,
            .came_back = rp_replay_pulse_news(r.pulse).came_back,
        };
    }
    rp_replay_pulse_stop(r.pulse);
    rp_replay_sender_free(r.sender);
    rp_db_close(r.db);
    rp_replay_job_clear(&r.job);
    return failed;
}
