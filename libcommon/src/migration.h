/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_MIGRATION_H
#define REPRISE_MIGRATION_H

#include "db.h"

/* The numbered files of schemas/postgres, which are compiled in, and the table schema_migration,
 * which says which of them a database has had. A file is never changed once it was released. */
struct rp_migration {
    int version;      /* 1, 2, ... without gaps */
    const char *name; /* "0001_archive" */
    const char *sql;
};

extern const struct rp_migration rp_migrations[];
extern const int rp_n_migrations;

/* The newest version that the database has; 0 where it has none. Larger than rp_n_migrations where
 * a newer reprise was here. */
RP_NODISCARD int rp_migration_version(struct rp_db *db, int *out, struct rp_error *err);

/* Told of each migration once it is done. */
typedef void rp_migration_done_fn(void *opaque, const struct rp_migration *migration);

/* Brings the database up to date, each migration in a transaction of its own. Only one does it at a
 * time; who comes second waits and finds nothing to do. Fails with RP_E_INVALID where the database
 * is not in UTF-8. `done` may be NULL. After a failure the connection is to be closed. */
RP_NODISCARD int rp_migrate(struct rp_db *db, rp_migration_done_fn *done, void *opaque,
                            struct rp_error *err);

#endif
