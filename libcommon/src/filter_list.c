/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_node.h"

#include <string.h>

/* Whether dead_letter_state has the field, or error_group for it. */
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

static bool is_state_enough(const struct rp_filter *f)
{
    bool state = false;
    for (const struct rp_filter_node *c = f->root.first; c != NULL; c = c->next)
        state = state || wants_state(c);
    for (int i = 0; state && i < RP_N_FIELDS; i++)
        state = is_of_state((enum rp_filter_field)i) ||
                !rp_filter_node_names(&f->root, (enum rp_filter_field)i);
    return state;
}

void rp_filter_source(const struct rp_filter *f, struct rp_query *q)
{
    if (!is_state_enough(f))
        rp_query_add(q, "archive AS d");
    else if (rp_filter_node_names(&f->root, RP_FIELD_CLASS))
        rp_query_add(q, "(SELECT s.*, s.status AS state_status, CASE WHEN g.fingerprint IS NULL"
                        " THEN (SELECT l.error_class FROM dead_letter AS l"
                        "  WHERE l.dead_at = s.dead_at AND l.id = s.id)"
                        " ELSE g.error_class END AS error_class FROM dead_letter_state AS s"
                        " LEFT JOIN error_group AS g ON g.fingerprint = s.fingerprint) AS d");
    else
        rp_query_add(q, "(SELECT s.*, s.status AS state_status FROM dead_letter_state AS s) AS d");
}

struct list {
    const struct rp_filter *f;
    const char *before_at, *before_id; /* NULL: from the newest on */
    int64_t limit;
};

/* Whether the rollup knows where the dead letters are. All of a time are next to each other. */
static bool has_places(const struct rp_filter *f)
{
    bool some = false;
    for (int i = 0; i < RP_N_FIELDS; i++)
        some = some ||
               (i != RP_FIELD_DEAD_AT && rp_filter_node_names(&f->root, (enum rp_filter_field)i));
    return some && rp_filter_countable(f);
}

/* The hours and groups where matching dead letters are. `sure` are those of hours that are in the
 * list's time as a whole: of others there may be as many, or none. */
static void add_places(const struct list *l, struct rp_query *q)
{
    struct rp_filter_range r = rp_filter_range(l->f);
    struct rp_filter_range in = rp_filter_hours_in(&r), around = rp_filter_hours_around(&r);
    bool by_class = rp_filter_node_names(&l->f->root, RP_FIELD_CLASS);
    rp_query_add(q, "SELECT d.hour, d.fingerprint, coalesce(sum(d.n) FILTER (WHERE ");
    rp_query_add(q, by_class ? "NOT d.groupless" : "true");
    rp_filter_add_range(&in, "d.hour", q);
    if (l->before_at != NULL) {
        rp_query_add(q, " AND d.hour < dead_letter_hour(");
        rp_query_param(q, l->before_at);
        rp_query_add(q, "::timestamptz)");
    }
    rp_query_add(q, "), 0) AS sure FROM ");
    rp_filter_add_rollup(l->f, q);
    rp_query_add(q, " WHERE (");
    rp_filter_conditions(l->f, false, q);
    rp_query_add(q, by_class ? " OR d.groupless)" : ")");
    rp_filter_add_range(&around, "d.hour", q);
    if (l->before_at != NULL) {
        rp_query_add(q, " AND d.hour <= ");
        rp_query_param(q, l->before_at);
        rp_query_add(q, "::timestamptz");
    }
    rp_query_add(q, " GROUP BY d.hour, d.fingerprint HAVING sum(d.n) > 0");
}

static void add_rows(const struct list *l, const char *place, struct rp_query *q)
{
    rp_query_add(q, "SELECT d.dead_at, d.id FROM ");
    rp_filter_source(l->f, q);
    rp_query_add(q, " WHERE ");
    rp_filter_conditions(l->f, true, q);
    rp_query_add(q, place);
    if (l->before_at != NULL)
        rp_query_add_page(q, RP_QUERY_BEFORE, l->before_at, l->before_id);
    rp_query_add(q, " ORDER BY d.dead_at DESC, d.id DESC LIMIT ");
    rp_query_param_int(q, l->limit);
}

/* Of each place the newest, back to the hour at which there are enough for certain. */
static void add_rows_of_places(const struct list *l, struct rp_query *q)
{
    rp_query_add(q, "WITH places AS MATERIALIZED (");
    add_places(l, q);
    rp_query_add(q, "), hours AS (SELECT hour, sum(sum(sure)) OVER (ORDER BY hour DESC) - sum(sure)"
                    " AS newer FROM places GROUP BY hour)"
                    " SELECT r.dead_at, r.id FROM hours JOIN places ON places.hour = hours.hour"
                    " CROSS JOIN LATERAL (");
    add_rows(l,
             " AND d.fingerprint = places.fingerprint AND d.dead_at >= places.hour"
             " AND d.dead_at < places.hour + interval '1 hour'",
             q);
    rp_query_add(q, ") AS r WHERE hours.newer < ");
    rp_query_param_int(q, l->limit);
    rp_query_add(q, " ORDER BY r.dead_at DESC, r.id DESC LIMIT ");
    rp_query_param_int(q, l->limit);
}

int rp_filter_list_sql(const struct rp_filter *f, const char *before_at, const char *before_id,
                       int64_t limit, struct rp_query *q, struct rp_error *err)
{
    const struct list l = {f, before_at, before_id, limit};
    if (has_places(f))
        add_rows_of_places(&l, q);
    else
        add_rows(&l, "", q);
    return q->failed ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a filter") : 0;
}
