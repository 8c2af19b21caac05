/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "filter_lex.h"
#include "suggest.h"
#include "utf8.h"

/* Bounds for the expression of an enemy, far above any that a person writes. */
#define MAX_TEXT  65536
#define MAX_DEPTH 50

struct parser {
    struct rp_filter *f;
    const char *text;
    size_t at; /* behind the token */
    struct rp_filter_token token;
    int depth;
    struct rp_error *err;
};

static struct rp_filter_node *parse_or(struct parser *p);

/* Puts the place in front of the error, in characters from 1. Returns NULL. */
static void *place(struct parser *p, size_t at)
{
    size_t characters = 1;
    for (size_t i = 0; i < at; i++)
        characters += ((uint8_t)p->text[i] & 0xc0) != 0x80;
    p->f->error_at = at;
    (void)rp_fail_in(p->err, "at %zu", characters);
    return NULL;
}

static void *fail(struct parser *p, const char *expected)
{
    bool end = p->token.kind == RP_TOKEN_END;
    int n = p->token.text.len < 40 ? (int)p->token.text.len : 40;
    (void)rp_fail(p->err, RP_E_INVALID, RP_POISON, "expected %s, found %s%.*s%s", expected,
                  end ? "the end" : "'", n, (const char *)p->token.text.data, end ? "" : "'");
    return place(p, p->token.at);
}

static void *no_memory(struct parser *p)
{
    (void)rp_fail(p->err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a filter");
    return NULL;
}

static bool advance(struct parser *p)
{
    const char *wrong = rp_filter_lex(p->text, &p->at, &p->token);
    if (wrong == NULL)
        return true;
    (void)rp_fail(p->err, RP_E_INVALID, RP_POISON, "%s", wrong);
    return place(p, p->token.at) != NULL;
}

static bool is_word(const struct parser *p, const char *word)
{
    return p->token.kind == RP_TOKEN_WORD && p->token.text.len == strlen(word) &&
           strncasecmp(p->token.text.data, word, p->token.text.len) == 0;
}

static struct rp_filter_node *node(struct rp_filter *f, enum rp_filter_node_kind kind)
{
    struct rp_filter_node *n = rp_arena_alloc(&f->arena, sizeof *n);
    if (n != NULL)
        *n = (struct rp_filter_node){.kind = kind};
    return n;
}

static struct rp_filter_node *negate(struct rp_filter *f, struct rp_filter_node *n)
{
    if (n->kind == RP_NODE_NOT)
        return n->first;
    struct rp_filter_node *inverse = node(f, RP_NODE_NOT);
    if (inverse != NULL)
        inverse->first = inverse->last = n;
    return inverse;
}

/* Puts `child` at the end, or its children where it is of the same kind. */
static void adopt(struct rp_filter_node *parent, struct rp_filter_node *child)
{
    struct rp_filter_node *first = child, *last = child;
    if (child->kind == parent->kind) {
        first = child->first;
        last = child->last;
    }
    if (first == NULL)
        return;
    if (parent->last == NULL)
        parent->first = first;
    else
        parent->last->next = first;
    parent->last = last;
}

/* The token's text, quotes undone. */
static const char *token_text(struct parser *p)
{
    const char *from = p->token.text.data, *end = from + p->token.text.len;
    bool string = p->token.kind == RP_TOKEN_STRING;
    char *text = rp_arena_alloc(&p->f->arena, p->token.text.len + 1), *to = text;
    if (text == NULL)
        return no_memory(p);
    while (from < end) {
        if (string && *from == p->text[p->token.at])
            from++;
        *to++ = *from++;
    }
    *to = '\0';
    return text;
}

static bool parse_value(struct parser *p, struct rp_filter_node *term)
{
    struct rp_filter_value *v = &term->values[term->n_values];
    size_t at = p->token.at;
    bool bare = p->token.kind == RP_TOKEN_WORD;
    if (!bare && p->token.kind != RP_TOKEN_STRING)
        return fail(p, "a value") != NULL;
    const char *text = token_text(p);
    if (text == NULL)
        return false;
    if (rp_filter_value(p->f, term->field, term->op, text, bare, v, p->err) != 0)
        return place(p, at) != NULL;
    term->n_values++;
    if (!advance(p))
        return false;
    bool ago = bare && rp_filter_fields[term->field].kind == RP_FILTER_TIME && is_word(p, "ago");
    return !ago || advance(p);
}

static bool make_room(struct parser *p, struct rp_filter_node *term, size_t room)
{
    struct rp_filter_value *values = rp_arena_alloc(&p->f->arena, room * sizeof *values);
    if (values == NULL)
        return no_memory(p) != NULL;
    if (term->n_values > 0)
        memcpy(values, term->values, term->n_values * sizeof *values);
    term->values = values;
    return true;
}

static bool parse_list(struct parser *p, struct rp_filter_node *term)
{
    if (p->token.kind != RP_TOKEN_OPEN)
        return fail(p, "( and a list of values") != NULL;
    do {
        size_t n = term->n_values;
        bool full = (n & (n - 1)) == 0; /* room is the next power of two */
        if ((full && !make_room(p, term, n == 0 ? 1 : 2 * n)) || !advance(p) ||
            !parse_value(p, term))
            return false;
    } while (p->token.kind == RP_TOKEN_COMMA);
    if (p->token.kind != RP_TOKEN_CLOSE)
        return fail(p, ", or )") != NULL;
    return advance(p);
}

static bool parse_single(struct parser *p, struct rp_filter_node *term)
{
    return make_room(p, term, 1) && parse_value(p, term);
}

static bool unfit(struct parser *p, const char *name)
{
    (void)rp_fail(p->err, RP_E_INVALID, RP_POISON, "%s does not know this operator", name);
    return place(p, p->token.at) != NULL;
}

/* What follows a field's name. */
static bool parse_comparison(struct parser *p, struct rp_filter_node *term, bool *negated)
{
    const struct rp_filter_field_info *field = &rp_filter_fields[term->field];
    *negated = is_word(p, "not");
    if (*negated && !advance(p))
        return false;
    if (is_word(p, "in")) /* which is =, as all fields know it */
        return advance(p) && parse_list(p, term);
    if (is_word(p, "contains"))
        term->op = RP_OP_CONTAINS;
    else if (p->token.kind == RP_TOKEN_OP && !*negated)
        term->op = p->token.op;
    else
        return fail(p, *negated ? "in or contains" : "an operator (=, !=, <, in, ~, contains)") !=
               NULL;
    *negated ^= p->token.kind == RP_TOKEN_OP && p->token.negated;
    if (!rp_filter_op_fits(field->kind, term->op))
        return unfit(p, field->name);
    return advance(p) && parse_single(p, term);
}

/* `since 2h`, or `since = 2h`. */
static bool parse_bound(struct parser *p, struct rp_filter_node *term)
{
    bool equals = p->token.kind == RP_TOKEN_OP && p->token.op == RP_OP_EQ && !p->token.negated;
    term->op = term->field == RP_FIELD_SINCE ? RP_OP_GE : RP_OP_LT;
    term->field = RP_FIELD_DEAD_AT;
    return (!equals || advance(p)) && parse_single(p, term);
}

/* A truth by itself. */
static bool imply_true(struct parser *p, struct rp_filter_node *term)
{
    if (!make_room(p, term, 1))
        return false;
    term->values[term->n_values++] = (struct rp_filter_value){.text = "true", .low = 1};
    return true;
}

static enum rp_filter_field parse_field(struct parser *p)
{
    struct rp_suggestion s = {0};
    char hint[RP_HINT_TEXT];
    if (p->token.kind != RP_TOKEN_WORD) {
        (void)fail(p, "a field, not or (");
        return RP_N_FIELDS;
    }
    const char *name = token_text(p);
    if (name == NULL)
        return RP_N_FIELDS;
    enum rp_filter_field field = rp_filter_field(name);
    if (field < RP_N_FIELDS)
        return advance(p) ? field : RP_N_FIELDS;
    s.wrong = name;
    for (int i = 0; i < RP_N_FIELDS; i++)
        rp_suggest(&s, rp_filter_fields[i].name);
    (void)rp_fail(p->err, RP_E_INVALID, RP_POISON, "there is no field '%.40s'%s", name,
                  rp_suggestion_hint(&s, hint));
    (void)place(p, p->token.at);
    return RP_N_FIELDS;
}

static struct rp_filter_node *parse_term(struct parser *p)
{
    bool negated = false;
    enum rp_filter_field field = parse_field(p);
    if (field == RP_N_FIELDS)
        return NULL;
    struct rp_filter_node *term = node(p->f, RP_NODE_TERM);
    if (term == NULL)
        return no_memory(p);
    term->field = field;
    bool alone = rp_filter_fields[field].kind == RP_FILTER_BOOL && p->token.kind != RP_TOKEN_OP;
    bool ok = alone ? imply_true(p, term)
              : field == RP_FIELD_SINCE || field == RP_FIELD_UNTIL
                  ? parse_bound(p, term)
                  : parse_comparison(p, term, &negated);
    if (!ok)
        return NULL;
    struct rp_filter_node *n = negated ? negate(p->f, term) : term;
    return n == NULL ? no_memory(p) : n;
}

static struct rp_filter_node *parse_group(struct parser *p)
{
    if (++p->depth > MAX_DEPTH) {
        (void)rp_fail(p->err, RP_E_FULL, RP_POISON, "more than %d parentheses in each other",
                      MAX_DEPTH);
        return place(p, p->token.at);
    }
    struct rp_filter_node *n = advance(p) ? parse_or(p) : NULL;
    if (n == NULL)
        return NULL;
    p->depth--;
    if (p->token.kind != RP_TOKEN_CLOSE)
        return fail(p, "and, or, or )");
    return advance(p) ? n : NULL;
}

static struct rp_filter_node *parse_primary(struct parser *p)
{
    bool negated = false;
    struct rp_filter_node *n;
    for (; is_word(p, "not"); negated = !negated)
        if (!advance(p))
            return NULL;
    if (p->token.kind == RP_TOKEN_OPEN)
        n = parse_group(p);
    else if (is_word(p, "all"))
        n = (n = node(p->f, RP_NODE_AND)) == NULL ? no_memory(p) : advance(p) ? n : NULL;
    else
        n = parse_term(p);
    if (n == NULL || !negated)
        return n;
    n = negate(p->f, n);
    return n == NULL ? no_memory(p) : n;
}

/* Operands of one word; one alone stays what it is. */
static struct rp_filter_node *parse_chain(struct parser *p, const char *word,
                                          enum rp_filter_node_kind kind,
                                          struct rp_filter_node *operand(struct parser *p))
{
    struct rp_filter_node *n = operand(p);
    if (n == NULL || !is_word(p, word))
        return n;
    struct rp_filter_node *chain = node(p->f, kind);
    if (chain == NULL)
        return no_memory(p);
    adopt(chain, n);
    while (is_word(p, word)) {
        if (!advance(p) || (n = operand(p)) == NULL)
            return NULL;
        adopt(chain, n);
    }
    bool one = chain->first != NULL && chain->first->next == NULL;
    return one ? chain->first : chain; /* `all and x` is x */
}

static struct rp_filter_node *parse_and(struct parser *p)
{
    return parse_chain(p, "and", RP_NODE_AND, parse_primary);
}

static struct rp_filter_node *parse_or(struct parser *p)
{
    return parse_chain(p, "or", RP_NODE_OR, parse_and);
}

/* Text that can be a parameter, and is no enemy's. */
static int check_text(struct rp_filter *f, const char *text, struct rp_error *err)
{
    size_t len = strlen(text);
    f->error_at = len;
    if (len > MAX_TEXT)
        return rp_fail(err, RP_E_FULL, RP_POISON, "longer than %d bytes", MAX_TEXT);
    f->error_at = rp_utf8_valid_prefix(rp_str(text));
    if (f->error_at < len)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "byte %zu is no UTF-8", f->error_at + 1);
    return 0;
}

int rp_filter_where(struct rp_filter *f, const char *expression, struct rp_error *err)
{
    if (check_text(f, expression, err) != 0)
        return rp_fail_in(err, "--where");
    const char *text = rp_arena_copy(&f->arena, expression, strlen(expression) + 1);
    struct parser p = {.f = f, .text = text, .err = err};
    struct rp_filter_node *n = NULL;
    if (text == NULL)
        (void)no_memory(&p);
    else if (advance(&p))
        n = parse_or(&p);
    if (n != NULL && p.token.kind != RP_TOKEN_END)
        n = fail(&p, "and, or, or the end");
    if (n == NULL)
        return rp_fail_in(err, "--where");
    adopt(&f->root, n);
    f->said = true;
    return 0;
}

/* One value of a flag's list, and the comma behind it. */
static bool flag_value(struct parser *p, struct rp_filter_node *term, const char **text, bool list)
{
    size_t n = list ? strcspn(*text, ",") : strlen(*text);
    char *copy = rp_arena_alloc(&p->f->arena, n + 1);
    if (copy == NULL)
        return no_memory(p) != NULL;
    memcpy(copy, *text, n);
    copy[n] = '\0';
    *text += n;
    if (rp_filter_value(p->f, term->field, term->op, copy, true, &term->values[term->n_values],
                        p->err) != 0)
        return false;
    term->n_values++;
    return true;
}

static bool flag_values(struct parser *p, struct rp_filter_node *term, const char *text)
{
    enum rp_filter_kind kind = rp_filter_fields[term->field].kind;
    bool list = term->op == RP_OP_EQ && kind != RP_FILTER_TEXT && kind != RP_FILTER_BOOL;
    size_t commas = 0;
    for (const char *c = text; list && (c = strchr(c, ',')) != NULL; c++)
        commas++;
    if (!make_room(p, term, commas + 1) || !flag_value(p, term, &text, list))
        return false;
    while (*text == ',') {
        text++;
        if (!flag_value(p, term, &text, list))
            return false;
    }
    return true;
}

static struct rp_filter_node *parse_flag(struct parser *p, enum rp_filter_field field)
{
    enum rp_filter_kind kind = rp_filter_fields[field].kind;
    const char *text = p->text;
    bool negated = false, bound = field == RP_FIELD_SINCE || field == RP_FIELD_UNTIL;
    struct rp_filter_node *term = node(p->f, RP_NODE_TERM);
    if (term == NULL)
        return no_memory(p);
    term->field = bound ? RP_FIELD_DEAD_AT : field;
    term->op = kind == RP_FILTER_TEXT ? RP_OP_CONTAINS : RP_OP_EQ;
    if (bound)
        term->op = field == RP_FIELD_SINCE ? RP_OP_GE : RP_OP_LT;
    else
        text += rp_filter_lex_op(text, &term->op, &negated);
    if (!rp_filter_op_fits(kind, term->op)) {
        (void)rp_fail(p->err, RP_E_INVALID, RP_POISON, "does not know this operator");
        return NULL;
    }
    if (kind == RP_FILTER_BOOL && *text == '\0' ? !imply_true(p, term)
                                                : !flag_values(p, term, text))
        return NULL;
    struct rp_filter_node *n = negated ? negate(p->f, term) : term;
    return n == NULL ? no_memory(p) : n;
}

static struct rp_filter_node *parse_exact(struct parser *p, enum rp_filter_field field)
{
    struct rp_filter_node *term = node(p->f, RP_NODE_TERM);
    const char *copy = rp_arena_copy(&p->f->arena, p->text, strlen(p->text) + 1);
    if (term == NULL || copy == NULL || !make_room(p, term, 1))
        return no_memory(p);
    term->field = field;
    term->op = RP_OP_EQ;
    if (rp_filter_value(p->f, field, term->op, copy, false, term->values, p->err) != 0)
        return NULL;
    term->n_values = 1;
    return term;
}

typedef struct rp_filter_node *parse_fn(struct parser *p, enum rp_filter_field field);

static int add_term(struct rp_filter *f, const char *field, const char *value, parse_fn *parse,
                    struct rp_error *err)
{
    struct parser p = {.f = f, .text = value, .err = err};
    enum rp_filter_field at = rp_filter_field(field);
    if (at == RP_N_FIELDS)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "there is no field '%.40s'", field);
    struct rp_filter_node *n = check_text(f, value, err) == 0 ? parse(&p, at) : NULL;
    if (n == NULL)
        return -1;
    adopt(&f->root, n);
    f->said = true;
    return 0;
}

int rp_filter_flag(struct rp_filter *f, const char *field, const char *value, struct rp_error *err)
{
    return add_term(f, field, value, parse_flag, err);
}

int rp_filter_is(struct rp_filter *f, const char *field, const char *value, struct rp_error *err)
{
    return add_term(f, field, value, parse_exact, err);
}

int rp_filter_new(int64_t now_ms, struct rp_filter **out, struct rp_error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a filter");
    **out = (struct rp_filter){.now_ms = now_ms, .root = {.kind = RP_NODE_AND}};
    return 0;
}

void rp_filter_free(struct rp_filter *f)
{
    if (f == NULL)
        return;
    rp_arena_clear(&f->arena);
    free(f);
}

size_t rp_filter_error_at(const struct rp_filter *f)
{
    return f->error_at;
}
