/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "database.h"
#include "dlq.h"
#include "pager.h"
#include "term.h"

#define DEFAULT_LIMIT      20
#define DEFAULT_LIMIT_TEXT "20"
#define DEFAULT_HOURS      24
#define DEFAULT_HOURS_TEXT "24"
#define MAX_HOURS          168
#define INDENT             "    "
#define MAX_LINE           200

#define TIME(time, form) "to_char(" time ", '" form "')"
#define SHOWN            "YYYY-MM-DD HH24:MI"
#define ISO              "YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\""

/* `hours` is the parameter that says how many hours the trend has. */
static void add_question(struct dlq *d, struct rp_query *q, int64_t limit, int64_t hours)
{
    rp_query_add(q, "WITH c AS MATERIALIZED ");
    dlq_add_counts(d, q);
    rp_query_add(q,
                 ", h AS (SELECT date_trunc('hour', now(), 'UTC') - n * interval '1 hour' AS hour"
                 " FROM generate_series(0, ");
    rp_query_param_int(q, hours - 1);
    rp_query_add(q, "::integer) AS n), g AS (SELECT fingerprint, sum(n)::bigint AS count,"
                    " coalesce(sum(n) FILTER (WHERE status = 'dead'), 0)::bigint AS dead,"
                    " coalesce(sum(n) FILTER (WHERE status = 'replaying'), 0)::bigint AS replaying,"
                    " coalesce(sum(n) FILTER (WHERE status = 'replayed'), 0)::bigint AS replayed,"
                    " coalesce(sum(n) FILTER (WHERE status = 'discarded'), 0)::bigint AS discarded,"
                    " sum(came_back)::bigint AS came_back,"
                    " min(first_at) AS first, max(last_at) AS last,"
                    " max(hour) FILTER (WHERE n > 0) AS last_hour"
                    " FROM c GROUP BY fingerprint HAVING sum(n) > 0"
                    " ORDER BY sum(n) DESC, fingerprint LIMIT ");
    rp_query_param_int(q, limit);
    rp_query_add(q,
                 "), b AS (SELECT fingerprint, hour, sum(n)::bigint AS n FROM c"
                 " WHERE hour >= (SELECT min(hour) FROM h) GROUP BY fingerprint, hour),"
                 " t AS (SELECT g.fingerprint, array_agg(coalesce(b.n, 0) ORDER BY h.hour) AS trend"
                 " FROM g CROSS JOIN h LEFT JOIN b"
                 " ON b.fingerprint = g.fingerprint AND b.hour = h.hour GROUP BY g.fingerprint)"
                 " SELECT lpad(to_hex(g.fingerprint), 16, '0') AS group, g.*, t.trend,"
                 " coalesce(e.task_type, s.task_type) AS type,"
                 " coalesce(e.error_class, s.error_class) AS class,"
                 " coalesce(e.message, left(coalesce(s.error_message, s.detail), 1000)) AS message,"
                 " s.id AS sample_id,"
                 " left(coalesce(s.error_message, s.detail), 1000) AS sample_message"
                 " FROM g JOIN t USING (fingerprint) LEFT JOIN error_group AS e"
                 " ON e.fingerprint = g.fingerprint AND e.fingerprint <> 0"
                 " LEFT JOIN LATERAL (SELECT d.dead_at, d.id FROM ");
    rp_filter_source(d->filter, q);
    rp_query_add(q, " WHERE d.fingerprint = g.fingerprint AND d.dead_at >= g.last_hour"
                    " AND d.dead_at < g.last_hour + interval '1 hour' AND ");
    dlq_add_filter(d, q);
    rp_query_add(q, " ORDER BY d.dead_at DESC, d.id DESC LIMIT 1) AS p ON true"
                    " LEFT JOIN LATERAL (SELECT * FROM dead_letter AS l WHERE l.dead_at = p.dead_at"
                    " AND l.id = p.id LIMIT 1) AS s ON true"
                    " ORDER BY g.count DESC, g.fingerprint");
}

static const char as_json[] =
    "SELECT json_build_object('group', a.group, 'count', count, 'dead', dead,"
    " 'replaying', replaying, 'replayed', replayed, 'discarded', discarded,"
    " 'came_back', came_back, 'first', " TIME("first", ISO) ", 'last', " TIME(
        "last",
        ISO) ","
             " 'trend', trend, 'type', type, 'class', class, 'message', message,"
             " 'sample', json_build_object('id', sample_id, 'message', sample_message)) FROM (";

static const char as_wide[] =
    "SELECT a.group, count, dead, replaying, replayed, discarded, came_back, " TIME(
        "first", SHOWN) " AS first, " TIME("last", SHOWN) " AS last, type, class,"
                                                          " sample_id AS sample, message FROM (";

static const char as_blocks[] =
    "SELECT a.group, count, dead, replaying, replayed, discarded, came_back, " TIME(
        "first", SHOWN) " AS first, " TIME("last", SHOWN) " AS last,"
                                                          " array_to_string(trend, ' ') AS trend, "
                                                          "type, class, sample_id, message FROM (";

enum {
    GROUP,
    COUNT,
    DEAD,
    REPLAYING,
    REPLAYED,
    DISCARDED,
    CAME_BACK,
    FIRST,
    LAST,
    TREND,
    TYPE,
    CLASS,
    SAMPLE,
    MESSAGE
};

static struct rp_bytes cell(const PGresult *r, int row, int column)
{
    return (struct rp_bytes){PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column)};
}

static void print_trend(FILE *out, const char *text)
{
    int64_t values[MAX_HOURS];
    size_t n = 0;
    struct rp_buf chart = {0};
    char *end = NULL;
    for (const char *p = text; *p != '\0' && n < MAX_HOURS; p = end)
        values[n++] = strtoll(p, &end, 10);
    chart_append(&chart, values, n, chart_unicode());
    (void)fputc('|', out);
    term_put(out, &chart);
    (void)fputc('|', out);
    rp_buf_clear(&chart);
}

static void print_share(FILE *out, const PGresult *r, int row, int column, const char *what)
{
    int64_t part = database_number(r, row, column), all = database_number(r, row, COUNT);
    if (part > 0)
        (void)fprintf(out, ", %s %s%" PRId64 "%%", what, part * 100 < all ? "<" : "",
                      part * 100 < all ? 1 : part * 100 / all);
}

/* What became of those that were replayed. */
static void print_shares(FILE *out, const PGresult *r, int row)
{
    int64_t back = database_number(r, row, CAME_BACK), replayed = database_number(r, row, REPLAYED);
    print_share(out, r, row, REPLAYING, "replaying");
    print_share(out, r, row, REPLAYED, "replayed");
    if (back > 0 && replayed > 0)
        (void)fprintf(out, " (%" PRId64 "%% of it came back)",
                      back > replayed ? 100 : back * 100 / replayed);
    print_share(out, r, row, DISCARDED, "discarded");
}

/* One line of texts that came from outside. */
static void print_text(FILE *out, const PGresult *r, int row, size_t max)
{
    struct rp_buf line = {0};
    bool undecodable = PQgetisnull(r, row, TYPE);
    (void)term_line(&line, undecodable ? rp_str("(no task)") : cell(r, row, TYPE), 40);
    (void)term_line(&line, rp_str("  "), 2);
    if (!PQgetisnull(r, row, CLASS)) {
        (void)term_line(&line, cell(r, row, CLASS), 80);
        (void)term_line(&line, rp_str(": "), 2);
    }
    size_t before = line.len < max ? max - line.len : 20; /* bytes for characters: near enough */
    (void)term_line(&line, cell(r, row, MESSAGE), before);
    (void)fputs(INDENT, out);
    term_put(out, &line);
    (void)fputc('\n', out);
    rp_buf_clear(&line);
}

static void print_group(FILE *out, const PGresult *r, int row, size_t width, bool colours)
{
    char count[RP_UNIT_TEXT];
    (void)fprintf(out, "%s%s%s %10s  ", colours ? TERM_BOLD : "", PQgetvalue(r, row, GROUP),
                  colours ? TERM_PLAIN : "", dlq_count_text(database_number(r, row, COUNT), count));
    print_trend(out, PQgetvalue(r, row, TREND));
    (void)fprintf(out, "  %s to %s\n", PQgetvalue(r, row, FIRST), PQgetvalue(r, row, LAST));
    print_text(out, r, row, width > sizeof INDENT ? width - sizeof INDENT : MAX_LINE);
    (void)fprintf(out, INDENT "sample %s, dead %s", PQgetvalue(r, row, SAMPLE),
                  dlq_count_text(database_number(r, row, DEAD), count));
    print_shares(out, r, row);
    (void)fputc('\n', out);
}

static int print_blocks(const PGresult *result, int64_t hours)
{
    size_t width = term_width(stdout);
    FILE *out = pager_open();
    bool colours = term_colours();
    (void)fprintf(out, "GROUP                 COUNT  TREND OF %" PRId64 " H, FIRST TO LAST (UTC)\n",
                  hours);
    for (int row = 0; row < PQntuples(result); row++)
        print_group(out, result, row, width, colours);
    return pager_close(out);
}

static int groups(struct dlq *d)
{
    struct rp_query q = {0};
    PGresult *result;
    int64_t limit = dlq_number(d->args, "limit", DEFAULT_LIMIT);
    int64_t hours = dlq_number(d->args, "hours", DEFAULT_HOURS);
    if (limit == 0 || hours == 0)
        return CLI_USAGE;
    if (hours > MAX_HOURS) {
        cli_error("--hours goes to %d", MAX_HOURS);
        return CLI_USAGE;
    }
    rp_query_add(&q, d->form == DLQ_FORM_JSON   ? as_json
                     : d->form == DLQ_FORM_WIDE ? as_wide
                                                : as_blocks);
    add_question(d, &q, limit, hours);
    rp_query_add(&q, ") AS a ORDER BY a.count DESC, a.group");
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    int n = PQntuples(result);
    if (d->form != DLQ_FORM_TABLE) {
        code = dlq_print(d, result);
    } else {
        code = n > 0 ? print_blocks(result, hours) : dlq_nothing();
        PQclear(result);
    }
    cli_tell_limit(n, limit);
    return code;
}

static int run(const struct cli_args *args)
{
    return dlq_run(args, groups);
}

static const struct cli_option options[] = {
    FILTER_OPTIONS,
    DLQ_FORMAT_OPTION,
    {.name = "limit", .value = "N", .help = "the largest N (default: " DEFAULT_LIMIT_TEXT ")"},
    {.name = "hours", .value = "N", .help = "of the trend (default: " DEFAULT_HOURS_TEXT ")"},
    {0},
};

const struct cli_command cmd_dlq_groups = {
    .group = "dlq",
    .name = "groups",
    .summary = "Groups dead letters that are alike.",
    .about = "A group is a task type, an error class and a message, but for its numbers, ids and\n"
             "quoted strings. Shown are how many there are, when they died, a sample for\n"
             "`reprise dlq show`, and what became of those that were replayed. All commands take\n"
             "--group with the first digits of one; discard, purge and replay want them to be\n"
             "those of one alone.",
    .options = options,
    .run = run,
};
