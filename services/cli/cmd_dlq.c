/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "archive_export.h"
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
/* A terminal of fewer columns has no room for all of a list. */
#define NARROW 120

#define DIED "to_char(d.dead_at, 'YYYY-MM-DD HH24:MI:SS') AS died"
#define ERROR                                                                                      \
    "coalesce(d.error_class || ': ' || left(d.error_message, 300), left(d.detail, 300)) AS error"
/* Where the next page begins. */
#define CURSOR "to_char(d.dead_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') || '/' || d.id AS cursor"

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

static int read_cursor(const struct cli_args *args, struct cursor *out)
{
    const char *text = cli_value(args, "before"), *slash = text == NULL ? NULL : strrchr(text, '/');
    int64_t id, ms;
    out->time[0] = '\0';
    if (text == NULL)
        return CLI_OK;
    if (slash != NULL && (size_t)(slash - text) < sizeof out->time &&
        rp_iso8601_parse((struct rp_bytes){text, (size_t)(slash - text)}, &ms) &&
        rp_parse_int(slash + 1, &id)) {
        (void)snprintf(out->time, sizeof out->time, "%.*s", (int)(slash - text), text);
        (void)rp_format_int(id, out->id);
        return CLI_OK;
    }
    cli_error("--before takes what an earlier list gave, not '%s'", text);
    return CLI_USAGE;
}

/* A list's last columns are not for the table: the payload, and the cursor. */
#define N_HIDDEN 2

static void print_payload(FILE *out, const PGresult *result, int row, enum payload_form form)
{
    int column = PQnfields(result) - N_HIDDEN;
    size_t n;
    if (form == PAYLOAD_BAD || PQgetisnull(result, row, column))
        return;
    unsigned char *bytes =
        PQunescapeBytea((const unsigned char *)PQgetvalue(result, row, column), &n);
    if (bytes != NULL)
        payload_print(out, (struct rp_bytes){bytes, n}, form, "    ");
    PQfreemem(bytes);
}

struct page {
    FILE *out;
    const PGresult *result;
    enum payload_form payload; /* BAD: none */
};

static void behind_row(void *opaque, int row)
{
    const struct page *p = opaque;
    print_payload(p->out, p->result, row, p->payload);
}

static void print_page(struct dlq *d, const PGresult *result, int n, enum payload_form payload)
{
    struct page p = {pager_open(), result, payload};
    struct table_options options = {.max_cell = MAX_CELL,
                                    .n_rows = n,
                                    .n_columns = PQnfields(result) - N_HIDDEN,
                                    .behind_row = payload == PAYLOAD_BAD ? NULL : behind_row,
                                    .opaque = &p};
    for (int row = 0; d->form == DLQ_FORM_JSON && row < n; row++)
        dlq_print_json(p.out, result, row);
    if (d->form != DLQ_FORM_JSON)
        table_print_with(p.out, result, &options);
    pager_close(p.out);
}

/* How to go on, for who sees it. */
static void print_next(struct dlq *d, const PGresult *result, int n)
{
    (void)fputs("more: ", stderr);
    shell_words_print(stderr, d->args, "before");
    (void)fprintf(stderr, " --before %s\n", PQgetvalue(result, n - 1, PQnfields(result) - 1));
}

static void add_question(struct dlq *d, const struct cursor *cursor, int64_t limit, bool payload,
                         struct rp_query *q)
{
    bool begun = cursor->time[0] != '\0';
    rp_query_add(q, "SELECT ");
    rp_query_add(q,
                 d->form == DLQ_FORM_JSON ? rp_archive_json : columns(d->form, term_width(stdout)));
    rp_query_add(q, payload && d->form != DLQ_FORM_JSON ? ", d.payload, " CURSOR
                                                        : ", NULL::bytea, " CURSOR);
    rp_query_add(q, " FROM (");
    if (rp_filter_list_sql(d->filter, begun ? cursor->time : NULL, begun ? cursor->id : NULL, limit,
                           q, NULL) != 0)
        q->failed = true;
    /* The limit keeps PostgreSQL from joining all of the archive with a page of it. */
    rp_query_add(q, ") AS p, LATERAL (SELECT * FROM archive AS a WHERE a.dead_at = p.dead_at"
                    " AND a.id = p.id LIMIT 1) AS d ORDER BY d.dead_at DESC, d.id DESC");
}

static int ask(struct dlq *d, struct rp_query *q, PGresult **out)
{
    struct rp_error err;
    if (rp_db_script(d->db, RP_QUERY_ONE_BY_ONE, &err) == 0)
        return dlq_query_ask(d, q, out);
    rp_query_clear(q);
    return dlq_failed(d, &err);
}

static int list(struct dlq *d)
{
    struct rp_query q = {0};
    struct cursor cursor;
    PGresult *result;
    bool with_payload = cli_value(d->args, "payload") != NULL;
    enum payload_form payload = with_payload ? payload_form_read(d->args) : PAYLOAD_BAD;
    int64_t limit = dlq_number(d->args, "limit", DEFAULT_LIMIT);
    if (limit == 0 || read_cursor(d->args, &cursor) != CLI_OK ||
        (with_payload && payload == PAYLOAD_BAD))
        return CLI_USAGE;
    add_question(d, &cursor, limit < INT64_MAX ? limit + 1 : limit, with_payload, &q);
    int code = ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    int rows = PQntuples(result), n = rows > limit ? (int)limit : rows;
    if (n > 0)
        print_page(d, result, n, payload);
    if (rows > n)
        print_next(d, result, n);
    PQclear(result);
    return n > 0 ? CLI_OK : dlq_nothing();
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
        "Times are UTC. The objects of --format json have all that is known of a dead letter;\n"
        "their `task` is an event that `reprise fail -` takes. `reprise help filter` tells\n"
        "what the options, and --where, can say. Where there are more, the command that goes\n"
        "on with them is shown. A terminal narrower than 120 columns is shown less; --format\n"
        "wide has all.",
    .options = list_options,
    .run = run_list,
};
