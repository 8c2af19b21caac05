/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FILTER_LEX_H
#define REPRISE_FILTER_LEX_H

#include "filter_node.h"

enum rp_filter_token_kind {
    RP_TOKEN_END,
    RP_TOKEN_WORD,
    RP_TOKEN_STRING,
    RP_TOKEN_OPEN,
    RP_TOKEN_CLOSE,
    RP_TOKEN_COMMA,
    RP_TOKEN_OP,
};

struct rp_filter_token {
    enum rp_filter_token_kind kind;
    size_t at;            /* its first byte */
    struct rp_bytes text; /* as it stands; of a string what is between its quotes */
    enum rp_filter_op op; /* of an operator */
    bool negated;         /* != and !~ */
};

/* Reads the token behind `*at`, and moves `*at` behind it. NULL, or what is wrong at `out->at`. */
const char *rp_filter_lex(const char *text, size_t *at, struct rp_filter_token *out);

/* Reads an operator that `text` begins with; its length, 0 where there is none. */
size_t rp_filter_lex_op(const char *text, enum rp_filter_op *op, bool *negated);

#endif
