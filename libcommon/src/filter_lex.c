/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_lex.h"

#include <string.h>

#define SPACE " \t\r\n"
/* What ends a word. */
#define BORDER SPACE "()'\",=!<>~"

/* The longer of those that begin alike first. */
static const struct {
    const char *text;
    enum rp_filter_op op;
    bool negated;
} operators[] = {
    {"<=", RP_OP_LE, false},   {"<>", RP_OP_EQ, true},  {"<", RP_OP_LT, false},
    {">=", RP_OP_GE, false},   {">", RP_OP_GT, false},  {"!=", RP_OP_EQ, true},
    {"!~", RP_OP_MATCH, true}, {"==", RP_OP_EQ, false}, {"=", RP_OP_EQ, false},
    {"~", RP_OP_MATCH, false},
};

size_t rp_filter_lex_op(const char *text, enum rp_filter_op *op, bool *negated)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t n = strlen(operators[i].text);
        if (strncmp(text, operators[i].text, n) == 0) {
            *op = operators[i].op;
            *negated = operators[i].negated;
            return n;
        }
    }
    return 0;
}

/* A string ends at its quote; one that is doubled belongs to it. */
static const char *lex_string(const char *text, size_t *at, struct rp_filter_token *out)
{
    const char *begin = text + *at + 1, *end = begin;
    char quote = begin[-1];
    while ((end = strchr(end, quote)) != NULL && end[1] == quote)
        end += 2;
    if (end == NULL)
        return "this quote is never closed";
    out->kind = RP_TOKEN_STRING;
    out->text = (struct rp_bytes){begin, (size_t)(end - begin)};
    *at = (size_t)(end + 1 - text);
    return NULL;
}

const char *rp_filter_lex(const char *text, size_t *at, struct rp_filter_token *out)
{
    static const char marks[] = "(),";
    static const enum rp_filter_token_kind singles[] = {RP_TOKEN_OPEN, RP_TOKEN_CLOSE,
                                                        RP_TOKEN_COMMA};
    *at += strspn(text + *at, SPACE);
    const char *p = text + *at, *single = *p == '\0' ? NULL : strchr(marks, *p);
    *out = (struct rp_filter_token){.at = *at, .text = {p, 0}};
    if (*p == '\'' || *p == '"')
        return lex_string(text, at, out);
    if (single != NULL) {
        out->kind = singles[single - marks];
        out->text.len = 1;
    } else if ((out->text.len = rp_filter_lex_op(p, &out->op, &out->negated)) > 0) {
        out->kind = RP_TOKEN_OP;
    } else if ((out->text.len = strcspn(p, BORDER)) > 0) {
        out->kind = RP_TOKEN_WORD;
    } else if (*p != '\0') {
        return "this is no operator; != and !~ are";
    }
    *at += out->text.len;
    return NULL;
}
