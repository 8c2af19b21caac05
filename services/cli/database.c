/* SPDX-License-Identifier: Apache-2.0 */
#include "database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#define UNDEFINED_TABLE "42P01"

/* How long a question may take, unless a command says otherwise. */
#define TIMEOUT_MS 60000
/* The server's is the shorter one, so that it does not work on for nobody. */
#define NO_HURRY_MS INT64_C(3600000)
#define NO_HURRY    "SET statement_timeout = '59min'; " RP_DB_NOTICE_WE_ARE_GONE

int database_no_hurry(struct rp_db *db, struct rp_error *err)
{
    return rp_db_set_timeout(db, NO_HURRY_MS, err) != 0 ? -1 : rp_db_script(db, NO_HURRY, err);
}

int64_t database_number(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

bool database_said(const struct rp_error *err, const char *sqlstate)
{
    char end[16];
    int len = snprintf(end, sizeof end, " (%s)", sqlstate);
    size_t n = strlen(err->text);
    return n >= (size_t)len && strcmp(err->text + n - len, end) == 0;
}

int database_failed(const struct rp_error *err)
{
    cli_error("%s", err->text);
    if (database_said(err, UNDEFINED_TABLE))
        cli_error("run `reprise db migrate` first");
    return CLI_FAILED;
}

int database_refused(const struct rp_error *err)
{
    int code = database_failed(err);
    return err->cls == RP_POISON ? CLI_USAGE : code;
}

int database_run_with(const struct cli_args *args, database_with_fn *run, void *opaque)
{
    struct rp_error err;
    struct rp_db *db;
    struct rp_config *config = cli_config_load(args);
    if (config == NULL)
        return CLI_USAGE;
    int code = CLI_FAILED;
    if (rp_db_open(config->postgres.dsn, "reprise", TIMEOUT_MS, &db, &err) != 0) {
        cli_error("%s", err.text);
    } else {
        code = run(args, db, opaque);
        rp_db_close(db);
    }
    rp_config_free(config);
    return code;
}

struct plain {
    database_fn *run;
};

static int run_plain(const struct cli_args *args, struct rp_db *db, void *opaque)
{
    return ((struct plain *)opaque)->run(args, db);
}

int database_run(const struct cli_args *args, database_fn *run)
{
    return database_run_with(args, run_plain, &(struct plain){run});
}
