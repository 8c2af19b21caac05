/* SPDX-License-Identifier: Apache-2.0 */
#include "audit.h"

#include <stdlib.h>

#include "query.h"
#include "units.h"

int rp_audit_begin(struct rp_db *db, const struct rp_audit *a, int64_t *id, struct rp_error *err)
{
    const char *values[] = {a->actor, a->action, a->reason, a->filter, a->file, a->exported_to};
    PGresult *result;
    if (rp_db_query(db,
                    "INSERT INTO audit (actor, action, reason, detail) VALUES ($1, $2, $3,"
                    " jsonb_strip_nulls(jsonb_build_object('rows', 0, 'finished', false,"
                    " 'filter', $4::text, 'file', $5::text, 'export', $6::text)))"
                    " RETURNING id",
                    6, values, &result, err) != 0)
        return -1;
    *id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return 0;
}

static int change(struct rp_db *db, const char *what, int64_t value, int64_t id,
                  struct rp_error *err)
{
    struct rp_query q = {0};
    rp_query_add(&q, "UPDATE audit SET detail = detail || jsonb_build_object(");
    rp_query_add(&q, what);
    rp_query_param_int(&q, value);
    rp_query_add(&q, "::bigint) WHERE id = ");
    rp_query_param_int(&q, id);
    rp_query_add(&q, "::bigint");
    int failed = rp_query_run(&q, db, NULL, err);
    rp_query_clear(&q);
    return failed;
}

int rp_audit_add(struct rp_db *db, int64_t id, int64_t rows, struct rp_error *err)
{
    return change(db, "'rows', (detail->>'rows')::bigint + ", rows, id, err);
}

int rp_audit_finish(struct rp_db *db, int64_t id, struct rp_error *err)
{
    return change(db, "'finished', 1 = ", 1, id, err);
}

void rp_audit_fail(struct rp_db *db, int64_t id, const char *why)
{
    char number[RP_UNIT_TEXT];
    const char *values[] = {rp_format_int(id, number), why};
    int failed = rp_db_alive(db)
                     ? rp_db_query(db,
                                   "UPDATE audit SET detail = detail ||"
                                   " jsonb_build_object('error', $2::text) WHERE id = $1::bigint",
                                   2, values, NULL, NULL)
                     : -1;
    (void)failed; /* `finished` says it without words */
}
