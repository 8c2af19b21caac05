/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

#define MAX_COLUMNS 16
#define GAP         2
/* Of the last column, where there is no terminal to fit. */
#define MAX_LAST 200

struct table {
    const PGresult *result;
    int n_columns, n_rows;
    size_t widths[MAX_COLUMNS];
    size_t max_cell;
    bool colours;
    struct rp_buf cell;
};

/* The cell as it is shown, in `t->cell`; row -1 is the head. Returns its characters. */
static size_t show_cell(struct table *t, int row, int column, size_t max)
{
    t->cell.len = 0;
    if (row >= 0)
        return term_line(&t->cell,
                         (struct rp_bytes){PQgetvalue(t->result, row, column),
                                           (size_t)PQgetlength(t->result, row, column)},
                         max);
    size_t n = term_line(&t->cell, rp_str(PQfname(t->result, column)), max);
    for (size_t i = 0; i < t->cell.len; i++)
        t->cell.data[i] = (uint8_t)toupper(t->cell.data[i]);
    return n;
}

static bool is_number(const PGresult *result, int column)
{
    Oid type = PQftype(result, column);
    return type == 20 || type == 23; /* bigint, integer */
}

static void measure(struct table *t)
{
    for (int column = 0; column < t->n_columns; column++)
        for (int row = -1; row < t->n_rows; row++) {
            size_t n = show_cell(t, row, column, t->max_cell);
            if (n > t->widths[column])
                t->widths[column] = n;
        }
}

/* What is left of the line for the last column. */
static size_t fit_last(const struct table *t, size_t line)
{
    if (line == 0)
        return MAX_LAST;
    for (int column = 0; column < t->n_columns - 1; column++) {
        size_t used = t->widths[column] + GAP;
        line = line > used ? line - used : 0;
    }
    return line > 10 ? line : 10;
}

/* The head stands out, and what needs somebody. */
static const char *cell_colour(const struct table *t, int row, int column)
{
    if (!t->colours)
        return "";
    if (row < 0)
        return TERM_BOLD;
    return strcmp(PQfname(t->result, column), "status") == 0
               ? term_status_colour(PQgetvalue(t->result, row, column))
               : "";
}

static void print_row(FILE *out, struct table *t, int row, size_t last)
{
    for (int column = 0; column < t->n_columns; column++) {
        bool is_last = column == t->n_columns - 1;
        size_t n = show_cell(t, row, column, is_last ? last : t->max_cell);
        int pad = n < t->widths[column] ? (int)(t->widths[column] - n) : 0;
        if (is_number(t->result, column))
            (void)fprintf(out, "%*s", pad, "");
        const char *colour = cell_colour(t, row, column);
        (void)fputs(colour, out);
        term_put(out, &t->cell);
        (void)fputs(*colour == '\0' ? "" : TERM_PLAIN, out);
        if (!is_last)
            (void)fprintf(out, "%*s", is_number(t->result, column) ? GAP : pad + GAP, "");
    }
    (void)fputc('\n', out);
}

void table_print_with(FILE *out, const PGresult *result, const struct table_options *options)
{
    struct table t = {.result = result,
                      .n_columns = options->n_columns,
                      .n_rows = options->n_rows,
                      .max_cell = options->max_cell,
                      .colours = term_colours()};
    if (t.n_columns > MAX_COLUMNS)
        t.n_columns = MAX_COLUMNS;
    measure(&t);
    /* What goes to a pager is shown on the terminal. */
    size_t last = fit_last(&t, term_width(stdout));
    for (int row = -1; row < t.n_rows; row++) {
        print_row(out, &t, row, last);
        if (row >= 0 && options->behind_row != NULL)
            options->behind_row(options->opaque, row);
    }
    rp_buf_clear(&t.cell);
}

void table_print(FILE *out, const PGresult *result, size_t max_cell)
{
    struct table_options options = {
        .max_cell = max_cell, .n_rows = PQntuples(result), .n_columns = PQnfields(result)};
    table_print_with(out, result, &options);
}
