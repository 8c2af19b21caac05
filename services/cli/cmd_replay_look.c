/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "query.h"
#include "replay_jobs.h"
#include "replay_watch.h"
#include "table.h"
#include "term.h"
#include "units.h"

#define CAME_BACK                                                                                  \
    "(SELECT count(*) FROM dead_letter AS d WHERE d.replay_job = j.job"                            \
    " AND d.dead_at > j.created_at - interval '1 hour')"
#define TIME(column) "to_char(" column ", 'YYYY-MM-DD HH24:MI:SS')"

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
    cli_tell_limit(n, limit);
    if (n > 0)
        return CLI_OK;
    cli_error(cli_value(j->args, "open") != NULL ? "no replay is open" : "there are no replays");
    return CLI_NOTHING;
}

static void print_fields(const PGresult *result)
{
    for (int column = 0; column < PQnfields(result); column++) {
        if (PQgetisnull(result, 0, column))
            continue;
        (void)printf("%-12s ", PQfname(result, column));
        term_print(stdout, rp_str(PQgetvalue(result, 0, column)), 2000);
        (void)putchar('\n');
    }
}

/* What became of what was sent, as far as anybody can see: no news is good news, after a while. */
static void print_success(struct jobs *j)
{
    int code;
    PGresult *r =
        jobs_ask(j,
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
    PGresult *r = jobs_ask(
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

static int run_list(const struct cli_args *args)
{
    return jobs_with(args, list);
}

static int run_show(const struct cli_args *args)
{
    return jobs_with(args, show);
}

#define FORMAT                                                                                     \
    {                                                                                              \
        .name = "format", .value = "FORMAT", .help = "table (default), or json"                    \
    }

static const struct cli_option list_options[] = {
    {.name = "open", .help = "only those that have not ended"},
    {.name = "limit", .value = "N", .help = "so many at most (default: 50)"},
    FORMAT,
    {0},
};
static const struct cli_option show_options[] = {FORMAT, {0}};

const struct cli_command cmd_replay_list = {
    .group = "replay",
    .name = "list",
    .summary = "Lists replays, the newest first.",
    .about = "States: running; waiting (for an archiver); abandoned (its runner died: resume or\n"
             "cancel it); paused; failed (resume or cancel it); done; cancelled; stopped (too\n"
             "much came back dead). While one runs, what is sent is counted when it is marked: 5 s\n"
             "later, or half a second where the job has a rate.",
    .options = list_options,
    .run = run_list,
};

const struct cli_command cmd_replay_show = {
    .group = "replay",
    .name = "show",
    .positional = "JOB",
    .summary = "Shows a replay: how far it is, what was refused and why, what came back dead.",
    .options = show_options,
    .run = run_show,
};
