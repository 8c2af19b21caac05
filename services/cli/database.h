/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_DATABASE_H
#define REPRISE_CLI_DATABASE_H

#include "cli.h"
#include "db.h"

typedef int database_fn(const struct cli_args *args, struct rp_db *db);

/* Loads the configuration, connects to its database, and calls `run`. What goes wrong on the way is
 * printed. Returns the exit code. */
int database_run(const struct cli_args *args, database_fn *run);

/* The same, with something for `run`. */
typedef int database_with_fn(const struct cli_args *args, struct rp_db *db, void *opaque);
int database_run_with(const struct cli_args *args, database_with_fn *run, void *opaque);

/* From now on a statement may take an hour: it may look through all of the archive. The server ends
 * what takes longer, and soon what runs for somebody who is gone. */
RP_NODISCARD int database_no_hurry(struct rp_db *db, struct rp_error *err);

/* The number in a row; 0 where it is null. */
int64_t database_number(const PGresult *result, int row, int column);

/* Print the error, and what to do where that is known. Returns CLI_FAILED, the second CLI_USAGE
 * where what was asked for is to blame. */
int database_failed(const struct rp_error *err);
int database_refused(const struct rp_error *err);
/* By the SQLSTATE that ends PostgreSQL's errors. */
bool database_said(const struct rp_error *err, const char *sqlstate);

#endif
