/* SPDX-License-Identifier: Apache-2.0 */
#include "group_prefix.h"

#include <stdio.h>
#include <string.h>

#include "dlq.h"

#define SHOWN 5

/* The groups that it fits, one more than are shown. */
static int ask(struct rp_db *db, const struct rp_filter *filter, const char *only,
               const struct rp_filter_prefix *prefix, PGresult **out, struct rp_error *err)
{
    struct rp_query q = {0};
    rp_query_add(&q, "SELECT lpad(to_hex(g.fingerprint), 16, '0') FROM ");
    if (rp_filter_count_sql(filter, &q, NULL) != 0)
        q.failed = true;
    rp_query_add(&q, " AS g WHERE g.fingerprint BETWEEN ");
    rp_query_param_int(&q, prefix->low);
    rp_query_add(&q, "::bigint AND ");
    rp_query_param_int(&q, prefix->high);
    rp_query_add(&q, "::bigint AND ");
    rp_query_add(&q, only);
    rp_query_add(&q, " GROUP BY g.fingerprint HAVING sum(g.n) > 0 ORDER BY g.fingerprint LIMIT ");
    rp_query_param_int(&q, SHOWN + 1);
    int failed = rp_query_run(&q, db, out, err);
    rp_query_clear(&q);
    return failed;
}

static void refuse(const struct rp_filter_prefix *prefix, const PGresult *groups)
{
    char ids[160] = "";
    int n = PQntuples(groups);
    for (int row = 0; row < n && row < SHOWN; row++) {
        size_t len = strlen(ids);
        (void)snprintf(ids + len, sizeof ids - len, "%s%s", row == 0 ? "" : ", ",
                       PQgetvalue(groups, row, 0));
    }
    cli_error("'%s' fits more than one group: %s%s; nothing was done, give more of its digits",
              prefix->text, ids, n > SHOWN ? " and more" : "");
}

int group_prefix_check(struct rp_db *db, const struct rp_filter *filter, const char *only)
{
    struct rp_filter_prefix prefix;
    struct rp_error err;
    PGresult *groups;
    int code = CLI_OK;
    for (size_t i = 0; code == CLI_OK && rp_filter_prefix(filter, i, &prefix); i++) {
        if (ask(db, filter, only, &prefix, &groups, &err) != 0)
            return dlq_failed(&err);
        if (PQntuples(groups) > 1) {
            refuse(&prefix, groups);
            code = CLI_USAGE;
        }
        PQclear(groups);
    }
    return code;
}
