/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "archive_json.h"
#include "dlq.h"
#include "iso8601.h"
#include "pager.h"
#include "payload.h"
#include "shell_words.h"
#include "table.h"
#include "term.h"

#define DEFAULT_LIMIT      50
#define DEFAULT_LIMIT_TEXT "50"
#define MAX_CELL           40
/* Of a payload that is shown as `auto`: more than it shows, so that it sees that there is more. */
#define AUTO_FETCHED "65536"
/* Objects of JSON that are held in memory at once, and about how many bytes of them, if it is not a
 * single one. */
#define JSON_BATCH 1000
#define JSON_BYTES "8388608"
/* A terminal of fewer columns has no room for all of a list. */
#define NARROW 120

#define DIED "to_char(d.dead_at, 'YYYY-MM-DD HH24:MI:SS') AS died"
#define ERROR                                                                                      \
    "coalesce(d.error_class || ': ' || left(d.error_message, 300), left(d.detail, 300)) AS error"
/* Where the next page begins. */
#define CURSOR       "to_char(d.dead_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') || '/' || d.id AS cursor"
#define NEWEST_FIRST "ORDER BY d.dead_at DESC, d.id DESC"

/* Where there is no room for all, the error is worth more than the task's id. */
static const char *columns(enum dlq_form form, size_t width)
{
    if (form == DLQ_FORM_WIDE)
        return "d.id, " DIED ", d.status, d.reason, d.category, d.policy, d.task_type AS type,"
               " d.task_id AS task, d.target, d.attempts, d.replays,"
               " lpad(to_hex(d.fingerprint), 16, '0') AS group, d.source, " ERROR;
    if (width > 0 && width < NARROW)
        return "d.id, " DIED ", d.status, d.reason, d.task_type AS type, " ERROR;
    return "d.id, " DIED ", d.status, d.reason, d.task_type AS type, d.task_id AS task,"
           " d.attempts, " ERROR;
}

struct cursor {
    char time[40], id[RP_UNIT_TEXT];
};

static bool parse_cursor(const char *text, struct cursor *out)
{
    const char *slash = strrchr(text, '/');
    int64_t id, ms;
    if (slash == NULL || (size_t)(slash - text) >= sizeof out->time ||
        !rp_iso8601_parse((struct rp_bytes){text, (size_t)(slash - text)}, &ms) ||
        !rp_parse_int(slash + 1, &id))
        return false;
    (void)snprintf(out->time, sizeof out->time, "%.*s", (int)(slash - text), text);
    (void)rp_format_int(id, out->id);
    return true;
}

static int read_cursor(const struct cli_args *args, struct cursor *out)
{
    const char *text = cli_value(args, "before");
    out->time[0] = '\0';
    if (text == NULL || parse_cursor(text, out))
        return CLI_OK;
    cli_error("--before takes what an earlier list gave, not '%s'", text);
    return CLI_USAGE;
}

/* How to go on, for who sees it. */
static void print_next(const struct dlq *d, const char *cursor)
{
    (void)fputs("more: ", stderr);
    shell_words_print(stderr, d->args, "before");
    (void)fprintf(stderr, " --before %s\n", cursor);
}

static void add_rows(const struct dlq *d, const struct cursor *cursor, int64_t limit,
                     struct rp_query *q)
{
    bool begun = cursor->time[0] != '\0';
    rp_query_add(q, " FROM (");
    if (rp_filter_list_sql(d->filter, begun ? cursor->time : NULL, begun ? cursor->id : NULL, limit,
                           q, NULL) != 0)
        q->failed = true;
    /* The limit keeps PostgreSQL from joining all of the archive with a page of it. */
    rp_query_add(q, ") AS p, LATERAL (SELECT * FROM archive AS a WHERE a.dead_at = p.dead_at"
                    " AND a.id = p.id LIMIT 1) AS d");
}

/* A table's last column is not for it: the cursor. */
#define N_HIDDEN 1

struct table {
    struct dlq *d;
    FILE *out;
    const PGresult *result;
    enum payload_form payload; /* BAD: none */
    int code;
};

/* By themselves, because all of a list together may be gigabytes. */
static int ask_payload(struct table *t, int row, PGresult **out)
{
    const char *cursor = PQgetvalue(t->result, row, PQnfields(t->result) - N_HIDDEN);
    struct rp_query q = {0};
    rp_query_add(&q, t->payload == PAYLOAD_AUTO
                         ? "SELECT substring(payload FROM 1 FOR " AUTO_FETCHED ")"
                         : "SELECT payload");
    rp_query_add(&q, " FROM dead_letter WHERE dead_at = split_part(");
    rp_query_param(&q, cursor);
    rp_query_add(&q, ", '/', 1)::timestamptz AND id = split_part(");
    rp_query_param(&q, cursor);
    rp_query_add(&q, ", '/', 2)::bigint");
    return dlq_query_ask(t->d, &q, out);
}

static void print_payload(void *opaque, int row)
{
    struct table *t = opaque;
    PGresult *result;
    size_t n;
    if (t->code != CLI_OK || ferror(t->out) != 0 ||
        (t->code = ask_payload(t, row, &result)) != CLI_OK)
        return; /* whoever left the pager wants no more */
    if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0)) {
        unsigned char *bytes = PQunescapeBytea((const unsigned char *)PQgetvalue(result, 0, 0), &n);
        if (bytes != NULL)
            payload_print(t->out, (struct rp_bytes){bytes, n}, t->payload, "    ");
        PQfreemem(bytes);
    }
    PQclear(result);
}

static int print_table(struct dlq *d, const PGresult *result, int n, enum payload_form payload)
{
    struct table t = {.d = d, .out = pager_open(), .result = result, .payload = payload};
    const struct table_options options = {.max_cell = MAX_CELL,
                                          .n_rows = n,
                                          .n_columns = PQnfields(result) - N_HIDDEN,
                                          .behind_row =
                                              payload == PAYLOAD_BAD ? NULL : print_payload,
                                          .opaque = &t};
    table_print_with(t.out, result, &options);
    int closed = pager_close(t.out);
    return t.code == CLI_OK ? closed : t.code;
}

static int list_table(struct dlq *d, const struct cursor *cursor, int64_t limit,
                      enum payload_form payload)
{
    struct rp_query q = {0};
    PGresult *result;
    rp_query_add(&q, "SELECT ");
    rp_query_add(&q, columns(d->form, term_width(stdout)));
    rp_query_add(&q, ", " CURSOR);
    add_rows(d, cursor, limit < INT64_MAX ? limit + 1 : limit, &q);
    rp_query_add(&q, " " NEWEST_FIRST);
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    int rows = PQntuples(result), n = rows > limit ? (int)limit : rows;
    code = n > 0 ? print_table(d, result, n, payload) : dlq_nothing();
    if (rows > n && code == CLI_OK)
        print_next(d, PQgetvalue(result, n - 1, PQnfields(result) - N_HIDDEN));
    PQclear(result);
    return code;
}

struct json {
    struct dlq *d;
    FILE *out; /* NULL: nothing was printed yet */
    int64_t limit, n;
    struct cursor cursor;
    char last[sizeof(struct cursor)]; /* the cursor as text */
    bool more, over;
};

/* The next of at most `most`: as many of them as are not too large together. */
static int ask_json(struct json *j, int64_t most, PGresult **out)
{
    struct rp_query q = {0};
    rp_query_add(&q, "SELECT ");
    rp_query_add(&q, rp_archive_json);
    rp_query_add(&q, ", " CURSOR ", d.found FROM (SELECT d.*, count(*) OVER () AS found,"
                     " sum(" RP_ARCHIVE_SIZE ") OVER (" NEWEST_FIRST ") - " RP_ARCHIVE_SIZE
                     " AS before");
    add_rows(j->d, &j->cursor, most, &q);
    rp_query_add(&q, ") AS d WHERE d.before < " JSON_BYTES " " NEWEST_FIRST);
    return dlq_query_ask(j->d, &q, out);
}

static void print_json(struct json *j, const PGresult *result, int row)
{
    if (j->out == NULL)
        j->out = pager_open();
    dlq_print_json(j->out, result, row);
    j->n++;
    (void)snprintf(j->last, sizeof j->last, "%s", PQgetvalue(result, row, 1));
    j->over = !parse_cursor(j->last, &j->cursor) || ferror(j->out) != 0;
}

static int next_json(struct json *j)
{
    int64_t left = j->limit - j->n, most = left < JSON_BATCH ? left + 1 : JSON_BATCH;
    PGresult *result;
    int code = ask_json(j, most, &result);
    if (code != CLI_OK)
        return code;
    int rows = PQntuples(result);
    int64_t found = rows == 0 ? 0 : strtoll(PQgetvalue(result, 0, 2), NULL, 10);
    for (int row = 0; row < rows && !j->more && !j->over; row++)
        if (j->n < j->limit)
            print_json(j, result, row);
        else
            j->more = true;
    j->over = j->over || j->more || (found == rows && found < most);
    PQclear(result);
    return CLI_OK;
}

static int list_json(struct dlq *d, const struct cursor *cursor, int64_t limit)
{
    struct json j = {.d = d, .limit = limit, .cursor = *cursor};
    int code = CLI_OK;
    while (code == CLI_OK && !j.over)
        code = next_json(&j);
    int closed = j.out == NULL ? CLI_OK : pager_close(j.out);
    if (code == CLI_OK)
        code = closed;
    if (j.more && code == CLI_OK)
        print_next(d, j.last);
    return code == CLI_OK && j.n == 0 ? dlq_nothing() : code;
}

static int list(struct dlq *d)
{
    struct rp_error err;
    struct cursor cursor;
    bool with_payload = cli_value(d->args, "payload") != NULL;
    enum payload_form payload = with_payload ? payload_form_read(d->args) : PAYLOAD_BAD;
    int64_t limit = dlq_number(d->args, "limit", DEFAULT_LIMIT);
    if (limit == 0 || read_cursor(d->args, &cursor) != CLI_OK ||
        (with_payload && payload == PAYLOAD_BAD))
        return CLI_USAGE;
    if (rp_db_script(d->db, RP_QUERY_ONE_BY_ONE, &err) != 0)
        return dlq_failed(&err);
    return d->form == DLQ_FORM_JSON ? list_json(d, &cursor, limit)
                                    : list_table(d, &cursor, limit, payload);
}

static int run_list(const struct cli_args *args)
{
    return dlq_run(args, list);
}

static const struct cli_option list_options[] = {
    FILTER_OPTIONS,
    DLQ_FORMAT_OPTION,
    {.name = "limit", .value = "N", .help = "so many at most (default: " DEFAULT_LIMIT_TEXT ")"},
    {.name = "before", .value = "PLACE", .help = "go on where an earlier list ended"},
    {.name = "payload", .value = "FORM", .help = "with payloads: auto, text, json or hex"},
    {0},
};

const struct cli_command cmd_dlq_list = {
    .group = "dlq",
    .name = "list",
    .summary = "Lists dead letters, the newest first.",
    .about =
        "Times are UTC. The objects of --format json have all that is known of a dead letter.\n"
        "To send one again: `reprise dlq replay`. Their `task` is an event in the form that\n"
        "`reprise fail -` takes, but as it is, it is a failure that was reported already: it is\n"
        "dropped as a repeat, or becomes a second dead letter. Give it another id, as a new\n"
        "task.\n\n"
        "`reprise help filter` tells what the options, and --where, can say. Where there are\n"
        "more, the command that goes on with them is shown. A terminal narrower than 120 columns\n"
        "is shown less; --format wide has all.",
    .options = list_options,
    .run = run_list,
};
