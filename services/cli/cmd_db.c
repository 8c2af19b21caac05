/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "config.h"
#include "database.h"
#include "migration.h"

/* A migration may have to rewrite a large table, and waits for another one to be through. */
#define TIMEOUT_MS (24 * INT64_C(3600000))
/* Days that are made ahead, today included. The archiver goes on making them. */
#define DAYS_AHEAD "3"

static void print_done(void *opaque, const struct rp_migration *migration)
{
    int *n = opaque;
    ++*n;
    (void)printf("%s: done\n", migration->name);
}

static int add_days(struct rp_db *db, struct rp_error *err)
{
    return rp_db_query(db,
                       "SELECT dead_letter_add_day((now() AT TIME ZONE 'UTC')::date + n)"
                       " FROM generate_series(0, " DAYS_AHEAD ") AS n",
                       0, NULL, NULL, err);
}

static int migrate(const struct cli_args *args, struct rp_db *db)
{
    (void)args;
    struct rp_error err;
    int n = 0, version;
    if (rp_db_set_timeout(db, TIMEOUT_MS, &err) != 0 || rp_migrate(db, print_done, &n, &err) != 0 ||
        add_days(db, &err) != 0 || rp_migration_version(db, &version, &err) != 0)
        return database_failed(&err);
    if (version > rp_n_migrations) {
        (void)printf("the schema is at version %d; this program is older and knows %d\n", version,
                     rp_n_migrations);
        return CLI_OK;
    }
    (void)printf("the schema is at version %d%s\n", rp_n_migrations,
                 n == 0 ? " already; nothing to do" : "");
    return CLI_OK;
}

/* The days from today on that have no partition, as "2026-11-21 2026-11-22". */
static int missing_days(struct rp_db *db, char *out, size_t size, struct rp_error *err)
{
    PGresult *result;
    if (rp_db_query(db,
                    "SELECT coalesce(string_agg(day::text, ' ' ORDER BY day), '') FROM"
                    " (SELECT (now() AT TIME ZONE 'UTC')::date + n FROM"
                    "  generate_series(0, " DAYS_AHEAD ") AS n) AS wanted (day)"
                    " WHERE day NOT IN (SELECT d.day FROM dead_letter_day AS d)",
                    0, NULL, &result, err) != 0)
        return -1;
    (void)snprintf(out, size, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return 0;
}

static int check_days(struct rp_db *db)
{
    struct rp_error err;
    char days[64];
    if (missing_days(db, days, sizeof days, &err) != 0)
        return database_failed(&err);
    if (days[0] == '\0') {
        (void)printf("partitions: there is one for each of the coming days\n");
        return CLI_OK;
    }
    (void)printf("partitions: none for %s; an archiver makes them when it starts and daily, "
                 "`reprise db migrate` makes them now\n",
                 days);
    return CLI_FAULTS;
}

static int check(const struct cli_args *args, struct rp_db *db)
{
    (void)args;
    struct rp_error err;
    int version;
    if (rp_migration_version(db, &version, &err) != 0)
        return database_failed(&err);
    if (version > rp_n_migrations)
        (void)printf("schema: version %d; this program is older and knows %d\n", version,
                     rp_n_migrations);
    else if (version == rp_n_migrations)
        (void)printf("schema: version %d, nothing is missing\n", version);
    for (int i = version; i < rp_n_migrations; i++)
        (void)printf("schema: %s is missing\n", rp_migrations[i].name);
    if (version < rp_n_migrations) {
        (void)printf("run `reprise db migrate`\n");
        return CLI_FAULTS;
    }
    return check_days(db);
}

static int run_migrate(const struct cli_args *args)
{
    return database_run(args, migrate);
}

static int run_check(const struct cli_args *args)
{
    return database_run(args, check);
}

const struct cli_command cmd_db_migrate = {
    .group = "db",
    .name = "migrate",
    .summary = "Brings the database's schema up to date.",
    .about = "Applies the migrations that the database has not had, each in a transaction of its\n"
             "own. Two at once are fine: the second waits and finds nothing to do. The database\n"
             "must be there (createdb makes one) and in UTF-8.",
    .run = run_migrate,
};

const struct cli_command cmd_db_check = {
    .group = "db",
    .name = "check",
    .summary = "Says what the database lacks.",
    .about = "Says which migrations are missing, and whether there are partitions for the coming\n"
             "days. Exits with 3 when something is missing.",
    .run = run_check,
};
