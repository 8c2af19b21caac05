/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DAY_TABLE_H
#define DAY_TABLE_H

#include "day.h"
#include "db.h"

/* The partitions of dead_letter, one a day, that a connection has found there. */

#define DAY_TABLES_MOST 64

struct day_table {
    int64_t day;
    bool by_name; /* rows may go into it by its own name */
};

/* A zeroed one is empty and ready. `n` = 0 forgets them all. */
struct day_tables {
    struct day_table items[DAY_TABLES_MOST];
    size_t n;
};

/* NULL where it is not known. */
const struct day_table *day_tables_find(const struct day_tables *t, int64_t day);
/* Makes sure of one that is not known. POISON: it was detached. */
RP_NODISCARD int day_tables_add(struct day_tables *t, struct rp_db *db, int64_t day,
                                struct rp_error *err);

#define DAY_TABLE_NAME_SIZE 40
void day_table_name(int64_t day, char out[DAY_TABLE_NAME_SIZE]);

/* For a statement of one's own: FROM the row of pg_inherits of the partition that the SQL `name`
 * names, and, there, why rows that go into it by its name would not be in the archive, or not as
 * they were sent: NULL where they are. */
#define DAY_TABLE_OF(name)                                                                         \
    " FROM pg_inherits WHERE inhrelid = to_regclass(" name                                         \
    ") AND inhparent = to_regclass('dead_letter') AND NOT inhdetachpending"
#define DAY_TABLE_NOT_BY_NAME                                                                      \
    "CASE WHEN NOT has_table_privilege(inhrelid, 'INSERT') THEN 'our role may not insert into it'" \
    " WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = inhrelid AND tgtype & 7 = 7)"            \
    " THEN 'it has a trigger BEFORE INSERT FOR EACH ROW' END"

#endif
