/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "units.h"

/* Of the protocol. */
#define MAX_PARAMETERS 65535

void rp_query_add(struct rp_query *q, const char *sql)
{
    if (!q->failed && rp_buf_append(&q->sql, sql, strlen(sql), NULL) != 0)
        q->failed = true;
}

static bool make_room(struct rp_query *q)
{
    char **values = rp_array_grow(q->values, (size_t)q->n, &q->room, sizeof *values);
    if (values != NULL)
        q->values = values;
    return values != NULL;
}

void rp_query_param(struct rp_query *q, const char *value)
{
    char number[RP_UNIT_TEXT];
    char *copy = value == NULL ? NULL : strdup(value);
    if (q->failed || q->n == MAX_PARAMETERS || !make_room(q) || (copy == NULL && value != NULL)) {
        free(copy);
        q->failed = true;
        return;
    }
    q->values[q->n++] = copy;
    (void)snprintf(number, sizeof number, "$%d", q->n);
    rp_query_add(q, number);
}

void rp_query_param_int(struct rp_query *q, int64_t value)
{
    char text[RP_UNIT_TEXT];
    rp_query_param(q, rp_format_int(value, text));
}

int rp_query_append_element(struct rp_buf *array, struct rp_bytes text, struct rp_error *err)
{
    const char *p = text.data;
    if (rp_buf_append(array, array->len == 0 ? "{\"" : ",\"", 2, err) != 0)
        return -1;
    for (size_t i = 0, n; i < text.len; i += n) {
        bool escaped = p[i] == '"' || p[i] == '\\';
        for (n = 1; i + n < text.len && p[i + n] != '"' && p[i + n] != '\\';)
            n++;
        if ((escaped && rp_buf_append(array, "\\", 1, err) != 0) ||
            rp_buf_append(array, p + i, n, err) != 0)
            return -1;
    }
    return rp_buf_append(array, "\"", 1, err);
}

/* Rows are not compared with a partition's bounds, a column is. */
void rp_query_add_page(struct rp_query *q, enum rp_query_side side, const char *dead_at,
                       const char *id)
{
    rp_query_add(q, side == RP_QUERY_BEHIND ? " AND d.dead_at >= " : " AND d.dead_at <= ");
    rp_query_param(q, dead_at);
    rp_query_add(q, "::timestamptz AND (d.dead_at, d.id) ");
    rp_query_add(q, side == RP_QUERY_BEHIND ? "> (" : "< (");
    rp_query_param(q, dead_at);
    rp_query_add(q, "::timestamptz, ");
    rp_query_param(q, id);
    rp_query_add(q, "::bigint)");
}

int rp_query_run(struct rp_query *q, struct rp_db *db, PGresult **out, struct rp_error *err)
{
    size_t len = q->sql.len;
    if (q->failed || rp_buf_append(&q->sql, "", 1, NULL) != 0)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a question to the database");
    q->sql.len = len; /* so that more can be added */
    return rp_db_query(db, (const char *)q->sql.data, q->n, (const char *const *)q->values, out,
                       err);
}

void rp_query_clear(struct rp_query *q)
{
    rp_buf_clear(&q->sql);
    for (int i = 0; i < q->n; i++)
        free(q->values[i]);
    free(q->values);
    *q = (struct rp_query){0};
}

int rp_query_check_shown(int64_t n, int64_t shown, struct rp_error *err)
{
    if (shown == 0 || n <= shown)
        return 0;
    return rp_fail(err, RP_E_RANGE, RP_RETRIABLE,
                   "nothing was done: %" PRId64
                   " dead letters were shown, and now there are %" PRId64,
                   shown, n);
}
