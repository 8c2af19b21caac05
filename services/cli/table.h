/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_TABLE_H
#define REPRISE_CLI_TABLE_H

#include <libpq-fe.h>
#include <stdio.h>

/* Prints a result as a table under its columns' names, in capitals; columns of numbers to the
 * right. A cell is cut at `max_cell` characters, the last column at the width of the terminal. */
void table_print(FILE *out, const PGresult *result, size_t max_cell);

#endif
