/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_node.h"

#include <string.h>

#include "glob.h"
#include "units.h"

/* How a value is compared. */
enum form { NONE, TRUTH, RANGE, GLOB, PLAIN };

static enum form form_of(const struct rp_filter_node *term, const struct rp_filter_value *v)
{
    enum rp_filter_kind kind = rp_filter_fields[term->field].kind;
    if (v->none)
        return NONE;
    if (kind == RP_FILTER_BOOL)
        return TRUTH;
    if (kind == RP_FILTER_GROUP && v->low != v->high)
        return RANGE;
    bool text = kind == RP_FILTER_NAME || kind == RP_FILTER_TEXT;
    return text && rp_glob_is(v->text) ? GLOB : PLAIN;
}

/* PostgreSQL would take the column's type for a parameter, and refuse what is too large for it. */
static const char *type_of(const struct rp_filter_node *term)
{
    switch (rp_filter_fields[term->field].kind) {
    case RP_FILTER_TIME:
        return "::timestamptz";
    case RP_FILTER_INT:
    case RP_FILTER_GROUP:
        return "::bigint";
    case RP_FILTER_NAME:
    case RP_FILTER_TEXT:
    case RP_FILTER_REASON:
    case RP_FILTER_STATUS:
    case RP_FILTER_BOOL:
        break;
    }
    return "::text";
}

static void append(struct rp_query *q, struct rp_buf *b, const char *text, size_t n)
{
    if (rp_buf_append(b, text, n, NULL) != 0)
        q->failed = true;
}

/* `text` as LIKE has it; wildcards only where it is a glob. */
static void append_like(struct rp_query *q, struct rp_buf *b, const char *text, bool glob)
{
    for (; *text != '\0'; text++) {
        if (glob && (*text == '*' || *text == '?')) {
            append(q, b, *text == '*' ? "%" : "_", 1);
            continue;
        }
        if (strchr("%_\\", *text) != NULL)
            append(q, b, "\\", 1);
        append(q, b, text, 1);
    }
}

static void append_value(struct rp_query *q, struct rp_buf *b, const struct rp_filter_node *term,
                         const struct rp_filter_value *v)
{
    char number[RP_UNIT_TEXT], time[RP_FILTER_TIME_TEXT];
    enum rp_filter_kind kind = rp_filter_fields[term->field].kind;
    const char *text = v->text;
    if (kind == RP_FILTER_TIME)
        text = rp_filter_time_text(v->low, time);
    else if (kind == RP_FILTER_INT || kind == RP_FILTER_GROUP)
        text = rp_format_int(v->low, number);
    if (form_of(term, v) == GLOB)
        append_like(q, b, text, true);
    else
        append(q, b, text, strlen(text));
}

/* Makes the text a parameter, and empties it. */
static void add_param(struct rp_query *q, struct rp_buf *text)
{
    append(q, text, "", 1);
    if (!q->failed)
        rp_query_param(q, (const char *)text->data);
    rp_buf_clear(text);
}

/* Whether a status other than `dead` is asked for: then the few rows that have a state are enough.
 */
static bool is_done(const struct rp_filter_node *term)
{
    if (term->field != RP_FIELD_STATUS)
        return false;
    for (size_t i = 0; i < term->n_values; i++)
        if (term->values[i].none || strcmp(term->values[i].text, "dead") == 0)
            return false;
    return true;
}

static void add_column(struct rp_query *q, const struct rp_filter_node *term, bool *first)
{
    if (!*first)
        rp_query_add(q, " OR ");
    *first = false;
    rp_query_add(q, is_done(term) ? "d.state_" : "d.");
    rp_query_add(q, rp_filter_fields[term->field].column);
}

/* The values of this form: one as it is, more as an array. */
static void add_many(struct rp_query *q, const struct rp_filter_node *term, enum form form,
                     bool *first)
{
    struct rp_buf only = {0}, array = {0};
    size_t n = 0;
    for (size_t i = 0; i < term->n_values; i++) {
        if (form_of(term, &term->values[i]) != form)
            continue;
        n++;
        only.len = 0;
        append_value(q, &only, term, &term->values[i]);
        if (rp_query_append_element(&array, rp_buf_bytes(&only), NULL) != 0)
            q->failed = true;
    }
    if (n > 0) {
        add_column(q, term, first);
        rp_query_add(q, form == GLOB ? " LIKE " : " = ");
        rp_query_add(q, n == 1 ? "" : "ANY(");
        append(q, &array, "}", 1);
        add_param(q, n == 1 ? &only : &array);
        rp_query_add(q, type_of(term));
        rp_query_add(q, n == 1 ? "" : "[])");
    }
    rp_buf_clear(&only);
    rp_buf_clear(&array);
}

static void add_single(struct rp_query *q, const struct rp_filter_node *term,
                       const struct rp_filter_value *v, bool *first)
{
    enum form form = form_of(term, v);
    if (form == PLAIN || form == GLOB)
        return;
    add_column(q, term, first);
    if (form != RANGE) {
        rp_query_add(q, form == TRUTH && v->low == 1 ? " IS NOT NULL" : " IS NULL");
        return;
    }
    rp_query_add(q, " BETWEEN ");
    rp_query_param_int(q, v->low);
    rp_query_add(q, "::bigint AND ");
    rp_query_param_int(q, v->high);
    rp_query_add(q, "::bigint");
}

static void add_contains(struct rp_query *q, const char *text)
{
    struct rp_buf like = {0};
    append(q, &like, "%", 1);
    append_like(q, &like, text, false);
    append(q, &like, "%", 1);
    rp_query_add(q, " ILIKE ");
    add_param(q, &like);
}

static void add_comparison(struct rp_query *q, const struct rp_filter_node *term)
{
    static const char *const operators[] = {
        [RP_OP_LT] = " < ",  [RP_OP_LE] = " <= ",   [RP_OP_GT] = " > ",
        [RP_OP_GE] = " >= ", [RP_OP_MATCH] = " ~ ",
    };
    struct rp_buf text = {0};
    bool first = true;
    add_column(q, term, &first);
    if (term->op == RP_OP_CONTAINS) {
        add_contains(q, term->values->text);
        return;
    }
    rp_query_add(q, operators[term->op]);
    append_value(q, &text, term, term->values);
    if (term->op == RP_OP_MATCH) { /* no glob, whatever is in it */
        text.len = 0;
        append(q, &text, term->values->text, strlen(term->values->text));
    }
    add_param(q, &text);
    rp_query_add(q, type_of(term));
}

/* Whether `dead` is among the statuses that are asked for, and no wildcard is. */
static bool is_backlog(const struct rp_filter_node *term)
{
    bool dead = false;
    if (term->field != RP_FIELD_STATUS || term->op != RP_OP_EQ)
        return false;
    for (size_t i = 0; i < term->n_values; i++) {
        if (form_of(term, &term->values[i]) != PLAIN)
            return false;
        dead = dead || strcmp(term->values[i].text, "dead") == 0;
    }
    return dead;
}

/* Most dead letters are `dead`, which PostgreSQL cannot know of an expression: it takes one that is
 * equal to something for rare, and one that differs for frequent. */
static void add_backlog(struct rp_query *q, const struct rp_filter_node *term)
{
    static const char *const others[] = {"replaying", "replayed", "discarded"};
    rp_query_add(q, "(d.status <> ALL('{");
    bool first = true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool wanted = false;
        for (size_t k = 0; k < term->n_values; k++)
            wanted = wanted || strcmp(term->values[k].text, others[i]) == 0;
        if (wanted)
            continue;
        rp_query_add(q, first ? "" : ",");
        rp_query_add(q, others[i]);
        first = false;
    }
    rp_query_add(q, "}'))");
}

static void add_term(struct rp_query *q, const struct rp_filter_node *term)
{
    bool first = true;
    if (is_backlog(term)) {
        add_backlog(q, term);
        return;
    }
    rp_query_add(q, "(");
    if (term->op != RP_OP_EQ)
        add_comparison(q, term);
    for (size_t i = 0; term->op == RP_OP_EQ && i < term->n_values; i++)
        add_single(q, term, &term->values[i], &first);
    if (term->op == RP_OP_EQ) {
        add_many(q, term, PLAIN, &first);
        add_many(q, term, GLOB, &first);
    }
    rp_query_add(q, ")");
}

/* Null counts as false: and and or keep to that by themselves, as long as only the whole is asked
 * for its truth; NOT has to be told. Depth is bounded by the parser. */
static void add_node(struct rp_query *q, const struct rp_filter_node *n)
{
    if (n->kind == RP_NODE_TERM) {
        add_term(q, n);
        return;
    }
    rp_query_add(q, n->first == NULL ? "(true" : "(");
    for (const struct rp_filter_node *c = n->first; c != NULL; c = c->next) {
        if (c != n->first)
            rp_query_add(q, n->kind == RP_NODE_AND ? " AND " : " OR ");
        add_node(q, c);
    }
    rp_query_add(q, n->kind == RP_NODE_NOT ? " IS NOT TRUE)" : ")");
}

void rp_filter_conditions(const struct rp_filter *f, bool times, struct rp_query *q)
{
    bool some = false;
    for (const struct rp_filter_node *c = f->root.first; c != NULL; c = c->next) {
        if (!times && c->kind == RP_NODE_TERM && c->field == RP_FIELD_DEAD_AT)
            continue;
        rp_query_add(q, some ? " AND " : "(");
        some = true;
        add_node(q, c);
    }
    rp_query_add(q, some ? ")" : "true");
}

static int no_memory(const struct rp_query *q, struct rp_error *err)
{
    return q->failed ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE,
                               "no memory for a filter, or too many values in it")
                     : 0;
}

int rp_filter_sql(const struct rp_filter *f, struct rp_query *q, struct rp_error *err)
{
    rp_filter_conditions(f, true, q);
    return no_memory(q, err);
}

static int check_node(const struct rp_filter_node *n, struct rp_db *db, struct rp_error *err)
{
    if (n->kind == RP_NODE_TERM && n->op == RP_OP_MATCH) {
        const char *values[] = {n->values->text};
        if (rp_db_query(db, "SELECT '' ~ $1", 1, values, NULL, err) != 0)
            return rp_fail_in(err, "the regular expression of %s", rp_filter_fields[n->field].name);
    }
    for (const struct rp_filter_node *c = n->first; c != NULL; c = c->next)
        if (check_node(c, db, err) != 0)
            return -1;
    return 0;
}

int rp_filter_check(const struct rp_filter *f, struct rp_db *db, struct rp_error *err)
{
    return check_node(&f->root, db, err);
}
