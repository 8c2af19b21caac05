/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "dlq.h"

/* What can be counted by. */
static const struct {
    const char *name, *sql;
} keys[] = {
    {"type", "task_type"},
    {"reason", "reason"},
    {"category", "category"},
    {"status", "status"},
    {"group", "lpad(to_hex(fingerprint), 16, '0')"},
    {"hour", "to_char(hour, 'YYYY-MM-DD HH24:00')"},
    {"day", "to_char(hour, 'YYYY-MM-DD')"},
};
#define N_KEYS      (sizeof keys / sizeof *keys)
#define DEFAULT_KEY "type,reason,category"

/* The places in `keys` of a list of names; how many, 0 where one is no key, which is printed. */
static size_t read_keys(const char *text, size_t places[N_KEYS])
{
    size_t n = 0;
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ","), i = 0;
        while (i < N_KEYS && (strlen(keys[i].name) != len || memcmp(keys[i].name, p, len) != 0))
            i++;
        for (size_t before = 0; i < N_KEYS && before < n; before++)
            i = places[before] == i ? N_KEYS : i;
        if (i == N_KEYS) {
            cli_error("--by takes type, reason, category, status, group, hour and day, each once,"
                      " with commas between; not '%s'",
                      text);
            return 0;
        }
        places[n++] = i;
        p += len;
        if (*p == '\0')
            return n;
    }
}

static void add_keys(struct rp_query *q, const size_t *places, size_t n, bool select)
{
    for (size_t i = 0; i < n; i++) {
        rp_query_add(q, i > 0 || select ? ", " : "");
        rp_query_add(q, keys[places[i]].sql);
        rp_query_add(q, select ? " AS " : "");
        rp_query_add(q, select ? keys[places[i]].name : "");
    }
}

/* Times in their order, all else by how much there is of it. */
static void add_order(struct rp_query *q, const size_t *places, size_t n)
{
    bool timed = false;
    for (size_t i = 0; i < n; i++)
        timed = timed || strcmp(keys[places[i]].name, "hour") == 0 ||
                strcmp(keys[places[i]].name, "day") == 0;
    rp_query_add(q, timed ? " ORDER BY min(hour), " : " ORDER BY ");
    rp_query_add(q, "sum(n) DESC, ");
    add_keys(q, places, n, false);
}

static const char sums[] =
    "SELECT sum(n)::bigint AS count,"
    " coalesce(sum(n) FILTER (WHERE status = 'dead'), 0)::bigint AS dead,"
    " coalesce(sum(n) FILTER (WHERE status = 'replaying'), 0)::bigint AS replaying,"
    " coalesce(sum(n) FILTER (WHERE status = 'replayed'), 0)::bigint AS replayed,"
    " coalesce(sum(n) FILTER (WHERE status = 'discarded'), 0)::bigint AS discarded,"
    " sum(came_back)::bigint AS came_back";

static int stats(struct dlq *d)
{
    struct rp_query q = {0};
    size_t places[N_KEYS];
    PGresult *result;
    const char *by = cli_value(d->args, "by");
    size_t n = read_keys(by == NULL ? DEFAULT_KEY : by, places);
    if (n == 0)
        return CLI_USAGE;
    rp_query_add(&q, d->form == DLQ_FORM_JSON ? "SELECT row_to_json(s) FROM (" : "SELECT * FROM (");
    rp_query_add(&q, sums);
    add_keys(&q, places, n, true);
    if (d->form != DLQ_FORM_TABLE)
        rp_query_add(&q, ", to_char(min(first_at), 'YYYY-MM-DD HH24:MI:SS') AS first,"
                         " to_char(max(last_at), 'YYYY-MM-DD HH24:MI:SS') AS last");
    rp_query_add(&q, " FROM ");
    dlq_add_counts(d, &q);
    rp_query_add(&q, " AS c GROUP BY ");
    add_keys(&q, places, n, false);
    rp_query_add(&q, " HAVING sum(n) > 0");
    add_order(&q, places, n);
    rp_query_add(&q, ") AS s");
    int code = dlq_query_ask(d, &q, &result);
    return code == CLI_OK ? dlq_print(d, result) : code;
}

static int count(struct dlq *d)
{
    struct rp_query q = {0};
    PGresult *result;
    rp_query_add(&q, "SELECT coalesce(sum(n), 0)::bigint FROM ");
    dlq_add_counts(d, &q);
    rp_query_add(&q, " AS c");
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    (void)printf("%s\n", PQgetvalue(result, 0, 0));
    code = strcmp(PQgetvalue(result, 0, 0), "0") == 0 ? CLI_NOTHING : CLI_OK;
    PQclear(result);
    return code;
}

static int run_stats(const struct cli_args *args)
{
    return dlq_run(args, stats);
}

static int run_count(const struct cli_args *args)
{
    return dlq_run(args, count);
}

static const struct cli_option stats_options[] = {
    FILTER_OPTIONS,
    DLQ_FORMAT_OPTION,
    {.name = "by",
     .value = "KEYS",
     .help = "type, reason, category, status, group, hour, day (default: " DEFAULT_KEY ")"},
    {0},
};

static const struct cli_option count_options[] = {FILTER_OPTIONS, {0}};

const struct cli_command cmd_dlq_stats = {
    .group = "dlq",
    .name = "stats",
    .summary = "Counts dead letters by type, reason and category, or by other things.",
    .about = "--by hour and --by day count over time. Times are UTC; --format wide says when the\n"
             "first and the last died.",
    .options = stats_options,
    .run = run_stats,
};

const struct cli_command cmd_dlq_count = {
    .group = "dlq",
    .name = "count",
    .summary = "Prints how many dead letters there are.",
    .options = count_options,
    .run = run_count,
};
