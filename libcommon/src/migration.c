/* SPDX-License-Identifier: Apache-2.0 */
#include "migration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any number will do, as long as nobody else who uses the database takes it. */
#define LOCK   "SELECT pg_advisory_lock(hashtext('reprise: migrate'))"
#define UNLOCK "SELECT pg_advisory_unlock(hashtext('reprise: migrate'))"

static int query_int(struct rp_db *db, const char *sql, int *out, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(db, sql, 0, NULL, &result, err) != 0)
        return -1;
    *out = atoi(PQgetvalue(result, 0, 0));
    PQclear(result);
    return 0;
}

int rp_migration_version(struct rp_db *db, int *out, struct rp_error *err)
{
    int there;
    *out = 0;
    if (query_int(db, "SELECT (to_regclass('schema_migration') IS NOT NULL)::int", &there, err))
        return -1;
    if (!there)
        return 0;
    return query_int(db, "SELECT coalesce(max(version), 0) FROM schema_migration", out, err);
}

static int check_encoding(struct rp_db *db, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(db, "SHOW server_encoding", 0, NULL, &result, err) != 0)
        return -1;
    const char *encoding = PQgetvalue(result, 0, 0);
    int failed = 0;
    if (strcmp(encoding, "UTF8") != 0)
        failed = rp_fail(err, RP_E_INVALID, RP_FATAL,
                         "the database's encoding is %s; it must be UTF8", encoding);
    PQclear(result);
    return failed;
}

static int apply(struct rp_db *db, const struct rp_migration *m, struct rp_error *err)
{
    static const char record[] = "INSERT INTO schema_migration (version, name) VALUES";
    size_t size = strlen(m->sql) + strlen(m->name) + sizeof record + 32;
    char *script = malloc(size);
    if (script == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a migration");
    (void)snprintf(script, size, "%s\n%s (%d, '%s')", m->sql, record, m->version, m->name);
    int failed = rp_db_script(db, script, err);
    free(script);
    return failed == 0 ? 0 : rp_fail_in(err, "migration %s", m->name);
}

static int apply_missing(struct rp_db *db, rp_migration_done_fn *done, void *opaque,
                         struct rp_error *err)
{
    int version;
    static const char table[] =
        "CREATE TABLE IF NOT EXISTS schema_migration (version integer PRIMARY KEY,"
        " name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
    if (rp_db_script(db, table, err) != 0 || rp_migration_version(db, &version, err) != 0)
        return -1;
    for (int i = version; i < rp_n_migrations; i++) {
        if (apply(db, &rp_migrations[i], err) != 0)
            return -1;
        if (done != NULL)
            done(opaque, &rp_migrations[i]);
    }
    return 0;
}

int rp_migrate(struct rp_db *db, rp_migration_done_fn *done, void *opaque, struct rp_error *err)
{
    if (check_encoding(db, err) != 0 || rp_db_query(db, LOCK, 0, NULL, NULL, err) != 0)
        return -1;
    if (apply_missing(db, done, opaque, err) != 0)
        return -1; /* the lock goes with the session */
    return rp_db_query(db, UNLOCK, 0, NULL, NULL, err);
}
