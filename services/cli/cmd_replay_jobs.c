/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "consent.h"
#include "database.h"
#include "query.h"
#include "replay_args.h"
#include "replay_jobs.h"
#include "replay_watch.h"

/* How long a runner may take to do what was wished: it looks each second, and may be in the middle
 * of a batch, or of giving back some million rows. */
#define PATIENCE_MS INT64_C(60000)
#define QUIET_MS    INT64_C(2000) /* before it is said that it takes longer */
#define LOOK_MS     200
#define SETTLING_MS INT64_C(3000)

/* Why a wish changed nothing. */
static int explain_refusal(struct jobs *j)
{
    int code;
    const char *job = j->args->positional[0];
    PGresult *r = jobs_ask(j,
                           "SELECT state, finished_at IS NOT NULL, wish = 'cancel',"
                           " state IN ('paused', 'failed') FROM replay_job WHERE job = $1",
                           &code);
    if (r == NULL)
        return code;
    code = CLI_FAILED;
    if (PQgetvalue(r, 0, 1)[0] == 't') {
        cli_error("the replay has ended: %s", PQgetvalue(r, 0, 0));
        code = CLI_NOTHING;
    } else if (PQgetvalue(r, 0, 2)[0] == 't') {
        cli_error("the replay %s is being cancelled", job);
    } else if (PQgetvalue(r, 0, 3)[0] == 't') {
        cli_error("the replay %s is %s, and somebody is marking what it sent, or has just tried to:"
                  " try again in 15 s",
                  job, PQgetvalue(r, 0, 0));
    } else {
        cli_error("the replay %s is running", job);
    }
    PQclear(r);
    return code;
}

/* Sets what is wished, and says so in the audit; CLI_OK where the job is still open. */
static int wish(struct jobs *j, const char *action, const char *set, const char *value,
                const char *also)
{
    struct rp_query q = {0};
    struct rp_error err;
    PGresult *result;
    rp_query_add(&q, "WITH j AS (UPDATE replay_job SET ");
    rp_query_add(&q, set);
    if (value != NULL)
        rp_query_param(&q, value);
    rp_query_add(&q, " WHERE finished_at IS NULL AND job = ");
    rp_query_param(&q, j->args->positional[0]);
    rp_query_add(&q, also);
    rp_query_add(&q, " RETURNING *) INSERT INTO audit (actor, action, reason, detail) SELECT ");
    rp_query_param(&q, consent_actor(j->args));
    rp_query_add(&q, ", ");
    rp_query_param(&q, action);
    rp_query_add(&q, ", ");
    rp_query_param(&q, cli_value(j->args, "reason"));
    rp_query_add(&q, ", jsonb_build_object('job', job, 'rate', rate, 'sent', marked - refused)"
                     " FROM j RETURNING id");
    int failed = rp_query_run(&q, j->db, &result, &err);
    rp_query_clear(&q);
    if (failed != 0)
        return database_failed(&err);
    bool open = PQntuples(result) > 0;
    PQclear(result);
    return open ? CLI_OK : explain_refusal(j);
}

enum situation { S_RUN, S_UNRUN, S_PAUSED, S_ENDED, S_DONE, S_UNKNOWN };

static enum situation situation(struct jobs *j)
{
    int code;
    PGresult *r = jobs_ask(j,
                           "SELECT CASE WHEN state = 'done' THEN 4"
                           " WHEN finished_at IS NOT NULL THEN 3 WHEN " ALIVE
                           " THEN 0 WHEN state IN ('paused', 'failed') AND wish = 'pause'"
                           "  AND heartbeat_at IS NULL THEN 2 ELSE 1 END"
                           " FROM replay_job WHERE job = $1",
                           &code);
    enum situation s = r == NULL ? S_UNKNOWN : (enum situation)(PQgetvalue(r, 0, 0)[0] - '0');
    PQclear(r);
    return s;
}

static int print_state(struct jobs *j)
{
    int code;
    PGresult *r = jobs_ask(j,
                           "SELECT format('Replay %s: %s. %s of %s sent, %s refused.', job, " STATE
                           ", marked - refused, total, refused) FROM replay_job WHERE job = $1",
                           &code);
    if (r == NULL)
        return code;
    (void)printf("%s\n", PQgetvalue(r, 0, 0));
    PQclear(r);
    return CLI_OK;
}

/* All was sent before the wish was seen. There is nothing left to pause, which is as good; but who
 * cancels wants that not all of it goes. */
static int tell_too_late(struct jobs *j, bool cancels)
{
    int code = print_state(j);
    if (code != CLI_OK || !cancels)
        return code;
    cli_error("there was nothing left to cancel");
    return CLI_NOTHING;
}

/* Waits until what was wished is done: by the job's runner, or, where it has none, by us. */
static int see_it_done(struct jobs *j, bool cancels)
{
    bool told = false;
    for (int64_t until = rp_mono_ms() + PATIENCE_MS; rp_mono_ms() < until;) {
        enum situation s = situation(j);
        if (!told && until - rp_mono_ms() < PATIENCE_MS - QUIET_MS) {
            (void)fprintf(stderr, "It is wished; its runner has not done it yet.\n");
            told = true;
        }
        if (s == S_PAUSED || s == S_ENDED)
            return print_state(j);
        if (s == S_DONE)
            return tell_too_late(j, cancels);
        if (s == S_UNKNOWN)
            return CLI_FAILED;
        int code = s == S_UNRUN ? replay_settle_here(j->config, j->args->positional[0]) : CLI_OK;
        if (code == CLI_FAILED || code == CLI_PARTLY)
            return code;
        (void)usleep(LOOK_MS * 1000);
    }
    cli_error("it is wished, and not done yet; `reprise replay show` says how it goes");
    return CLI_PARTLY;
}

static int pause_job(struct jobs *j)
{
    int code = wish(j, "replay-pause-wished",
                    "wish = CASE wish WHEN 'run' THEN 'pause' ELSE wish END", NULL, "");
    return code == CLI_OK ? see_it_done(j, false) : code;
}

static int cancel_job(struct jobs *j)
{
    int code =
        wish(j, "replay-cancel-wished",
             "outcome = CASE wish WHEN 'cancel' THEN outcome END, wish = 'cancel'", NULL, "");
    return code == CLI_OK ? see_it_done(j, true) : code;
}

/* Whoever has it may only be marking what its runner left behind when it died. */
static int wait_for_nobody(struct jobs *j)
{
    enum situation s = S_RUN;
    for (int64_t until = rp_mono_ms() + SETTLING_MS; s == S_RUN && rp_mono_ms() < until;) {
        s = situation(j);
        if (s == S_RUN)
            (void)usleep(LOOK_MS * 1000);
    }
    return s == S_RUN ? explain_refusal(j) : s == S_UNKNOWN ? CLI_FAILED : CLI_OK;
}

static int resume_job(struct jobs *j)
{
    int code;
    const char *job = j->args->positional[0];
    bool detach = cli_value(j->args, "detach") != NULL, here = cli_value(j->args, "here") != NULL;
    if (detach && here) {
        cli_error("--detach and --here exclude each other");
        return CLI_USAGE;
    }
    PGresult *r = jobs_ask(j,
                           "SELECT detached, wish = 'cancel' AND finished_at IS NULL"
                           " FROM replay_job WHERE job = $1",
                           &code);
    if (r == NULL)
        return code;
    bool detached = detach || (PQgetvalue(r, 0, 0)[0] == 't' && !here);
    bool cancelling = PQgetvalue(r, 0, 1)[0] == 't';
    PQclear(r);
    if (cancelling) {
        cli_error("the replay %s is being cancelled", job);
        return CLI_FAILED;
    }
    code = wait_for_nobody(j);
    if (code != CLI_OK)
        return code;
    code = wish(j, "replay-resume", "wish = 'run', outcome = NULL, state = 'running', detached = ",
                detached ? "true" : "false", " AND wish <> 'cancel' AND NOT " ALIVE);
    if (code != CLI_OK)
        return code;
    if (!detached)
        return replay_run_here(j->config, job);
    (void)printf("Replay %s: handed to the archiver.\n", job);
    return CLI_OK;
}

static int set_rate(struct jobs *j)
{
    double rate;
    const char *text = j->args->positional[1];
    if (!replay_rate_parse(text, &rate)) {
        cli_error("the rate is tasks a second, or none, not '%s'", text);
        return CLI_USAGE;
    }
    int code = rate > 0 ? wish(j, "replay-rate", "rate = ", text, "")
                        : wish(j, "replay-rate", "rate = NULL", NULL, "");
    return code == CLI_OK ? print_state(j) : code;
}

static int run_pause(const struct cli_args *args)
{
    return jobs_with(args, pause_job);
}

static int run_resume(const struct cli_args *args)
{
    return jobs_with(args, resume_job);
}

static int run_cancel(const struct cli_args *args)
{
    return jobs_with(args, cancel_job);
}

static int run_rate(const struct cli_args *args)
{
    return jobs_with(args, set_rate);
}

#define WISHED                                                                                     \
    "Waits until it is done: by the runner of the replay, or, where it has none, here, by\n"       \
    "marking what was sent. Exit codes: 0 it is done; 4 there is no such replay, or it has\n"      \
    "ended, or all was sent before a cancel was seen; 5 it is wished, and not done yet, since\n"   \
    "the runner takes its time or the brokers are away: an archiver does it, or the same\n"        \
    "command again; 1 it failed; 2 usage."

static const struct cli_option wish_options[] = {CONSENT_WHO, {0}};
static const struct cli_option resume_options[] = {
    CONSENT_WHO,
    {.name = "detach", .help = "let the archiver go on with it"},
    {.name = "here", .help = "go on with it here, also where the archiver had it"},
    {0},
};

const struct cli_command cmd_replay_pause = {
    .group = "replay",
    .name = "pause",
    .positional = "JOB",
    .summary = "Pauses a replay, wherever it runs.",
    .about = WISHED,
    .options = wish_options,
    .run = run_pause,
};

const struct cli_command cmd_replay_resume = {
    .group = "replay",
    .name = "resume",
    .positional = "JOB",
    .summary = "Goes on with a replay that was paused, failed, or lost its runner.",
    .about = "What was sent is not sent again. A replay of the archiver's goes on there.\n"
             "Exit codes are those of `reprise dlq replay`.",
    .options = resume_options,
    .run = run_resume,
};

const struct cli_command cmd_replay_cancel = {
    .group = "replay",
    .name = "cancel",
    .positional = "JOB",
    .summary = "Ends a replay; what it did not send is as before.",
    .about = WISHED,
    .options = wish_options,
    .run = run_cancel,
};

const struct cli_command cmd_replay_rate = {
    .group = "replay",
    .name = "rate",
    .positional = "JOB RATE",
    .summary = "Sets how many tasks a second a replay sends, or none for no limit.",
    .options = wish_options,
    .run = run_rate,
};
