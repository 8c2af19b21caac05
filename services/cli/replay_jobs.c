/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_jobs.h"

#include "database.h"

#define TIMEOUT_MS INT64_C(60000)

int jobs_with(const struct cli_args *args, int (*run)(struct jobs *j))
{
    struct rp_error err;
    struct jobs j = {.args = args, .config = cli_config_load(args)};
    if (j.config == NULL)
        return CLI_USAGE;
    int code = rp_db_open(j.config->postgres.dsn, "reprise", TIMEOUT_MS, &j.db, &err) == 0
                   ? run(&j)
                   : database_failed(&err);
    rp_db_close(j.db);
    rp_config_free(j.config);
    return code;
}

PGresult *jobs_ask(struct jobs *j, const char *sql, int *code)
{
    const char *values[] = {j->args->positional[0]};
    struct rp_error err;
    PGresult *result;
    *code = CLI_NOTHING;
    if (rp_db_query(j->db, sql, 1, values, &result, &err) != 0) {
        *code = database_failed(&err);
        return NULL;
    }
    if (PQntuples(result) == 1)
        return result;
    PQclear(result);
    cli_error("there is no replay '%s'", values[0]);
    return NULL;
}
