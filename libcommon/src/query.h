/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_QUERY_H
#define REPRISE_QUERY_H

#include "db.h"

/* A statement that is put together from our own words alone. What came from outside goes in as
 * parameters. A zeroed one is empty and ready; want of memory shows when it is run. */
struct rp_query {
    struct rp_buf sql;
    char **values;
    int n; /* parameters so far */
    size_t room;
    bool failed; /* no memory, or too many parameters */
};

/* Appends words of ours. */
void rp_query_add(struct rp_query *q, const char *sql);
/* Appends "$n" and keeps a copy of the value as that parameter. NULL is null. */
void rp_query_param(struct rp_query *q, const char *value);
void rp_query_param_int(struct rp_query *q, int64_t value);

/* Appends one more element to an array's text, which as a parameter wants a "}" behind the last. */
RP_NODISCARD int rp_query_append_element(struct rp_buf *array, struct rp_bytes text,
                                         struct rp_error *err);

/* Appends " AND ..." for the rows AS d that come before or behind one, in the order of (dead_at,
 * id). */
enum rp_query_side { RP_QUERY_BEFORE, RP_QUERY_BEHIND };
void rp_query_add_page(struct rp_query *q, enum rp_query_side side, const char *dead_at,
                       const char *id);

/* Scripts: from here on a connection joins rows of the archive with their states one by one, by the
 * index; and then as it likes again. A page is few rows, for each of which PostgreSQL may rather
 * read all the states there are, or an index from its beginning. */
#define RP_QUERY_ONE_BY_ONE "SET enable_mergejoin = off; SET enable_hashjoin = off"
#define RP_QUERY_AS_PLANNED "RESET enable_mergejoin; RESET enable_hashjoin"

/* Runs it; it may be run again. `out` as rp_db_query has it. */
RP_NODISCARD int rp_query_run(struct rp_query *q, struct rp_db *db, PGresult **out,
                              struct rp_error *err);
void rp_query_clear(struct rp_query *q);

/* A SELECT: up to when all that was archived is to be seen. `archived_at` is when the transaction
 * began, and what archivers have under way shows only once they commit. Of sessions of another role
 * PostgreSQL tells that, and their state, only with pg_read_all_stats; a batch takes 30 s. */
#define RP_QUERY_SEEN_UNTIL                                                                        \
    "SELECT least(clock_timestamp(), (SELECT min(CASE WHEN state IS NULL"                          \
    "  THEN clock_timestamp() - interval '30 s' ELSE xact_start - interval '1 us' END)"            \
    " FROM pg_stat_activity WHERE datname = current_database() AND application_name IN"            \
    " (SELECT left(owner, 63) FROM archive_offset)))"

/* What a person said yes to is as many rows as were shown: fails, RETRIABLE, where there are more
 * by now (an import, another one's replay that was cancelled), of which nobody knows. `shown` 0:
 * nobody was asked. */
RP_NODISCARD int rp_query_check_shown(int64_t n, int64_t shown, struct rp_error *err);

#endif
