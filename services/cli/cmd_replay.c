/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "consent.h"
#include "database.h"
#include "filter_args.h"
#include "group_prefix.h"
#include "replay_args.h"
#include "replay_preview.h"
#include "replay_watch.h"

#define CONNECT_MS 60000

struct replay {
    const struct cli_args *args;
    struct rp_config *config;
    struct rp_db *db;
    struct rp_replay_options options;
    struct rp_replay_request request;
    char shown_at[40];
};

static int connect(struct replay *r)
{
    struct rp_error err;
    return rp_db_open(r->config->postgres.dsn, "reprise", CONNECT_MS, &r->db, &err) == 0 &&
                   database_no_hurry(r->db, &err) == 0
               ? CLI_OK
               : database_failed(&err);
}

static int act(struct replay *r)
{
    char job[RP_REPLAY_ID_SIZE];
    int64_t total = 0;
    struct rp_error err;
    if (rp_replay_plan(r->db, &r->request, job, &total, &err) != 0 &&
        replay_find_planned(r->config, r->db, job, &total) != 0)
        return database_refused(&err);
    if (total == 0) {
        cli_error("nothing to replay any more: somebody else has it");
        return CLI_NOTHING;
    }
    if (!r->request.detached) {
        (void)fprintf(stderr, "Replay %s: %" PRId64 " dead letters. Ctrl-C pauses it.\n", job,
                      total);
        return replay_run_here(r->config, job);
    }
    (void)printf("Replay %s: %" PRId64 " dead letters, handed to the archiver.\n"
                 "How it goes: reprise replay show %s\n",
                 job, total, job);
    return CLI_OK;
}

/* What is archived from now on is not shown, so it is not replayed. */
static int note_time(struct replay *r)
{
    struct rp_error err;
    PGresult *result;
    if (rp_db_query(r->db, RP_QUERY_SEEN_UNTIL, 0, NULL, &result, &err) != 0)
        return database_refused(&err);
    (void)snprintf(r->shown_at, sizeof r->shown_at, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    r->request.archived_by = r->shown_at;
    return CLI_OK;
}

/* Of those that match, a replay takes the same ones as this (replay_plan.c). */
static int check_groups(struct replay *r)
{
    bool any = rp_filter_names(r->request.filter, "status");
    return group_prefix_check(r->db, r->request.filter,
                              any ? "g.status <> 'replaying'" : "g.status = 'dead'");
}

static int ask_and_act(struct replay *r)
{
    int64_t total = 0;
    char question[80];
    int code = note_time(r);
    if (code == CLI_OK)
        code = check_groups(r);
    if (code == CLI_OK)
        code = replay_preview(r->config, r->db, &r->request, &total);
    if (code != CLI_OK || cli_value(r->args, "dry-run") != NULL)
        return code;
    (void)putchar('\n');
    (void)snprintf(question, sizeof question, "Replay %" PRId64 " dead letters?", total);
    code = consent_ask(r->args, question);
    r->request.shown = consent_shown(r->args, total);
    return code == CLI_OK ? act(r) : code;
}

static int with_filter(struct replay *r)
{
    struct rp_filter *filter;
    int code = filter_read(r->args, &filter);
    if (code != CLI_OK)
        return code;
    if (rp_filter_is_empty(filter)) {
        cli_error("say which ones: a filter, or --where all");
        code = CLI_USAGE;
    } else if (connect(r) != CLI_OK) {
        code = CLI_FAILED;
    } else if ((code = filter_check(r->args, r->db, &filter)) == CLI_OK) {
        r->request.filter = filter;
        code = ask_and_act(r);
    }
    rp_db_close(r->db);
    rp_filter_free(filter);
    return code;
}

static int run(const struct cli_args *args)
{
    struct replay r = {.args = args};
    int code = replay_args_read(args, &r.options, &r.request.rate);
    if (code != CLI_OK)
        return code;
    r.request.options = &r.options;
    r.request.actor = consent_actor(args);
    r.request.reason = cli_value(args, "reason");
    r.request.detached = cli_value(args, "detach") != NULL;
    if (consent_reason(args) != CLI_OK) {
        code = CLI_USAGE;
    } else if ((r.config = cli_config_load(args)) == NULL) {
        code = CLI_USAGE;
    } else {
        code = with_filter(&r);
    }
    rp_config_free(r.config);
    rp_replay_options_clear(&r.options);
    return code;
}

static const struct cli_option options[] = {
    FILTER_OPTIONS_TO_ACT,
    REPLAY_OPTIONS,
    CONSENT_OPTIONS,
    {.name = "detach", .help = "let the archiver do it"},
    {0},
};

const struct cli_command cmd_dlq_replay = {
    .group = "dlq",
    .name = "replay",
    .summary = "Sends the tasks of dead letters again, each exactly once.",
    .about =
        "Shows what would be done and asks. A replay is a job: `reprise replay` lists, pauses,\n"
        "resumes and cancels jobs, and changes their rate, from any terminal. Ctrl-C pauses it.\n"
        "A job that is killed can be resumed; what it sent already it does not send again.\n\n"
        "Two jobs never have the same dead letter. Those that were replayed before are left out,\n"
        "unless the filter names a status. Those that cannot be sent are refused, and stay "
        "dead.\n\n"
        "A replay does not count from 1 again. --to target is one execution, with the next\n"
        "attempt's number and the time of the first failure as it was; where it fails, the policy\n"
        "decides by these. So what was EXHAUSTED or DEADLINE_EXCEEDED is dead again after one\n"
        "failure, and with --to router at once, without an execution, while its policy is as it\n"
        "was (where that has a fallback, it is tried once more). To give it more, raise\n"
        "max_attempts or deadline first.\n\n"
        "Canaries are waited for until their outcome is known (others go in the place of those\n"
        "that are refused): when --canary-wait is over and archivers have read all that died\n"
        "until then (no news is good news), or before that where more than --canary-share of\n"
        "them came back dead, which stops the job at once, or where all of them did and the share\n"
        "allows it. So --canary-wait must be longer than the handler takes to fail (its time-out)\n"
        "plus the delays that the policy has left.\n\n"
        "A job that fails (a column or a permission is missing in the database, a program does "
        "not\n"
        "load) marks what it sent and rests: mend it and resume, or cancel. While brokers or\n"
        "database are away it waits.\n\n"
        "Exit codes: 0 all were sent; 4 nothing matched; 5 some were sent, or may have been\n"
        "(paused, cancelled, stopped, failed on its way, or some refused); 6 nobody said yes;\n"
        "1 it failed, none was sent; 2 usage.",
    .options = options,
    .run = run,
};
