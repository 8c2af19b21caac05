/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "database.h"
#include "dlq_query.h"
#include "payload.h"
#include "term.h"
#include "units.h"

#define INDENT "  "
struct shown {
    const PGresult *result;
    int row;
    enum payload_form form;
};

/* A column's text; null where the column is. */
static struct rp_bytes value(const struct shown *s, const char *column)
{
    int at = PQfnumber(s->result, column);
    if (at < 0 || PQgetisnull(s->result, s->row, at))
        return RP_NULL_BYTES;
    return (struct rp_bytes){PQgetvalue(s->result, s->row, at),
                             (size_t)PQgetlength(s->result, s->row, at)};
}

static void print_line(const char *label, struct rp_bytes text)
{
    struct rp_buf line = {0};
    if (text.data == NULL)
        return;
    (void)term_line(&line, text, SIZE_MAX);
    (void)printf(INDENT "%-14s%.*s\n", label, (int)line.len, line.data == NULL ? "" : (char *)line.data);
    rp_buf_clear(&line);
}

static void print_field(const struct shown *s, const char *label, const char *column)
{
    print_line(label, value(s, column));
}

/* The bytes of a bytea column, which libpq gives in hex; the caller's to PQfreemem. */
static unsigned char *bytes_of(const struct shown *s, const char *column, struct rp_bytes *out)
{
    struct rp_bytes text = value(s, column);
    *out = RP_NULL_BYTES;
    if (text.data == NULL)
        return NULL;
    unsigned char *bytes = PQunescapeBytea(text.data, &out->len);
    out->data = bytes;
    return bytes;
}

static void print_bytes(const struct shown *s, const char *label, const char *column)
{
    struct rp_bytes bytes;
    unsigned char *owned = bytes_of(s, column, &bytes);
    if (owned == NULL)
        return;
    (void)printf("%s, %zu bytes\n", label, bytes.len);
    payload_print(stdout, bytes, s->form, INDENT);
    PQfreemem(owned);
}

/* A key is shown as text where it is some, else in hex. */
static void print_key(const struct shown *s, const char *label, const char *column)
{
    struct rp_bytes bytes;
    unsigned char *owned = bytes_of(s, column, &bytes);
    if (owned != NULL)
        print_line(label, term_readable(bytes) ? bytes : value(s, column));
    PQfreemem(owned);
}

/* Headers and causes arrive as a JSON array of [name, text] pairs. */
static void print_pairs(const struct shown *s, const char *title, const char *column)
{
    struct rp_bytes text = value(s, column);
    json_t *pairs = text.data == NULL ? NULL : json_loadb(text.data, text.len, 0, NULL), *pair;
    size_t i;
    if (json_array_size(pairs) > 0 && title != NULL)
        (void)printf("%s\n", title);
    json_array_foreach(pairs, i, pair) {
        struct rp_buf line = {0};
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *second = json_string_value(json_array_get(pair, 1));
        (void)term_line(&line, rp_str(name), SIZE_MAX);
        (void)term_line(&line, rp_str(": "), SIZE_MAX);
        (void)term_line(&line, rp_str(second == NULL ? "(null)" : second), SIZE_MAX);
        (void)printf(INDENT "%s%.*s\n", title == NULL ? "caused by     " : "", (int)line.len,
                     (char *)line.data);
        rp_buf_clear(&line);
    }
    json_decref(pairs);
}

static void print_task(const struct shown *s)
{
    if (value(s, "task_id").data == NULL)
        return;
    (void)printf("task\n");
    print_field(s, "id", "task_id");
    print_field(s, "type", "task_type");
    print_field(s, "target", "target");
    print_key(s, "key", "task_key");
    print_field(s, "attempt", "attempt");
    print_field(s, "source", "source");
    print_field(s, "first failed", "first_failed");
    print_field(s, "failed", "failed");
    (void)printf("error\n");
    print_field(s, "class", "error_class");
    print_field(s, "message", "error_message");
    print_field(s, "category", "error_category");
    print_pairs(s, NULL, "causes");
    print_pairs(s, "headers", "headers");
}

static void print_letter(const struct shown *s)
{
    (void)printf("dead letter\n");
    print_field(s, "id", "id");
    print_field(s, "died", "died");
    print_field(s, "archived", "archived");
    print_field(s, "reason", "reason");
    print_field(s, "detail", "detail");
    print_field(s, "category", "category");
    print_field(s, "policy", "policy");
    print_field(s, "attempts", "attempts");
    print_field(s, "came from", "came_from");
    print_field(s, "record", "record_at");
    print_key(s, "record key", "record_key");
    print_field(s, "altered", "altered");
    print_task(s);
    print_bytes(s, "payload", "payload");
    print_bytes(s, "raw: the event that cannot be decoded", "raw");
    print_bytes(s, "record: the dead letter as it came", "record");
}

#define TIME(column)    "to_char(" column ", 'YYYY-MM-DD HH24:MI:SS.MS') || ' UTC'"
/* Header values are bytes: as text where they are plain ASCII, else in hex. */
#define BYTES_TEXT(v)                                                                              \
    "CASE WHEN " v " = '' OR encode(" v ", 'escape') !~ '\\\\' THEN encode(" v ", 'escape')"       \
    " ELSE " v "::text END"

static const char columns[] =
    "d.*, " TIME("d.dead_at") " AS died, " TIME("d.archived_at") " AS archived,"
    TIME("d.first_failed_at") " AS first_failed, " TIME("d.failed_at") " AS failed,"
    "d.source_topic || ', partition ' || d.source_partition || ', offset ' || d.source_offset"
    " AS came_from,"
    "d.record_topic || ', partition ' || d.record_partition || ', offset ' || d.record_offset"
    " AS record_at,"
    "(SELECT json_agg(json_build_array(k, " BYTES_TEXT("v") ") ORDER BY n) FROM"
    " unnest(d.header_keys, d.header_values) WITH ORDINALITY AS h(k, v, n)) AS headers,"
    "(SELECT json_agg(json_build_array(c, m) ORDER BY n) FROM"
    " unnest(d.cause_classes, d.cause_messages) WITH ORDINALITY AS h(c, m, n)) AS causes";

static int ask(const struct cli_args *args, struct rp_db *db, bool json, PGresult **out)
{
    struct dlq_query q = {0};
    const char *task = cli_value(args, "task");
    int64_t id;
    if ((task != NULL) == (args->n_positional == 1)) {
        cli_error("name a dead letter by its ID, or a task by --task");
        return CLI_USAGE;
    }
    if (task == NULL && !rp_parse_int(args->positional[0], &id)) {
        cli_error("ID is a number, not '%s'; --task takes the id of a task", args->positional[0]);
        return CLI_USAGE;
    }
    dlq_query_add(&q, "SELECT ");
    dlq_query_add(&q, json ? dlq_json : columns);
    dlq_query_add(&q, " FROM dead_letter AS d");
    if (task != NULL)
        dlq_query_where(&q, "d.task_id = $$", task);
    else
        dlq_query_where(&q, "d.id = $$::bigint", args->positional[0]);
    dlq_query_add(&q, " ORDER BY d.dead_at");
    return dlq_query_run(&q, db, out);
}

static int show(const struct cli_args *args, struct rp_db *db)
{
    struct shown s = {.form = payload_form_read(args)};
    enum dlq_format format = dlq_format_read(args);
    PGresult *result;
    if (s.form == PAYLOAD_BAD || format == DLQ_BAD)
        return CLI_USAGE;
    int code = ask(args, db, format == DLQ_JSON, &result);
    if (code != CLI_OK)
        return code;
    s.result = result;
    int n = PQntuples(result);
    if (format == DLQ_JSON)
        dlq_json_print(result);
    for (; format != DLQ_JSON && s.row < n; s.row++) {
        (void)printf("%s", s.row > 0 ? "\n" : "");
        print_letter(&s);
    }
    PQclear(result);
    if (n == 0)
        cli_error("there is no such dead letter");
    return n > 0 ? CLI_OK : CLI_NOTHING;
}

static int run(const struct cli_args *args)
{
    return database_run(args, show);
}

static const struct cli_option options[] = {
    {.name = "task", .value = "ID", .help = "all dead letters of this task, the oldest first"},
    {.name = "payload", .value = "FORM", .help = "auto (default; a long one is cut), text, json, hex"},
    {.name = "format", .value = "FORMAT", .help = "table (default), or json: an object a line"},
    {0},
};

const struct cli_command cmd_dlq_show = {
    .group = "dlq",
    .name = "show",
    .positional = "[ID]",
    .max_positional = 1,
    .summary = "Shows all that is known of a dead letter.",
    .about =
        "ID is what `reprise dlq list` shows. Control characters, and whatever else could\n"
        "deceive a terminal, are written as escapes.",
    .options = options,
    .run = run,
};
