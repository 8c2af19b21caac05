/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_node.h"

#include <string.h>

#define HOUR_MS INT64_C(3600000)

/* The whole hours from `from_ms` to before `to_ms` are the rollup's. */
struct range {
    bool has_from, has_to;
    int64_t from_ms, to_ms;
};

/* The field that the one of this name is stored as. */
static enum rp_filter_field stored(enum rp_filter_field field)
{
    return field == RP_FIELD_SINCE || field == RP_FIELD_UNTIL ? RP_FIELD_DEAD_AT : field;
}

static bool names(const struct rp_filter_node *n, enum rp_filter_field field)
{
    if (n->kind == RP_NODE_TERM)
        return n->field == field;
    for (const struct rp_filter_node *c = n->first; c != NULL; c = c->next)
        if (names(c, field))
            return true;
    return false;
}

bool rp_filter_is_empty(const struct rp_filter *f)
{
    return !f->said;
}

bool rp_filter_names(const struct rp_filter *f, const char *field)
{
    return names(&f->root, stored(rp_filter_field(field)));
}

static bool is_bound(const struct rp_filter_node *n)
{
    return n->kind == RP_NODE_TERM && n->field == RP_FIELD_DEAD_AT && n->op != RP_OP_EQ;
}

bool rp_filter_countable(const struct rp_filter *f)
{
    for (int i = 0; i < RP_N_FIELDS; i++)
        if (!rp_filter_fields[i].countable && names(&f->root, (enum rp_filter_field)i))
            return false;
    for (const struct rp_filter_node *c = f->root.first; c != NULL; c = c->next)
        if (!is_bound(c) && names(c, RP_FIELD_DEAD_AT))
            return false;
    return true;
}

/* Whether dead_letter_state has the field. */
static bool is_of_state(enum rp_filter_field field)
{
    return rp_filter_fields[field].countable || field == RP_FIELD_ID || field == RP_FIELD_JOB ||
           field == RP_FIELD_REPLAYS || field == RP_FIELD_CAME_BACK || field == RP_FIELD_STATUS_AT;
}

/* Whether it is false without a row of dead_letter_state. */
static bool wants_state(const struct rp_filter_node *n)
{
    if (n->kind != RP_NODE_TERM || n->op != RP_OP_EQ)
        return false;
    if (n->field == RP_FIELD_CAME_BACK)
        return n->n_values == 1 && n->values->low == 1;
    if (n->field != RP_FIELD_STATUS && n->field != RP_FIELD_JOB)
        return false;
    for (size_t i = 0; i < n->n_values; i++)
        if (n->values[i].none ||
            (n->field == RP_FIELD_STATUS && strcmp(n->values[i].text, "dead") == 0))
            return false;
    return true;
}

void rp_filter_source(const struct rp_filter *f, struct rp_query *q)
{
    bool state = false;
    for (const struct rp_filter_node *c = f->root.first; c != NULL; c = c->next)
        state = state || wants_state(c);
    for (int i = 0; i < RP_N_FIELDS; i++)
        if (!is_of_state((enum rp_filter_field)i) && names(&f->root, (enum rp_filter_field)i))
            state = false;
    rp_query_add(q, state
                        ? "(SELECT s.*, s.status AS state_status FROM dead_letter_state AS s) AS d"
                        : "archive AS d");
}

static int64_t floor_hour(int64_t ms)
{
    int64_t rest = ms % HOUR_MS;
    return ms - (rest < 0 ? rest + HOUR_MS : rest);
}

static void narrow(struct range *r, const struct rp_filter_node *bound)
{
    bool from = bound->op == RP_OP_GE || bound->op == RP_OP_GT;
    int64_t ms = bound->values->low + (bound->op == RP_OP_GT || bound->op == RP_OP_LE ? 1 : 0);
    int64_t hour = floor_hour(from ? ms + HOUR_MS - 1 : ms);
    if (from && (!r->has_from || hour > r->from_ms)) {
        r->has_from = true;
        r->from_ms = hour;
    } else if (!from && (!r->has_to || hour < r->to_ms)) {
        r->has_to = true;
        r->to_ms = hour;
    }
}

static void add_bound(struct rp_query *q, const char *condition, int64_t ms)
{
    char time[RP_FILTER_TIME_TEXT];
    rp_query_add(q, condition);
    rp_query_param(q, rp_filter_time_text(ms, time));
    rp_query_add(q, "::timestamptz");
}

/* Rows look like lines of the rollup that count one. */
static void add_rows(const struct rp_filter *f, struct rp_query *q)
{
    rp_query_add(q, "SELECT date_trunc('hour', d.dead_at, 'UTC') AS hour, d.task_type, d.reason,"
                    " d.category, d.fingerprint, d.status, 1::bigint AS n,"
                    " (d.came_back_at IS NOT NULL)::int::bigint AS came_back,"
                    " d.dead_at AS first_at, d.dead_at AS last_at FROM archive AS d WHERE ");
    rp_filter_conditions(f, true, q);
}

static void add_rollup(const struct rp_filter *f, const struct range *r, struct rp_query *q)
{
    rp_query_add(q, "SELECT d.hour, d.task_type, d.reason, d.category, d.fingerprint, d.status,"
                    " d.n, d.came_back, d.first_at, d.last_at"
                    " FROM (SELECT c.*, c.status AS state_status FROM dead_letter_count AS c) AS d"
                    " WHERE ");
    rp_filter_conditions(f, false, q);
    if (r->has_from)
        add_bound(q, " AND d.hour >= ", r->from_ms);
    if (r->has_to)
        add_bound(q, " AND d.hour < ", r->to_ms);
}

static void add_hours_and_rest(const struct rp_filter *f, const struct range *r, struct rp_query *q)
{
    add_rollup(f, r, q);
    if (r->has_from) {
        rp_query_add(q, " UNION ALL ");
        add_rows(f, q);
        add_bound(q, " AND d.dead_at < ", r->from_ms);
    }
    if (r->has_to) {
        rp_query_add(q, " UNION ALL ");
        add_rows(f, q);
        add_bound(q, " AND d.dead_at >= ", r->to_ms);
    }
}

int rp_filter_count_sql(const struct rp_filter *f, bool rows, struct rp_query *q,
                        struct rp_error *err)
{
    struct range r = {0};
    for (const struct rp_filter_node *c = f->root.first; c != NULL; c = c->next)
        if (is_bound(c))
            narrow(&r, c);
    rp_query_add(q, "(SELECT hour, task_type, reason, category, fingerprint, status,"
                    " sum(n)::bigint AS n, sum(came_back)::bigint AS came_back,"
                    " min(first_at) FILTER (WHERE n > 0) AS first_at,"
                    " max(last_at) FILTER (WHERE n > 0) AS last_at FROM (");
    if (rows || !rp_filter_countable(f) || (r.has_from && r.has_to && r.from_ms >= r.to_ms))
        add_rows(f, q);
    else
        add_hours_and_rest(f, &r, q);
    /* What was added and has gone again leaves lines that sum up to nothing. */
    rp_query_add(q, ") AS lines GROUP BY hour, task_type, reason, category, fingerprint, status"
                    " HAVING sum(n) <> 0)");
    return q->failed ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a filter") : 0;
}
