/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_DB_H
#define REPRISE_DB_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* A connection to PostgreSQL on which no call waits longer than its timeout, whatever the server or
 * the network does: it is then closed, and what was asked for may or may not have been done. One
 * thread. Text goes in and out as UTF-8, times in UTC.
 *
 * Errors: POISON, the data was refused; RETRIABLE, all else, since an operator can mend it. */
struct rp_db;

/* `dsn` is libpq's conninfo or URI; `name` shows in pg_stat_activity. */
RP_NODISCARD int rp_db_open(const char *dsn, const char *name, int64_t timeout_ms,
                            struct rp_db **out, struct rp_error *err);
void rp_db_close(struct rp_db *db);

/* How long a call may wait from now on; a lock is waited for half as long. */
RP_NODISCARD int rp_db_set_timeout(struct rp_db *db, int64_t timeout_ms, struct rp_error *err);

/* Once `*stop` is set, a call waits for 5 s at most, and then the connection is lost. */
void rp_db_heed(struct rp_db *db, const atomic_bool *stop);

/* Once `given_up()` is true, a call that waits has the server cancel what it does, and fails; the
 * connection lives. NULL, as it begins: no call does. */
void rp_db_give_up_when(struct rp_db *db, bool (*given_up)(void));
/* Whether the last call failed for that. */
bool rp_db_gave_up(const struct rp_db *db);

/* False once the connection is lost: only rp_db_close is left to do. */
bool rp_db_alive(const struct rp_db *db);

/* For rp_db_script: has the server end what it does for us soon after we are gone, where it can. */
#define RP_DB_NOTICE_WE_ARE_GONE                                                                   \
    "SELECT set_config(name, '10s', false) FROM pg_settings"                                       \
    " WHERE name = 'client_connection_check_interval'"

/* The SQLSTATE of the last call; "" where it did not fail or where the server did not say. */
const char *rp_db_sqlstate(const struct rp_db *db);
/* The last call met a deadlock, a lock that did not come in time, or a state that is not as it was
 * seen: its transaction is worth another try. */
bool rp_db_contended(const struct rp_db *db);
/* Undoes the transaction that failed; where that cannot be done now the server does, when the
 * connection ends. True: it may be tried again, since it was contended. */
bool rp_db_undo(struct rp_db *db);
/* For one who is not to wait for somebody to mend the database: makes `err` of the last call FATAL
 * where a table, a column, a function or a permission is missing, and the like. Returns -1. */
int rp_db_needs_mending(const struct rp_db *db, struct rp_error *err);

/* `text` as a quoted literal, the caller's to PQfreemem; NULL when there is no memory. */
char *rp_db_literal(struct rp_db *db, const char *text);

/* Runs one statement with `n` parameters as text; NULL is null. `*out` is the caller's to PQclear;
 * `out` may be NULL. */
RP_NODISCARD int rp_db_query(struct rp_db *db, const char *sql, int n, const char *const *values,
                             PGresult **out, struct rp_error *err);

/* The same in two: rp_db_receive waits for the answer, at most as long as the timeout from then on.
 * Meanwhile the connection is for nothing else. `binary`: the values come as PostgreSQL's own
 * binary forms. */
RP_NODISCARD int rp_db_send(struct rp_db *db, const char *sql, int n, const char *const *values,
                            bool binary, struct rp_error *err);
RP_NODISCARD int rp_db_receive(struct rp_db *db, PGresult **out, struct rp_error *err);
/* Whether rp_db_receive would find the answer there, or the connection lost. */
bool rp_db_answered(struct rp_db *db);
/* The same, by `until_mono_ms` (rp_mono_ms), for which it waits; what comes is read meanwhile. */
bool rp_db_answers_by(struct rp_db *db, int64_t until_mono_ms);

/* What time it is by the server's clock. */
RP_NODISCARD int rp_db_wall_ms(struct rp_db *db, int64_t *out, struct rp_error *err);

/* Runs statements in one transaction, unless they say otherwise themselves. */
RP_NODISCARD int rp_db_script(struct rp_db *db, const char *sql, struct rp_error *err);

/* Runs `sql`, in which there are statements COPY ... FROM STDIN; all of it is one transaction.
 * _begin waits for the first of them to ask for rows, _next ends one and waits for the next, and
 * _end ends the last and gives the result of the last statement, as rp_db_query does. Once that has
 * been sent the server needs nothing more from us to finish: a client that stalls or dies then
 * holds no locks. _send does not wait for the server to read: what it does not take yet is kept,
 * and goes out with the next call; _push gives it what it takes by now, and says whether there is
 * more. Until the end, a failure or _cancel, which takes all back, the connection is for nothing
 * else. */
RP_NODISCARD int rp_db_copy_begin(struct rp_db *db, const char *sql, struct rp_error *err);
RP_NODISCARD int rp_db_copy_send(struct rp_db *db, struct rp_bytes rows, struct rp_error *err);
bool rp_db_copy_push(struct rp_db *db);
RP_NODISCARD int rp_db_copy_next(struct rp_db *db, struct rp_error *err);
RP_NODISCARD int rp_db_copy_end(struct rp_db *db, PGresult **out, struct rp_error *err);
void rp_db_copy_cancel(struct rp_db *db);

#endif
