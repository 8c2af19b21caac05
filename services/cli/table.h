/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_TABLE_H
#define REPRISE_CLI_TABLE_H

#include <libpq-fe.h>
#include <stdio.h>

/* Prints a result as a table under its columns' names, in capitals; columns of numbers to the
 * right. A cell is cut at `max_cell` characters, the last column at the width of the terminal. */
void table_print(FILE *out, const PGresult *result, size_t max_cell);

struct table_options {
    size_t max_cell;
    int n_rows, n_columns; /* the first so many; what follows is not shown */
    /* Called behind each row; may be NULL. */
    void (*behind_row)(void *opaque, int row);
    void *opaque;
};
void table_print_with(FILE *out, const PGresult *result, const struct table_options *options);

#endif
