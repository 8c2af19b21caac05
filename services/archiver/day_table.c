/* SPDX-License-Identifier: Apache-2.0 */
#include "day_table.h"

#include <stdio.h>

#include "crash_point.h"
#include "log.h"

const struct day_table *day_tables_find(const struct day_tables *t, int64_t day)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->items[i].day == day)
            return &t->items[i];
    return NULL;
}

void day_table_name(int64_t day, char out[DAY_TABLE_NAME_SIZE])
{
    char text[DAY_TEXT_SIZE];
    day_text(day, text);
    (void)snprintf(out, DAY_TABLE_NAME_SIZE, "dead_letter_%.4s%.2s%.2s", text, text + 5, text + 8);
}

static int look_at(struct day_tables *t, struct rp_db *db, int64_t day, struct rp_error *err)
{
    char name[DAY_TABLE_NAME_SIZE];
    const char *values[] = {name};
    PGresult *result;
    day_table_name(day, name);
    if (rp_db_query(db, "SELECT " DAY_TABLE_NOT_BY_NAME DAY_TABLE_OF("$1"), 1, values, &result,
                    err) != 0)
        return -1;
    if (PQntuples(result) == 0) {
        PQclear(result);
        return rp_fail(err, RP_E_POSTGRES, RP_POISON, "%s was detached from dead_letter", name);
    }
    bool by_name = PQgetisnull(result, 0, 0);
    if (!by_name)
        rp_log(RP_LOG_INFO, "copies-take-longer", rp_f_str("partition", name),
               rp_f_str("why", PQgetvalue(result, 0, 0)),
               rp_f_str("effect", "rows go through dead_letter, and its trigger counts them"));
    PQclear(result);
    if (t->n == DAY_TABLES_MOST)
        t->n = 0;
    t->items[t->n++] = (struct day_table){day, by_name};
    return 0;
}

int day_tables_add(struct day_tables *t, struct rp_db *db, int64_t day, struct rp_error *err)
{
    char text[DAY_TEXT_SIZE];
    const char *values[] = {text};
    day_text(day, text);
    RP_CRASH_POINT(day_before);
    if (rp_db_query(db, "SELECT dead_letter_add_day($1)", 1, values, NULL, err) != 0)
        return rp_fail_in(err, "cannot make the partition of %s", text);
    RP_CRASH_POINT(day_after);
    return look_at(t, db, day, err);
}
