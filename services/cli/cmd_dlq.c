/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "database.h"
#include "dlq_query.h"
#include "table.h"
#include "term.h"
#include "units.h"

#define DEFAULT_LIMIT "50"
#define MAX_CELL      40

static const char *read_limit(const struct cli_args *args)
{
    const char *limit = cli_value(args, "limit");
    int64_t n;
    if (limit == NULL)
        return DEFAULT_LIMIT;
    if (rp_parse_int(limit, &n) && n > 0)
        return limit;
    cli_error("--limit is a number from 1 on, not '%s'", limit);
    return NULL;
}

static int print(PGresult *result, enum dlq_format format)
{
    int n = PQntuples(result);
    if (format == DLQ_JSON)
        dlq_json_print(result);
    else if (n > 0)
        table_print(stdout, result, MAX_CELL);
    PQclear(result);
    return n > 0 ? CLI_OK : CLI_NOTHING;
}

static int list(const struct cli_args *args, struct rp_db *db)
{
    enum dlq_format format = dlq_format_read(args);
    const char *limit = read_limit(args);
    struct dlq_query q = {0};
    PGresult *result;
    if (format == DLQ_BAD || limit == NULL)
        return CLI_USAGE;
    dlq_query_add(&q, "SELECT ");
    dlq_query_add(&q, format == DLQ_JSON
                          ? dlq_json
                          : "d.id, to_char(d.dead_at, 'YYYY-MM-DD HH24:MI:SS') AS died, d.reason,"
                            " d.task_type AS type, d.task_id AS task, d.attempts,"
                            " coalesce(d.error_class || ': ' || left(d.error_message, 300),"
                            "  d.detail) AS error");
    dlq_query_add(&q, " FROM dead_letter AS d");
    int code = dlq_query_filter(&q, args);
    dlq_query_add(&q, " ORDER BY d.dead_at DESC, d.id DESC LIMIT ");
    dlq_query_add(&q, limit);
    if (code != CLI_OK) {
        dlq_query_clear(&q);
        return code;
    }
    code = dlq_query_run(&q, db, &result);
    return code == CLI_OK ? print(result, format) : code;
}

static int stats(const struct cli_args *args, struct rp_db *db)
{
    enum dlq_format format = dlq_format_read(args);
    struct dlq_query q = {0};
    PGresult *result;
    if (format == DLQ_BAD)
        return CLI_USAGE;
    dlq_query_add(&q, format == DLQ_JSON ? "SELECT row_to_json(s) FROM (" : "SELECT * FROM (");
    dlq_query_add(&q, "SELECT count(*), d.task_type AS type, d.reason, d.category,"
                      " to_char(min(d.dead_at), 'YYYY-MM-DD HH24:MI:SS') AS first,"
                      " to_char(max(d.dead_at), 'YYYY-MM-DD HH24:MI:SS') AS last"
                      " FROM dead_letter AS d");
    int code = dlq_query_filter(&q, args);
    dlq_query_add(&q, " GROUP BY d.task_type, d.reason, d.category"
                      " ORDER BY count(*) DESC, d.task_type, d.reason, d.category) AS s");
    if (code != CLI_OK) {
        dlq_query_clear(&q);
        return code;
    }
    code = dlq_query_run(&q, db, &result);
    return code == CLI_OK ? print(result, format) : code;
}

static int run_list(const struct cli_args *args)
{
    return database_run(args, list);
}

static int run_stats(const struct cli_args *args)
{
    return database_run(args, stats);
}

static const struct cli_option list_options[] = {
    DLQ_FILTER_OPTIONS,
    {.name = "limit", .value = "N", .help = "so many at most (default: " DEFAULT_LIMIT ")"},
    {.name = "format", .value = "FORMAT", .help = "table (default), or json: an object a line"},
    {0},
};

static const struct cli_option stats_options[] = {
    DLQ_FILTER_OPTIONS,
    {.name = "format", .value = "FORMAT", .help = "table (default), or json: an object a line"},
    {0},
};

const struct cli_command cmd_dlq_list = {
    .group = "dlq",
    .name = "list",
    .summary = "Lists dead letters, the newest first.",
    .about =
        "Times are UTC. The objects of --format json have all that is known of a dead letter;\n"
        "their `task` is an event that `reprise fail -` takes.",
    .options = list_options,
    .run = run_list,
};

const struct cli_command cmd_dlq_stats = {
    .group = "dlq",
    .name = "stats",
    .summary = "Counts dead letters by type, reason and category.",
    .options = stats_options,
    .run = run_stats,
};
