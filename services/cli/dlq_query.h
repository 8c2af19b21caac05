/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_DLQ_QUERY_H
#define REPRISE_CLI_DLQ_QUERY_H

#include "cli.h"
#include "db.h"

/* Questions about the archive: SQL that is put together from our own words alone. What came from
 * the arguments goes in as parameters. */
#define DLQ_MAX_PARAMETERS 8

struct dlq_query {
    struct rp_buf sql;
    char *values[DLQ_MAX_PARAMETERS];
    int n_values;
    bool filtered; /* there is a WHERE already */
    bool failed;   /* no memory; dlq_query_run then says so */
};

/* The options that dlq_query_filter reads, for the tables of the commands that take them. */
#define DLQ_FILTER_OPTIONS                                                                         \
    {.name = "type", .value = "TYPE", .help = "of this task type; * stands for any characters"},   \
        {.name = "reason", .value = "REASON", .help = "dead for this reason: EXHAUSTED, ..."},     \
    {                                                                                              \
        .name = "since", .value = "TIME",                                                          \
        .help = "dead since then: 30m, 12h, 7d ago, or 2026-11-21T03:00Z"                          \
    }

void dlq_query_add(struct dlq_query *q, const char *sql);
/* "WHERE condition", or "AND condition" where there is one. `$$` in it stands for `value`. */
void dlq_query_where(struct dlq_query *q, const char *condition, const char *value);
/* The conditions of DLQ_FILTER_OPTIONS, as far as they were given. Prints what cannot be read, and
 * returns CLI_OK or CLI_USAGE. */
int dlq_query_filter(struct dlq_query *q, const struct cli_args *args);

void dlq_query_clear(struct dlq_query *q);

/* Runs it, and clears it in any case. A failure is printed; returns CLI_OK, CLI_USAGE
 * where a value of the arguments' was refused, or CLI_FAILED. */
int dlq_query_run(struct dlq_query *q, struct rp_db *db, PGresult **out);

/* --format. What is neither is printed. */
enum dlq_format { DLQ_TABLE, DLQ_JSON, DLQ_BAD };
enum dlq_format dlq_format_read(const struct cli_args *args);

/* Prints the first column, an object a line. */
void dlq_json_print(const PGresult *result);

/* A dead letter `d` as one JSON object. `task` is the FailedTask as its plain JSON framing has it,
 * bytes in base64. */
extern const char dlq_json[];

#endif
