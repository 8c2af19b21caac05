/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_FILTER_ARGS_H
#define REPRISE_CLI_FILTER_ARGS_H

#include "cli.h"
#include "filter.h"
#include "filter_fields.h"

/* The filter language on the command line. FILTER_OPTIONS goes into the table of each command that
 * takes a filter; FILTER_OPTIONS_TO_ACT into that of one whose --reason says why it is done. */
#define FILTER_OPTION(symbol, field, flag, placeholder, kind, column, countable, text)             \
    {.name = flag, .value = placeholder, .help = text},
#define FILTER_OPTION_TO_ACT(symbol, field, flag, placeholder, kind, column, countable, text)      \
    {.name = FILTER_REASON_TO_ACT, .value = placeholder, .help = text},
#define FILTER_REASON_TO_ACT "dead-for"
#define FILTER_WHERE                                                                               \
    {                                                                                              \
        .name = "where", .value = "EXPRESSION...",                                                 \
        .help = "for which this holds; `reprise help filter`"                                      \
    }
#define FILTER_OPTIONS                                                                             \
    RP_FILTER_FLAGS(FILTER_OPTION) RP_FILTER_REASON_FLAG(FILTER_OPTION) FILTER_WHERE
#define FILTER_OPTIONS_TO_ACT                                                                      \
    RP_FILTER_FLAGS(FILTER_OPTION) RP_FILTER_REASON_FLAG(FILTER_OPTION_TO_ACT) FILTER_WHERE

/* The filter of the arguments, the caller's to rp_filter_free. What cannot be read is printed, with
 * its place; returns CLI_OK, CLI_USAGE or CLI_FAILED. */
int filter_read(const struct cli_args *args, struct rp_filter **out);

/* Has the database check what filter_read gave, and counts times like 2h back from its `now`: what
 * is in it was timed by servers, and the clock of this machine may be wrong. Returns as filter_read
 * does. */
int filter_check(const struct cli_args *args, struct rp_db *db, struct rp_filter **f);

/* Its canonical text, the caller's to free; NULL without memory, which is printed. */
char *filter_text(const struct rp_filter *filter);

#endif
