/* SPDX-License-Identifier: Apache-2.0 */
#include "dlq_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "database.h"
#include "dead_letter.h"
#include "term.h"
#include "units.h"

#define BASE64(bytes) "translate(encode(" bytes ", 'base64'), E'\\n', '')"
#define ISO(time)     "to_char(" time ", 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

const char dlq_json[] =
    "json_build_object("
    "'id', d.id, 'dead_at', " ISO("d.dead_at") ", 'archived_at', " ISO("d.archived_at") ","
    "'reason', d.reason, 'detail', d.detail, 'category', d.category, 'policy', d.policy,"
    "'attempts', d.attempts, 'decided_at', " ISO("d.decided_at") ","
    "'topic', d.source_topic, 'partition', d.source_partition, 'offset', d.source_offset,"
    "'record', json_build_object('topic', d.record_topic, 'partition', d.record_partition,"
    " 'offset', d.record_offset, 'key', " BASE64("d.record_key") ","
    " 'value', " BASE64("d.record") "),"
    "'altered', d.altered, 'raw', " BASE64("d.raw") ","
    "'task', CASE WHEN d.task_id IS NOT NULL THEN json_build_object("
    " 'task_id', d.task_id, 'task_type', d.task_type, 'target', d.target,"
    " 'key', " BASE64("d.task_key") ", 'payload', " BASE64("d.payload") ","
    " 'headers', (SELECT coalesce(json_agg(json_build_object('key', k, 'value', " BASE64("v") ")"
    "  ORDER BY n), '[]') FROM unnest(d.header_keys, d.header_values) WITH ORDINALITY AS h(k, v, n)),"
    " 'attempt', d.attempt, 'error', json_build_object('class', d.error_class,"
    "  'message', d.error_message, 'category', d.error_category,"
    "  'causes', (SELECT coalesce(json_agg(json_build_object('class', c, 'message', m) ORDER BY n),"
    "   '[]') FROM unnest(d.cause_classes, d.cause_messages) WITH ORDINALITY AS h(c, m, n))),"
    " 'source', d.source, 'first_failed_at', " ISO("d.first_failed_at") ","
    " 'failed_at', " ISO("d.failed_at") ") END)";

static void add(struct dlq_query *q, const char *sql, size_t n)
{
    if (!q->failed && rp_buf_append(&q->sql, sql, n, NULL) != 0)
        q->failed = true;
}

void dlq_query_add(struct dlq_query *q, const char *sql)
{
    add(q, sql, strlen(sql));
}

void dlq_query_where(struct dlq_query *q, const char *condition, const char *value)
{
    const char *at = strstr(condition, "$$");
    char *copy = strdup(value);
    char number[RP_UNIT_TEXT];
    if (copy == NULL || q->n_values == DLQ_MAX_PARAMETERS) {
        free(copy);
        q->failed = true;
        return;
    }
    q->values[q->n_values++] = copy;
    (void)snprintf(number, sizeof number, "$%d", q->n_values);
    dlq_query_add(q, q->filtered ? " AND " : " WHERE ");
    q->filtered = true;
    add(q, condition, (size_t)(at - condition));
    dlq_query_add(q, number);
    dlq_query_add(q, at + 2);
}

/* A glob as LIKE has it. */
static void like_of(const char *glob, char *out)
{
    for (; *glob != '\0'; glob++) {
        if (*glob == '%' || *glob == '_' || *glob == '\\')
            *out++ = '\\';
        *out++ = *glob == '*' ? '%' : *glob;
    }
    *out = '\0';
}

static void filter_type(struct dlq_query *q, const char *type)
{
    if (strchr(type, '*') == NULL) {
        dlq_query_where(q, "d.task_type = $$", type);
        return;
    }
    char *like = malloc(2 * strlen(type) + 1);
    if (like == NULL) {
        q->failed = true;
        return;
    }
    like_of(type, like);
    dlq_query_where(q, "d.task_type LIKE $$", like);
    free(like);
}

static int filter_reason(struct dlq_query *q, const char *reason)
{
    for (int i = 0; i < RP_N_REASONS; i++)
        if (strcasecmp(reason, rp_reason_name((enum rp_reason)i)) == 0) {
            dlq_query_where(q, "d.reason = $$", rp_reason_name((enum rp_reason)i));
            return CLI_OK;
        }
    cli_error("--reason: there is no '%s'; it is one of", reason);
    for (int i = 0; i < RP_N_REASONS; i++)
        (void)fprintf(stderr, "  %s\n", rp_reason_name((enum rp_reason)i));
    return CLI_USAGE;
}

/* How long ago, or a time as PostgreSQL reads it. */
static void filter_since(struct dlq_query *q, const char *since)
{
    int64_t ms;
    char text[32];
    if (!rp_parse_duration(since, &ms)) {
        dlq_query_where(q, "d.dead_at >= $$::timestamptz", since);
        return;
    }
    (void)snprintf(text, sizeof text, "%.3f", (double)(rp_wall_ms() - ms) / 1000);
    dlq_query_where(q, "d.dead_at >= to_timestamp($$::double precision)", text);
}

int dlq_query_filter(struct dlq_query *q, const struct cli_args *args)
{
    const char *type = cli_value(args, "type"), *reason = cli_value(args, "reason");
    const char *since = cli_value(args, "since");
    if (type != NULL)
        filter_type(q, type);
    if (since != NULL)
        filter_since(q, since);
    return reason == NULL ? CLI_OK : filter_reason(q, reason);
}

static int run(struct dlq_query *q, struct rp_db *db, PGresult **out)
{
    struct rp_error err;
    add(q, "", 1);
    if (q->failed) {
        cli_error("no memory");
        return CLI_FAILED;
    }
    if (rp_db_query(db, (const char *)q->sql.data, q->n_values, (const char *const *)q->values,
                    out, &err) == 0)
        return CLI_OK;
    (void)database_failed(&err);
    if (strcmp(rp_db_sqlstate(db), "42P01") == 0)
        cli_error("run `reprise db migrate` first");
    return err.cls == RP_POISON ? CLI_USAGE : CLI_FAILED;
}

void dlq_query_clear(struct dlq_query *q)
{
    rp_buf_clear(&q->sql);
    for (int i = 0; i < q->n_values; i++)
        free(q->values[i]);
    q->n_values = 0;
}

int dlq_query_run(struct dlq_query *q, struct rp_db *db, PGresult **out)
{
    int code = run(q, db, out);
    dlq_query_clear(q);
    return code;
}

enum dlq_format dlq_format_read(const struct cli_args *args)
{
    const char *format = cli_value(args, "format");
    if (format == NULL || strcmp(format, "table") == 0)
        return DLQ_TABLE;
    if (strcmp(format, "json") == 0)
        return DLQ_JSON;
    cli_error("--format is table or json, not '%s'", format);
    return DLQ_BAD;
}

void dlq_json_print(const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        term_json(stdout, (struct rp_bytes){PQgetvalue(result, row, 0),
                                            (size_t)PQgetlength(result, row, 0)});
        (void)putchar('\n');
    }
}
