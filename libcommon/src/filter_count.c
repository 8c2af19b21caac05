/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_node.h"

#define HOUR_MS INT64_C(3600000)

/* The field that the one of this name is stored as. */
static enum rp_filter_field stored(enum rp_filter_field field)
{
    return field == RP_FIELD_SINCE || field == RP_FIELD_UNTIL ? RP_FIELD_DEAD_AT : field;
}

bool rp_filter_node_names(const struct rp_filter_node *n, enum rp_filter_field field)
{
    if (n->kind == RP_NODE_TERM)
        return n->field == field;
    for (const struct rp_filter_node *c = n->first; c != NULL; c = c->next)
        if (rp_filter_node_names(c, field))
            return true;
    return false;
}

bool rp_filter_is_empty(const struct rp_filter *f)
{
    return !f->said;
}

bool rp_filter_names(const struct rp_filter *f, const char *field)
{
    return rp_filter_node_names(&f->root, stored(rp_filter_field(field)));
}

static bool is_bound(const struct rp_filter_node *n)
{
    return n->kind == RP_NODE_TERM && n->field == RP_FIELD_DEAD_AT && n->op != RP_OP_EQ;
}

bool rp_filter_countable(const struct rp_filter *f)
{
    for (int i = 0; i < RP_N_FIELDS; i++)
        if (!rp_filter_fields[i].countable &&
            rp_filter_node_names(&f->root, (enum rp_filter_field)i))
            return false;
    for (const struct rp_filter_node *c = f->root.first; c != NULL; c = c->next)
        if (!is_bound(c) && rp_filter_node_names(c, RP_FIELD_DEAD_AT))
            return false;
    return true;
}

static int64_t floor_hour(int64_t ms)
{
    int64_t rest = ms % HOUR_MS;
    return ms - (rest < 0 ? rest + HOUR_MS : rest);
}

static int64_t ceil_hour(int64_t ms)
{
    return floor_hour(ms + HOUR_MS - 1);
}

static void narrow(struct rp_filter_range *r, const struct rp_filter_node *bound)
{
    bool from = bound->op == RP_OP_GE || bound->op == RP_OP_GT;
    int64_t ms = bound->values->low + (bound->op == RP_OP_GT || bound->op == RP_OP_LE ? 1 : 0);
    if (from && (!r->has_from || ms > r->from_ms)) {
        r->has_from = true;
        r->from_ms = ms;
    } else if (!from && (!r->has_to || ms < r->to_ms)) {
        r->has_to = true;
        r->to_ms = ms;
    }
}

struct rp_filter_range rp_filter_range(const struct rp_filter *f)
{
    struct rp_filter_range r = {0};
    for (const struct rp_filter_node *c = f->root.first; c != NULL; c = c->next)
        if (is_bound(c))
            narrow(&r, c);
    return r;
}

struct rp_filter_range rp_filter_hours_in(const struct rp_filter_range *r)
{
    return (struct rp_filter_range){r->has_from, r->has_to, ceil_hour(r->from_ms),
                                    floor_hour(r->to_ms)};
}

struct rp_filter_range rp_filter_hours_around(const struct rp_filter_range *r)
{
    return (struct rp_filter_range){r->has_from, r->has_to, floor_hour(r->from_ms - 1),
                                    ceil_hour(r->to_ms)};
}

static void add_time(struct rp_query *q, bool has, int64_t ms, const char *otherwise)
{
    char time[RP_FILTER_TIME_TEXT];
    rp_query_param(q, has ? rp_filter_time_text(ms, time) : otherwise);
    rp_query_add(q, "::timestamptz");
}

void rp_filter_add_range(const struct rp_filter_range *r, const char *column, struct rp_query *q)
{
    if (r->has_from) {
        rp_query_add(q, " AND ");
        rp_query_add(q, column);
        rp_query_add(q, " >= ");
        add_time(q, true, r->from_ms, NULL);
    }
    if (r->has_to) {
        rp_query_add(q, " AND ");
        rp_query_add(q, column);
        rp_query_add(q, " < ");
        add_time(q, true, r->to_ms, NULL);
    }
}

void rp_filter_add_rollup(const struct rp_filter *f, struct rp_query *q)
{
    bool by_class = rp_filter_node_names(&f->root, RP_FIELD_CLASS);
    rp_query_add(q, "(SELECT c.*, c.status AS state_status");
    rp_query_add(q, by_class ? ", g.error_class, g.fingerprint IS NULL AS groupless"
                               " FROM dead_letter_count AS c"
                               " LEFT JOIN error_group AS g ON g.fingerprint = c.fingerprint"
                             : " FROM dead_letter_count AS c");
    rp_query_add(q, ") AS d");
}

/* Rows of a range look like lines of the rollup that count one. */
static void add_rows(const struct rp_filter *f, const struct rp_filter_range *r, struct rp_query *q)
{
    rp_query_add(q, "SELECT date_trunc('hour', d.dead_at, 'UTC') AS hour, d.task_type, d.reason,"
                    " d.category, d.fingerprint, d.status, 1::bigint AS n,"
                    " (d.came_back_at IS NOT NULL)::int::bigint AS came_back,"
                    " d.dead_at AS first_at, d.dead_at AS last_at FROM archive_between(");
    add_time(q, r->has_from, r->from_ms, "-infinity");
    rp_query_add(q, ", ");
    add_time(q, r->has_to, r->to_ms, "infinity");
    rp_query_add(q, ") AS d WHERE ");
    rp_filter_conditions(f, true, q);
}

static void add_hours(const struct rp_filter *f, const struct rp_filter_range *hours,
                      struct rp_query *q)
{
    rp_query_add(q, "SELECT d.hour, d.task_type, d.reason, d.category, d.fingerprint, d.status,"
                    " d.n, d.came_back, d.first_at, d.last_at FROM ");
    rp_filter_add_rollup(f, q);
    rp_query_add(q, " WHERE ");
    rp_filter_conditions(f, false, q);
    rp_filter_add_range(hours, "d.hour", q);
}

/* What was archived before there were groups is of none, and only the rows have their class. */
static void add_groupless(const struct rp_filter *f, const struct rp_filter_range *hours,
                          struct rp_query *q)
{
    rp_query_add(q, " AND NOT d.groupless UNION ALL SELECT l.* FROM (SELECT DISTINCT c.fingerprint"
                    " FROM dead_letter_count AS c WHERE NOT EXISTS (SELECT FROM error_group AS g"
                    " WHERE g.fingerprint = c.fingerprint)) AS u, LATERAL (");
    add_rows(f, hours, q);
    rp_query_add(q, " AND d.fingerprint = u.fingerprint OFFSET 0) AS l"); /* not read for no u */
}

static void add_hours_and_rest(const struct rp_filter *f, const struct rp_filter_range *r,
                               struct rp_query *q)
{
    struct rp_filter_range hours = rp_filter_hours_in(r);
    add_hours(f, &hours, q);
    if (rp_filter_node_names(&f->root, RP_FIELD_CLASS))
        add_groupless(f, &hours, q);
    if (r->has_from) {
        rp_query_add(q, " UNION ALL ");
        add_rows(f, &(struct rp_filter_range){true, true, r->from_ms - 1, hours.from_ms}, q);
    }
    if (r->has_to) {
        rp_query_add(q, " UNION ALL ");
        add_rows(f, &(struct rp_filter_range){true, true, hours.to_ms, r->to_ms}, q);
    }
}

/* Whether there is a whole hour in it. */
static bool is_wide(const struct rp_filter_range *r)
{
    struct rp_filter_range hours = rp_filter_hours_in(r);
    return !r->has_from || !r->has_to || hours.from_ms < hours.to_ms;
}

int rp_filter_count_sql(const struct rp_filter *f, struct rp_query *q, struct rp_error *err)
{
    struct rp_filter_range r = rp_filter_range(f);
    rp_query_add(q, "(SELECT hour, task_type, reason, category, fingerprint, status,"
                    " sum(n)::bigint AS n, sum(came_back)::bigint AS came_back,"
                    " min(first_at) FILTER (WHERE n > 0) AS first_at,"
                    " max(last_at) FILTER (WHERE n > 0) AS last_at FROM (");
    if (rp_filter_countable(f) && is_wide(&r))
        add_hours_and_rest(f, &r, q);
    else
        add_rows(f, &(struct rp_filter_range){r.has_from, r.has_to, r.from_ms - 1, r.to_ms}, q);
    /* What was added and has gone again leaves lines that sum up to nothing. */
    rp_query_add(q, ") AS lines GROUP BY hour, task_type, reason, category, fingerprint, status"
                    " HAVING sum(n) <> 0)");
    return q->failed ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a filter") : 0;
}
