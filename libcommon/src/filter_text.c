/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_node.h"

#include <string.h>

#include "units.h"

struct text {
    struct rp_buf *out;
    struct rp_error *err;
    int failed;
};

static void put_bytes(struct text *t, const char *text, size_t n)
{
    if (t->failed == 0)
        t->failed = rp_buf_append(t->out, text, n, t->err);
}

static void put(struct text *t, const char *text)
{
    put_bytes(t, text, strlen(text));
}

static void put_quoted(struct text *t, const char *text)
{
    put(t, "'");
    for (const char *quote; (quote = strchr(text, '\'')) != NULL; text = quote + 1) {
        put_bytes(t, text, (size_t)(quote - text));
        put(t, "''");
    }
    put(t, text);
    put(t, "'");
}

static void put_value(struct text *t, const struct rp_filter_node *term,
                      const struct rp_filter_value *v)
{
    char number[RP_UNIT_TEXT], time[RP_FILTER_TIME_TEXT];
    enum rp_filter_kind kind = rp_filter_fields[term->field].kind;
    if (v->none)
        put(t, "none");
    else if (kind == RP_FILTER_TIME)
        put(t, rp_filter_time_text(v->low, time));
    else if (kind == RP_FILTER_INT)
        put(t, rp_format_int(v->low, number));
    else if (kind == RP_FILTER_NAME || kind == RP_FILTER_TEXT)
        put_quoted(t, v->text);
    else
        put(t, v->text);
}

static void put_term(struct text *t, const struct rp_filter_node *term, bool negated)
{
    static const char *const operators[][2] = {
        [RP_OP_EQ] = {" = ", " != "},
        [RP_OP_LT] = {" < ", NULL},
        [RP_OP_LE] = {" <= ", NULL},
        [RP_OP_GT] = {" > ", NULL},
        [RP_OP_GE] = {" >= ", NULL},
        [RP_OP_MATCH] = {" ~ ", " !~ "},
        [RP_OP_CONTAINS] = {" contains ", " not contains "},
    };
    bool list = term->n_values > 1, before = negated && operators[term->op][1] == NULL;
    put(t, before ? "not " : "");
    put(t, rp_filter_fields[term->field].name);
    if (list)
        put(t, negated ? " not in (" : " in (");
    else
        put(t, operators[term->op][negated && !before]);
    for (size_t i = 0; i < term->n_values; i++) {
        put(t, i > 0 ? ", " : "");
        put_value(t, term, &term->values[i]);
    }
    put(t, list ? ")" : "");
}

static void put_node(struct text *t, const struct rp_filter_node *n);

static void put_child(struct text *t, const struct rp_filter_node *n)
{
    bool chain = (n->kind == RP_NODE_AND || n->kind == RP_NODE_OR) && n->first != NULL;
    put(t, chain ? "(" : "");
    put_node(t, n);
    put(t, chain ? ")" : "");
}

static void put_node(struct text *t, const struct rp_filter_node *n)
{
    if (n->kind == RP_NODE_TERM) {
        put_term(t, n, false);
    } else if (n->kind == RP_NODE_NOT && n->first->kind == RP_NODE_TERM) {
        put_term(t, n->first, true);
    } else if (n->kind == RP_NODE_NOT) {
        put(t, "not ");
        put_child(t, n->first);
    } else if (n->first == NULL) {
        put(t, "all");
    }
    if (n->kind != RP_NODE_AND && n->kind != RP_NODE_OR)
        return;
    for (const struct rp_filter_node *c = n->first; c != NULL; c = c->next) {
        if (c != n->first)
            put(t, n->kind == RP_NODE_AND ? " and " : " or ");
        put_child(t, c);
    }
}

int rp_filter_text(const struct rp_filter *f, struct rp_buf *out, struct rp_error *err)
{
    struct text t = {.out = out, .err = err};
    size_t before = out->len;
    put_node(&t, &f->root);
    if (t.failed != 0)
        out->len = before;
    return t.failed;
}
