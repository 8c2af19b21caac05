/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive_json.h"
#include "cli.h"
#include "config.h"
#include "database.h"
#include "dlq.h"
#include "message.h"
#include "payload.h"
#include "registry.h"
#include "story.h"
#include "term.h"
#include "units.h"

#define INDENT     "  "
#define TIMEOUT_MS 60000

struct shown {
    bool json; /* --format */
    const struct cli_args *args;
    struct rp_config *config;
    struct rp_registry *registry;
    struct rp_message_reader *reader;
    struct rp_db *db;
    const PGresult *result; /* of the one that is shown */
    struct story_targets targets;
    int n; /* so many were shown */
    enum payload_form form;
};

/* A column's text; null where the column is. */
static struct rp_bytes value(const struct shown *s, const char *column)
{
    int at = PQfnumber(s->result, column);
    if (at < 0 || PQgetisnull(s->result, 0, at))
        return RP_NULL_BYTES;
    return (struct rp_bytes){PQgetvalue(s->result, 0, at), (size_t)PQgetlength(s->result, 0, at)};
}

static void print_line(const char *label, struct rp_bytes text)
{
    if (text.data == NULL)
        return;
    (void)printf(INDENT "%-14s", label);
    term_print(stdout, text, SIZE_MAX);
    (void)putchar('\n');
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

/* Avro whose schema is known, as JSON. False: it is none, or is to be shown as it is. */
static bool print_avro(const struct shown *s, struct rp_bytes bytes)
{
    const struct rp_message message = {.payload = bytes};
    struct rp_document document;
    struct rp_error err;
    if (s->form != PAYLOAD_AUTO && s->form != PAYLOAD_JSON)
        return false;
    if (rp_document_write(s->reader, &message, NULL, &document, &err) != 0) {
        cli_error("%s", err.text);
        return false;
    }
    bool is_avro = document.form == RP_PAYLOAD_AVRO;
    if (is_avro) {
        (void)printf("payload, %zu bytes of Avro\n", bytes.len);
        payload_print(stdout, document.payload, PAYLOAD_JSON, INDENT);
    }
    rp_document_clear(&document);
    return is_avro;
}

static void print_payload(const struct shown *s)
{
    struct rp_bytes bytes;
    unsigned char *owned = bytes_of(s, "payload", &bytes);
    if (owned != NULL && !print_avro(s, bytes)) {
        (void)printf("payload, %zu bytes\n", bytes.len);
        payload_print(stdout, bytes, s->form, INDENT);
    }
    PQfreemem(owned);
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
    json_array_foreach(pairs, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *second = json_string_value(json_array_get(pair, 1));
        (void)fputs(title == NULL ? INDENT "caused by     " : INDENT, stdout);
        term_print(stdout, rp_str(name), SIZE_MAX);
        (void)fputs(": ", stdout);
        term_print(stdout, rp_str(second == NULL ? "(null)" : second), SIZE_MAX);
        (void)putchar('\n');
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

static void print_letter(struct shown *s)
{
    (void)printf("dead letter\n");
    print_field(s, "id", "id");
    print_field(s, "died", "died");
    print_field(s, "archived", "archived");
    print_field(s, "attempts", "attempts");
    print_field(s, "came from", "came_from");
    print_field(s, "record", "record_at");
    print_key(s, "record key", "record_key");
    print_field(s, "altered", "altered");
    print_task(s);
    print_payload(s);
    print_bytes(s, "raw: the event that cannot be decoded", "raw");
    print_bytes(s, "record: the dead letter as it came", "record");
    story_print(s->config, s->db, s->result, 0, &s->targets);
}

#define TIME(column) "to_char(" column ", 'YYYY-MM-DD HH24:MI:SS.MS') || ' UTC'"
/* Header values are bytes: as text where they are plain ASCII, else in hex. */
#define BYTES_TEXT(v)                                                                              \
    "CASE WHEN " v " = '' OR encode(" v ", 'escape') !~ '\\\\' THEN encode(" v ", 'escape')"       \
    " ELSE " v "::text END"

static const char columns[] =
    "d.*, " TIME("d.dead_at") " AS died, " TIME("d.archived_at") " AS archived," TIME(
        "d.first_failed_at") " AS first_failed, " TIME("d.failed_at") " AS failed,"
                                                                      "d.source_topic || ', "
                                                                      "partition ' || "
                                                                      "d.source_partition || ', "
                                                                      "offset ' || d.source_offset"
                                                                      " AS came_from,"
                                                                      "d.record_topic || ', "
                                                                      "partition ' || "
                                                                      "d.record_partition || ', "
                                                                      "offset ' || d.record_offset"
                                                                      " AS record_at,"
                                                                      "(SELECT "
                                                                      "json_agg(json_build_array(k,"
                                                                      " " BYTES_TEXT(
                                                                          "v") ") ORDER BY n) FROM"
                                                                               " unnest(d.header_"
                                                                               "keys, "
                                                                               "d.header_values) "
                                                                               "WITH ORDINALITY AS "
                                                                               "h(k, v, n)) AS "
                                                                               "headers,"
                                                                               "(SELECT "
                                                                               "json_agg(json_"
                                                                               "build_array(c, m) "
                                                                               "ORDER BY n) FROM"
                                                                               " unnest(d.cause_"
                                                                               "classes, "
                                                                               "d.cause_messages) "
                                                                               "WITH ORDINALITY AS "
                                                                               "h(c, m, n)) AS "
                                                                               "causes";

static int check_arguments(const struct cli_args *args)
{
    int64_t id;
    if ((cli_value(args, "task") != NULL) == (args->n_positional == 1)) {
        cli_error("name a dead letter by its ID, or a task by --task");
        return CLI_USAGE;
    }
    if (args->n_positional == 1 && !rp_parse_int(args->positional[0], &id)) {
        cli_error("ID is a number, not '%s'; --task takes the id of a task", args->positional[0]);
        return CLI_USAGE;
    }
    return CLI_OK;
}

static int run_query(struct shown *s, struct rp_query *q, PGresult **out)
{
    struct rp_error err;
    int failed = rp_query_run(q, s->db, out, &err);
    rp_query_clear(q);
    return failed == 0 ? CLI_OK : database_refused(&err);
}

static int ask_which(struct shown *s, PGresult **out)
{
    struct rp_query q = {0};
    const char *task = cli_value(s->args, "task");
    rp_query_add(&q, "SELECT d.dead_at, d.id FROM dead_letter AS d WHERE ");
    rp_query_add(&q, task != NULL ? "d.task_id = " : "d.id = ");
    rp_query_param(&q, task != NULL ? task : s->args->positional[0]);
    rp_query_add(&q, task != NULL ? "" : "::bigint");
    rp_query_add(&q, " ORDER BY d.dead_at, d.id");
    return run_query(s, &q, out);
}

static int ask(struct shown *s, const char *dead_at, const char *id, PGresult **out)
{
    struct rp_query q = {0};
    rp_query_add(&q, "SELECT ");
    rp_query_add(&q, s->json ? rp_archive_json : columns);
    rp_query_add(&q, s->json ? "" : story_columns);
    rp_query_add(&q, " FROM archive AS d WHERE d.dead_at = ");
    rp_query_param(&q, dead_at);
    rp_query_add(&q, "::timestamptz AND d.id = ");
    rp_query_param(&q, id);
    rp_query_add(&q, "::bigint");
    return run_query(s, &q, out);
}

/* One that was deleted meanwhile is not there. */
static int show_one(struct shown *s, const char *dead_at, const char *id)
{
    PGresult *result;
    int code = ask(s, dead_at, id, &result);
    if (code != CLI_OK)
        return code;
    if (PQntuples(result) > 0) {
        s->result = result;
        if (!s->json && s->n > 0)
            (void)putchar('\n');
        if (s->json)
            dlq_print_json(stdout, result, 0);
        else
            print_letter(s);
        s->n++;
    }
    PQclear(result);
    return CLI_OK;
}

/* Each is asked for by itself, because all of a task together may be gigabytes. */
static int show(struct shown *s)
{
    PGresult *which;
    int code = ask_which(s, &which);
    if (code != CLI_OK)
        return code;
    for (int row = 0; code == CLI_OK && row < PQntuples(which); row++)
        code = show_one(s, PQgetvalue(which, row, 0), PQgetvalue(which, row, 1));
    PQclear(which);
    if (code != CLI_OK || s->n > 0)
        return code;
    cli_error("there is no such dead letter");
    return CLI_NOTHING;
}

static int connect_and_show(struct shown *s)
{
    struct rp_error err;
    if (rp_registry_open(s->config, &s->registry, &err) == 0 &&
        rp_message_reader_new(cli_value(s->args, "payload-schema"), s->registry, &s->reader,
                              &err) == 0 &&
        rp_db_open(s->config->postgres.dsn, "reprise", TIMEOUT_MS, &s->db, &err) == 0)
        return show(s);
    return database_refused(&err);
}

static int run(const struct cli_args *args)
{
    struct shown s = {.args = args, .form = payload_form_read(args)};
    const char *format = cli_value(args, "format");
    s.json = format != NULL && strcmp(format, "json") == 0;
    if (format != NULL && !s.json && strcmp(format, "table") != 0) {
        cli_error("--format is table or json, not '%s'", format);
        return CLI_USAGE;
    }
    if (s.form == PAYLOAD_BAD || check_arguments(args) != CLI_OK ||
        (s.config = cli_config_load(args)) == NULL)
        return CLI_USAGE;
    int code = connect_and_show(&s);
    story_targets_clear(&s.targets);
    rp_db_close(s.db);
    rp_message_reader_free(s.reader);
    rp_registry_free(s.registry);
    rp_config_free(s.config);
    return code;
}

static const struct cli_option options[] = {
    {.name = "task", .value = "ID", .help = "all dead letters of this task, the oldest first"},
    {.name = "payload",
     .value = "FORM",
     .help = "auto (default; a long one is cut), text, json, hex"},
    {.name = "payload-schema",
     .value = "FILE",
     .help = "the Avro schema of the payload, where no registry has it"},
    {.name = "format", .value = "table|json", .help = "table (default), or json: an object a line"},
    {0},
};

const struct cli_command cmd_dlq_show = {
    .group = "dlq",
    .name = "show",
    .positional = "[ID]",
    .summary = "Shows all that is known of a dead letter, and what can be done about it.",
    .about = "When it failed, who decided what and why, whether today's policies would decide\n"
             "otherwise, what was done since, and what it takes to send the task again.\n\n"
             "ID is what `reprise dlq list` shows. Control characters, and whatever else could\n"
             "deceive a terminal, are written as escapes.",
    .options = options,
    .run = run,
};
