/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FILTER_H
#define REPRISE_FILTER_H

#include <stdio.h>

#include "query.h"

/* Which dead letters are meant: one language for all commands, as flags and as expressions.
 *
 *     type = pay* and (class = *Timeout* or message ~ 'code 5\d\d') and dead_at >= 2h
 *     not status in (replayed, discarded) and attempts >= 3 and category != none
 *
 * rp_filter_help prints all of it. What is said several times must all hold. What has no value (the
 * type of an event that could not be decoded) is equal to nothing but `none`. */
struct rp_filter;

/* Times like "2h" count back from `now_ms`. */
RP_NODISCARD int rp_filter_new(int64_t now_ms, struct rp_filter **out, struct rp_error *err);
void rp_filter_free(struct rp_filter *f);

/* One flag: `--field value`. The value is taken as it stands: "a,b" for one of several, and in
 * front one of = != < <= > >= ~ !~ where the field knows it. A failure leaves the filter as it
 * was. */
RP_NODISCARD int rp_filter_flag(struct rp_filter *f, const char *field, const char *value,
                                struct rp_error *err);
/* The field has this value, which may be a glob. It is no list, no operator, and not `none`,
 * whatever it looks like. */
RP_NODISCARD int rp_filter_is(struct rp_filter *f, const char *field, const char *value,
                              struct rp_error *err);
/* `--where expression`, as often as it comes. A failure leaves the filter as it was and says "at
 * 17: ...", in characters from 1. */
RP_NODISCARD int rp_filter_where(struct rp_filter *f, const char *expression, struct rp_error *err);
/* The byte of the expression at which the last rp_filter_where failed. */
size_t rp_filter_error_at(const struct rp_filter *f);

/* Whether nothing was said: all are meant. An expression that says `all` is something said. */
bool rp_filter_is_empty(const struct rp_filter *f);
/* Whether a field is named anywhere, for example "status". */
bool rp_filter_names(const struct rp_filter *f, const char *field);

/* A group that is named by its first digits: which are these, and the lowest and the highest
 * fingerprint, as the database has them, that begin so. */
struct rp_filter_prefix {
    const char *text;
    int64_t low, high;
};
/* The i-th, from 0 on; false: there are not so many. */
bool rp_filter_prefix(const struct rp_filter *f, size_t i, struct rp_filter_prefix *out);

/* Has the database look at the regular expressions. POISON: it refuses one. */
RP_NODISCARD int rp_filter_check(const struct rp_filter *f, struct rp_db *db, struct rp_error *err);

/* Appends "(...)" over the view archive AS d, parameters into q. An empty filter appends "true".
 * Never null. */
RP_NODISCARD int rp_filter_sql(const struct rp_filter *f, struct rp_query *q, struct rp_error *err);

/* Appends a table AS d for the condition of rp_filter_sql, if only dead_at and id are wanted of it:
 * the view archive; or dead_letter_state, where the filter asks for nothing else, and means only
 * those to which something was done. PostgreSQL thinks far too little of joining the two. */
void rp_filter_source(const struct rp_filter *f, struct rp_query *q);

/* Appends a query for dead_at and id of the newest `limit`, the newest first; of those before one
 * where `before_at` and `before_id` name it, NULL: of all. A countable filter is answered by way of
 * the rollup, which knows the hours and groups where they are; so one that few dead letters match,
 * or none, costs no more than another. PostgreSQL does best without hash and merge joins. */
RP_NODISCARD int rp_filter_list_sql(const struct rp_filter *f, const char *before_at,
                                    const char *before_id, int64_t limit, struct rp_query *q,
                                    struct rp_error *err);

/* The filter as one expression, times absolute, that rp_filter_where reads back to the same. */
RP_NODISCARD int rp_filter_text(const struct rp_filter *f, struct rp_buf *out,
                                struct rp_error *err);

/* Whether it asks for nothing that the tables dead_letter_count and error_group do not have: type,
 * class, reason, category, group and status in any way, and one time range. */
bool rp_filter_countable(const struct rp_filter *f);
/* Appends a subquery in parentheses, to be counted by sum(n), with the columns hour, task_type,
 * reason, category, fingerprint, status, n, came_back, first_at, last_at. A countable filter is
 * answered from whole hours of dead_letter_count, and from the rows of the hours that its range
 * cuts; any other from the rows. */
RP_NODISCARD int rp_filter_count_sql(const struct rp_filter *f, struct rp_query *q,
                                     struct rp_error *err);

/* The language, for people: fields, operators, examples. */
void rp_filter_help(FILE *out);

#endif
