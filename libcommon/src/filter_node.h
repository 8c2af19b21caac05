/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FILTER_NODE_H
#define REPRISE_FILTER_NODE_H

#include "arena.h"
#include "filter.h"
#include "filter_fields.h"

/* A filter as a tree, for the modules filter*.c alone. */

enum rp_filter_op {
    RP_OP_EQ, /* one of the values */
    RP_OP_LT,
    RP_OP_LE,
    RP_OP_GT,
    RP_OP_GE,
    RP_OP_MATCH, /* the regular expression */
    RP_OP_CONTAINS,
};

/* By the field's kind: the text; a number; ms; 0 or 1; of a group its text, and the lowest
 * and highest fingerprint. */
struct rp_filter_value {
    bool none;
    const char *text;
    int64_t low, high;
};

enum rp_filter_node_kind { RP_NODE_AND, RP_NODE_OR, RP_NODE_NOT, RP_NODE_TERM };

/* AND and OR have children, of another kind each; AND of none is true. NOT has one, which is no
 * NOT. */
struct rp_filter_node {
    enum rp_filter_node_kind kind;
    struct rp_filter_node *first, *last; /* children */
    struct rp_filter_node *next;         /* sibling */
    enum rp_filter_field field;
    enum rp_filter_op op;
    struct rp_filter_value *values;
    size_t n_values;
};

struct rp_filter {
    int64_t now_ms;
    struct rp_arena arena;
    struct rp_filter_node root; /* AND */
    bool said;
    size_t error_at;
};

/* Whether the field's kind knows the operator. */
bool rp_filter_op_fits(enum rp_filter_kind kind, enum rp_filter_op op);
/* Reads one value. `bare`: without quotes, so that `none` is none. The text must live as long as
 * the filter. The error tells only what is wrong with it. */
RP_NODISCARD int rp_filter_value(const struct rp_filter *f, enum rp_filter_field field,
                                 enum rp_filter_op op, const char *text, bool bare,
                                 struct rp_filter_value *out, struct rp_error *err);

/* "2026-11-21T03:00:00.000Z" */
#define RP_FILTER_TIME_TEXT 32
char *rp_filter_time_text(int64_t ms, char out[RP_FILTER_TIME_TEXT]);

/* The time that the filter leaves: dead_at from `from_ms` to before `to_ms`. The database counts
 * finer than in ms, so what is at an edge is for the conditions to say. */
struct rp_filter_range {
    bool has_from, has_to;
    int64_t from_ms, to_ms;
};
struct rp_filter_range rp_filter_range(const struct rp_filter *f);
/* The whole hours in it, and all hours that have a part in it. */
struct rp_filter_range rp_filter_hours_in(const struct rp_filter_range *r);
struct rp_filter_range rp_filter_hours_around(const struct rp_filter_range *r);
/* Appends " AND column >= ... AND column < ...". */
void rp_filter_add_range(const struct rp_filter_range *r, const char *column, struct rp_query *q);

bool rp_filter_node_names(const struct rp_filter_node *n, enum rp_filter_field field);

/* Appends the table dead_letter_count with all columns that conditions of a countable filter ask
 * for, AS d; `groupless` too, where those ask for the error class, which is the group's. */
void rp_filter_add_rollup(const struct rp_filter *f, struct rp_query *q);

/* Appends the conditions of rp_filter_sql, those on dead_at only if `times`. */
void rp_filter_conditions(const struct rp_filter *f, bool times, struct rp_query *q);

#endif
