/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "consent.h"
#include "database.h"
#include "query.h"
#include "replay_args.h"
#include "replay_watch.h"
#include "table.h"
#include "term.h"
#include "units.h"

#define TIMEOUT_MS INT64_C(60000)
/* How long a runner may take to do what was wished: it looks each second, and may be in the middle
 * of a batch, or of giving back some million rows. */
#define PATIENCE_MS INT64_C(60000)
#define LOOK_MS     200
#define SETTLING_MS INT64_C(3000)

#define ALIVE "(heartbeat_at IS NOT NULL AND heartbeat_at > clock_timestamp() - interval '15 s')"
/* A job's state to people: one that nobody runs is not running. */
#define STATE                                                                                      \
    "CASE WHEN finished_at IS NOT NULL OR state IN ('paused', 'failed') THEN state"                \
    " WHEN " ALIVE " THEN 'running' WHEN detached THEN 'waiting' ELSE 'abandoned' END"
#define CAME_BACK                                                                                  \
    "(SELECT count(*) FROM dead_letter AS d WHERE d.replay_job = j.job"                            \
    " AND d.dead_at > j.created_at - interval '1 hour')"
#define TIME(column) "to_char(" column ", 'YYYY-MM-DD HH24:MI:SS')"

struct jobs {
    const struct cli_args *args;
    struct rp_config *config;
    struct rp_db *db;
};

static int with_jobs(const struct cli_args *args, int (*run)(struct jobs *j))
{
    struct rp_error err;
    struct jobs j = {.args = args, .config = cli_config_load(args)};
    if (j.config == NULL)
        return CLI_USAGE;
    int code = rp_db_open(j.config->postgres.dsn, "reprise", TIMEOUT_MS, &j.db, &err) == 0
                   ? run(&j)
                   : database_failed(&err);
    rp_db_close(j.db);
    rp_config_free(j.config);
    return code;
}

static bool wants_json(const struct cli_args *args, int *code)
{
    const char *format = cli_value(args, "format");
    *code = CLI_OK;
    if (format == NULL || strcmp(format, "table") == 0)
        return false;
    if (strcmp(format, "json") != 0) {
        cli_error("--format is table or json, not '%s'", format);
        *code = CLI_USAGE;
    }
    return true;
}

static void print_json(const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++) {
        term_json(stdout, rp_str(PQgetvalue(result, i, 0)));
        (void)putchar('\n');
    }
}

#define JSON                                                                                       \
    "json_build_object('job', j.job, 'state', " STATE ", 'wish', wish, 'created_at', created_at,"  \
    " 'created_by', created_by, 'reason', reason, 'filter', filter, 'options', options,"           \
    " 'rate', rate, 'total', total, 'sent', marked - refused, 'refused', refused,"                 \
    " 'came_back', " CAME_BACK ", 'detached', detached, 'runner', runner,"                         \
    " 'started_at', started_at, 'finished_at', finished_at, 'outcome', outcome)"

static int list(struct jobs *j)
{
    int code;
    int64_t limit = 50;
    const char *text = cli_value(j->args, "limit");
    bool json = wants_json(j->args, &code);
    struct rp_query q = {0};
    struct rp_error err;
    PGresult *result;
    if (text != NULL && (!rp_parse_int(text, &limit) || limit < 1)) {
        cli_error("--limit is a number from 1 on, not '%s'", text);
        code = CLI_USAGE;
    }
    if (code != CLI_OK)
        return code;
    rp_query_add(
        &q, json ? "SELECT " JSON
                 : "SELECT job, " STATE " AS state, " TIME(
                       "created_at") " AS planned,"
                                     " created_by AS by, total, marked - refused AS sent, "
                                     "refused, " CAME_BACK
                                     " AS came_back, coalesce(rate::text, 'none') AS rate, reason");
    rp_query_add(&q, " FROM replay_job AS j");
    if (cli_value(j->args, "open") != NULL)
        rp_query_add(&q, " WHERE finished_at IS NULL");
    rp_query_add(&q, " ORDER BY created_at DESC, job LIMIT ");
    rp_query_param_int(&q, limit);
    int failed = rp_query_run(&q, j->db, &result, &err);
    rp_query_clear(&q);
    if (failed != 0)
        return database_failed(&err);
    int n = PQntuples(result);
    if (json)
        print_json(result);
    else if (n > 0)
        table_print(stdout, result, 40);
    PQclear(result);
    return n > 0 ? CLI_OK : CLI_NOTHING;
}

/* The row of the job that the arguments name; NULL, and why is printed. */
static PGresult *ask_job(struct jobs *j, const char *sql, int *code)
{
    const char *values[] = {j->args->positional[0]};
    struct rp_error err;
    PGresult *result;
    *code = CLI_NOTHING;
    if (rp_db_query(j->db, sql, 1, values, &result, &err) != 0) {
        *code = database_failed(&err);
        return NULL;
    }
    if (PQntuples(result) == 1)
        return result;
    PQclear(result);
    cli_error("there is no replay '%s'", values[0]);
    return NULL;
}

static void print_fields(const PGresult *result)
{
    for (int column = 0; column < PQnfields(result); column++) {
        struct rp_buf line = {0};
        if (PQgetisnull(result, 0, column))
            continue;
        (void)term_line(&line, rp_str(PQgetvalue(result, 0, column)), 2000);
        (void)printf("%-12s %.*s\n", PQfname(result, column), (int)line.len,
                     line.data == NULL ? "" : (const char *)line.data);
        rp_buf_clear(&line);
    }
}

/* What became of what was sent, as far as anybody can see: no news is good news, after a while. */
static void print_success(struct jobs *j)
{
    int code;
    PGresult *r =
        ask_job(j,
                "SELECT w, sent, back, greatest(0, ceil(extract(epoch FROM until - now())))"
                "::bigint FROM (SELECT (options->>'success_within_ms')::bigint AS w,"
                " marked - refused AS sent, " CAME_BACK " AS back,"
                " coalesce(finished_at, now()) + (options->>'success_within_ms')::bigint"
                "  * interval '1 ms' AS until FROM replay_job AS j WHERE job = $1) AS x",
                &code);
    if (r == NULL)
        return;
    int64_t within = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    int64_t sent = strtoll(PQgetvalue(r, 0, 1), NULL, 10);
    int64_t back = strtoll(PQgetvalue(r, 0, 2), NULL, 10);
    int64_t left = strtoll(PQgetvalue(r, 0, 3), NULL, 10);
    char text[RP_UNIT_TEXT];
    (void)printf("%-12s %" PRId64 " of %" PRId64 " sent came back dead", "outcome", back, sent);
    if (within > 0 && left > 0)
        (void)printf("; known for all in %" PRId64 " s", left);
    else if (within > 0)
        (void)printf(" within %s: %" PRId64 " succeeded", rp_format_duration(within, text),
                     sent - back);
    (void)putchar('\n');
    PQclear(r);
}

static int show(struct jobs *j)
{
    int code;
    bool json = wants_json(j->args, &code);
    if (code != CLI_OK)
        return code;
    PGresult *r = ask_job(
        j,
        json ? "SELECT " JSON " FROM replay_job AS j WHERE job = $1"
             : "SELECT job, " STATE " AS state, CASE WHEN finished_at IS NULL AND wish <> 'run'"
               " THEN wish END AS wish, outcome AS because, " TIME(
                   "created_at") " AS planned,"
                                 " created_by AS by, reason, filter, options, coalesce(rate::text, "
                                 "'none') AS rate,"
                                 " total, marked - refused AS sent, refused, CASE WHEN detached "
                                 "THEN 'the archiver'"
                                 " ELSE 'the command line' END AS \"run by\", CASE WHEN " ALIVE
                                 " THEN runner END"
                                 " AS runner, " TIME("started_at") " AS started, " TIME(
                                     "finished_at") " AS finished"
                                                    " FROM replay_job AS j WHERE job = $1",
        &code);
    if (r == NULL)
        return code;
    if (json)
        print_json(r);
    else
        print_fields(r);
    PQclear(r);
    if (!json) {
        print_success(j);
        replay_print_refusals(stdout, j->db, j->args->positional[0]);
    }
    return CLI_OK;
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
    if (open)
        return CLI_OK;
    int code;
    PGresult *r =
        ask_job(j, "SELECT state, finished_at IS NOT NULL FROM replay_job WHERE job = $1", &code);
    if (r == NULL)
        return code;
    bool ended = PQgetvalue(r, 0, 1)[0] == 't';
    if (ended)
        cli_error("the replay has ended: %s", PQgetvalue(r, 0, 0));
    else
        cli_error("the replay %s is being cancelled", j->args->positional[0]);
    PQclear(r);
    return ended ? CLI_NOTHING : CLI_FAILED;
}

enum situation { S_RUN, S_UNRUN, S_PAUSED, S_ENDED, S_UNKNOWN };

static enum situation situation(struct jobs *j)
{
    int code;
    PGresult *r = ask_job(j,
                          "SELECT CASE WHEN finished_at IS NOT NULL THEN 3 WHEN " ALIVE
                          " THEN 0 WHEN state IN ('paused', 'failed') AND wish = 'pause' THEN 2"
                          " ELSE 1 END FROM replay_job WHERE job = $1",
                          &code);
    enum situation s = r == NULL ? S_UNKNOWN : (enum situation)(PQgetvalue(r, 0, 0)[0] - '0');
    PQclear(r);
    return s;
}

static int print_state(struct jobs *j)
{
    int code;
    PGresult *r = ask_job(j,
                          "SELECT format('Replay %s: %s. %s of %s sent, %s refused.', job, " STATE
                          ", marked - refused, total, refused) FROM replay_job WHERE job = $1",
                          &code);
    if (r == NULL)
        return code;
    (void)printf("%s\n", PQgetvalue(r, 0, 0));
    PQclear(r);
    return CLI_OK;
}

/* Waits until what was wished is done: by the job's runner, or, where it has none, by us. */
static int see_it_done(struct jobs *j)
{
    for (int64_t until = rp_mono_ms() + PATIENCE_MS; rp_mono_ms() < until;) {
        enum situation s = situation(j);
        if (s == S_PAUSED || s == S_ENDED)
            return print_state(j);
        if (s == S_UNKNOWN)
            return CLI_FAILED;
        int code = s == S_UNRUN ? replay_settle_here(j->config, j->args->positional[0]) : CLI_OK;
        if (code == CLI_FAILED)
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
    return code == CLI_OK ? see_it_done(j) : code;
}

static int cancel_job(struct jobs *j)
{
    int code =
        wish(j, "replay-cancel-wished",
             "outcome = CASE wish WHEN 'cancel' THEN outcome END, wish = 'cancel'", NULL, "");
    return code == CLI_OK ? see_it_done(j) : code;
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
    if (s == S_RUN)
        cli_error("the replay %s is running", j->args->positional[0]);
    return s == S_RUN || s == S_UNKNOWN ? CLI_FAILED : CLI_OK;
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
    PGresult *r = ask_job(j,
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
                detached ? "true" : "false", " AND wish <> 'cancel'");
    if (code != CLI_OK)
        return code;
    if (!detached)
        return replay_run_here(j->config, j->db, job);
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

static int run_list(const struct cli_args *args)
{
    return with_jobs(args, list);
}

static int run_show(const struct cli_args *args)
{
    return with_jobs(args, show);
}

static int run_pause(const struct cli_args *args)
{
    return with_jobs(args, pause_job);
}

static int run_resume(const struct cli_args *args)
{
    return with_jobs(args, resume_job);
}

static int run_cancel(const struct cli_args *args)
{
    return with_jobs(args, cancel_job);
}

static int run_rate(const struct cli_args *args)
{
    return with_jobs(args, set_rate);
}

#define FORMAT                                                                                     \
    {                                                                                              \
        .name = "format", .value = "FORMAT", .help = "table (default), or json"                    \
    }
#define WHO                                                                                        \
    {.name = "reason", .value = "TEXT", .help = "why, for the audit"},                             \
    {                                                                                              \
        .name = "as", .value = "NAME", .help = "who, for the audit (default: the system's user)"   \
    }

static const struct cli_option list_options[] = {
    {.name = "open", .help = "only those that have not ended"},
    {.name = "limit", .value = "N", .help = "so many at most (default: 50)"},
    FORMAT,
    {0},
};
static const struct cli_option show_options[] = {FORMAT, {0}};
static const struct cli_option wish_options[] = {WHO, {0}};
static const struct cli_option resume_options[] = {
    WHO,
    {.name = "detach", .help = "let the archiver go on with it"},
    {.name = "here", .help = "go on with it here, also where the archiver had it"},
    {0},
};

const struct cli_command cmd_replay_list = {
    .group = "replay",
    .name = "list",
    .summary = "Lists replays, the newest first.",
    .about = "States: running; waiting (for an archiver); abandoned (its runner died: resume or\n"
             "cancel it); paused; failed (resume or cancel it); done; cancelled; stopped (too\n"
             "much came back dead).",
    .options = list_options,
    .run = run_list,
};

const struct cli_command cmd_replay_show = {
    .group = "replay",
    .name = "show",
    .positional = "JOB",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Shows a replay: how far it is, what was refused and why, what came back dead.",
    .options = show_options,
    .run = run_show,
};

const struct cli_command cmd_replay_pause = {
    .group = "replay",
    .name = "pause",
    .positional = "JOB",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Pauses a replay, wherever it runs.",
    .options = wish_options,
    .run = run_pause,
};

const struct cli_command cmd_replay_resume = {
    .group = "replay",
    .name = "resume",
    .positional = "JOB",
    .min_positional = 1,
    .max_positional = 1,
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
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Ends a replay; what it did not send is as before.",
    .options = wish_options,
    .run = run_cancel,
};

const struct cli_command cmd_replay_rate = {
    .group = "replay",
    .name = "rate",
    .positional = "JOB RATE",
    .min_positional = 2,
    .max_positional = 2,
    .summary = "Sets how many tasks a second a replay sends, or none for no limit.",
    .options = wish_options,
    .run = run_rate,
};
