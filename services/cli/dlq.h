/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_DLQ_H
#define REPRISE_CLI_DLQ_H

#include "cli.h"
#include "filter_args.h"
#include "units.h"

/* What the commands on dead letters have in common: a filter, a database, and a form of output. */

enum dlq_form { DLQ_FORM_TABLE, DLQ_FORM_WIDE, DLQ_FORM_JSON };

struct dlq {
    const struct cli_args *args;
    struct rp_filter *filter;
    struct rp_db *db;
    enum dlq_form form; /* of --format, where the command has it */
};

#define DLQ_FORMAT_OPTION                                                                          \
    {                                                                                              \
        .name = "format", .value = "FORMAT",                                                       \
        .help = "table (default), wide, or json: an object a line"                                 \
    }

/* Reads filter and format, connects, has the filter checked, and calls `run`. What goes wrong on
 * the way is printed. Returns the exit code. */
int dlq_run(const struct cli_args *args, int (*run)(struct dlq *d));

/* Runs the query and clears it. A failure is printed; CLI_OK, CLI_USAGE where a value of the
 * arguments' was refused, or CLI_FAILED. */
int dlq_query_ask(struct dlq *d, struct rp_query *q, PGresult **out);
/* Appends the filter's condition; a failure shows when the query is run. */
void dlq_add_filter(struct dlq *d, struct rp_query *q);
/* Appends rp_filter_count_sql's subquery. */
void dlq_add_counts(struct dlq *d, struct rp_query *q);

/* Prints an error of the database's; returns its exit code. */
int dlq_failed(const struct rp_error *err);

/* Says on stderr that nothing matched; CLI_NOTHING. */
int dlq_nothing(void);
/* Prints rows, through a pager where they are many, and clears them: as a table; or, in the form
 * json, the first column, an object a line. CLI_OK or CLI_NOTHING. */
int dlq_print(struct dlq *d, PGresult *result);
/* Prints the first column of a row as a line. */
void dlq_print_json(FILE *out, const PGresult *result, int row);

/* --name as a number from 1 on; `fallback` where it was not given, 0 where it is no such number,
 * which is printed. */
int64_t dlq_number(const struct cli_args *args, const char *name, int64_t fallback);

/* "12,345" */
char *dlq_count_text(int64_t n, char out[RP_UNIT_TEXT]);

#endif
