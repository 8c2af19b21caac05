/* SPDX-License-Identifier: Apache-2.0 */
#include "dlq.h"

#include <inttypes.h>
#include <string.h>

#include "database.h"
#include "pager.h"
#include "table.h"
#include "term.h"

#define MAX_CELL 40
/* Of a question; what takes longer is ended by the server, so that it works on for nobody. */
#define STATEMENT_TIMEOUT "SET statement_timeout = '55s'"
#define QUERY_CANCELED    "57014"

struct run {
    struct dlq *d;
    int (*run)(struct dlq *d);
};

static int read_form(const struct cli_args *args, enum dlq_form *out)
{
    static const char *const forms[] = {"table", "wide", "json"};
    const char *text = cli_has_option(args, "format") ? cli_value(args, "format") : NULL;
    *out = DLQ_FORM_TABLE;
    for (int i = 0; text != NULL && i < 3; i++)
        if (strcmp(text, forms[i]) == 0) {
            *out = (enum dlq_form)i;
            return CLI_OK;
        }
    if (text == NULL)
        return CLI_OK;
    cli_error("--format is table, wide or json, not '%s'", text);
    return CLI_USAGE;
}

int dlq_failed(const struct rp_error *err)
{
    int code = database_refused(err);
    if (database_said(err, QUERY_CANCELED))
        cli_error("where it took too long, ask for less: --since, --type or --group");
    return code;
}

static int connected(const struct cli_args *args, struct rp_db *db, void *opaque)
{
    struct run *r = opaque;
    struct rp_error err;
    r->d->db = db;
    if (rp_db_script(db, STATEMENT_TIMEOUT, &err) != 0)
        return dlq_failed(&err);
    int code = filter_check(args, db, &r->d->filter);
    return code == CLI_OK ? r->run(r->d) : code;
}

int dlq_run(const struct cli_args *args, int (*run)(struct dlq *d))
{
    struct dlq d = {.args = args};
    int code = read_form(args, &d.form);
    if (code == CLI_OK)
        code = filter_read(args, &d.filter);
    if (code == CLI_OK)
        code = database_run_with(args, connected, &(struct run){&d, run});
    rp_filter_free(d.filter);
    return code;
}

int dlq_query_ask(struct dlq *d, struct rp_query *q, PGresult **out)
{
    struct rp_error err;
    int failed = rp_query_run(q, d->db, out, &err);
    rp_query_clear(q);
    return failed == 0 ? CLI_OK : dlq_failed(&err);
}

void dlq_add_filter(struct dlq *d, struct rp_query *q)
{
    if (rp_filter_sql(d->filter, q, NULL) != 0)
        q->failed = true;
}

void dlq_add_counts(struct dlq *d, struct rp_query *q)
{
    if (rp_filter_count_sql(d->filter, q, NULL) != 0)
        q->failed = true;
}

void dlq_print_json(FILE *out, const PGresult *result, int row)
{
    term_json(out,
              (struct rp_bytes){PQgetvalue(result, row, 0), (size_t)PQgetlength(result, row, 0)});
    (void)fputc('\n', out);
}

int dlq_nothing(void)
{
    cli_error("nothing matched");
    return CLI_NOTHING;
}

int dlq_print(struct dlq *d, PGresult *result)
{
    int n = PQntuples(result);
    FILE *out = n > 0 ? pager_open() : stdout;
    for (int row = 0; d->form == DLQ_FORM_JSON && row < n; row++)
        dlq_print_json(out, result, row);
    if (d->form != DLQ_FORM_JSON && n > 0)
        table_print(out, result, MAX_CELL);
    int code = pager_close(out);
    PQclear(result);
    return n > 0 ? code : dlq_nothing();
}

int64_t dlq_number(const struct cli_args *args, const char *name, int64_t fallback)
{
    const char *text = cli_value(args, name);
    int64_t n;
    if (text == NULL)
        return fallback;
    if (rp_parse_int(text, &n) && n > 0)
        return n;
    cli_error("--%s is a number from 1 on, not '%s'", name, text);
    return 0;
}

char *dlq_count_text(int64_t n, char out[RP_UNIT_TEXT])
{
    char digits[RP_UNIT_TEXT];
    size_t len = strlen(rp_format_int(n, digits)), at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}
