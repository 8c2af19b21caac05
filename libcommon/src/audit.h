/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_AUDIT_H
#define REPRISE_AUDIT_H

#include "db.h"

/* An entry of the audit that grows with what is done, in the same transactions, so that it is right
 * at any moment, also when this process dies: detail.rows is how many, detail.finished whether it
 * came to its end, detail.error why it did not. */
struct rp_audit {
    const char *action, *actor, *reason;     /* the reason may be NULL */
    const char *filter, *file, *exported_to; /* each may be NULL */
};

RP_NODISCARD int rp_audit_begin(struct rp_db *db, const struct rp_audit *a, int64_t *id,
                                struct rp_error *err);
RP_NODISCARD int rp_audit_add(struct rp_db *db, int64_t id, int64_t rows, struct rp_error *err);
RP_NODISCARD int rp_audit_finish(struct rp_db *db, int64_t id, struct rp_error *err);
/* Says why it ended early, where the database can still be told, outside of a transaction. */
void rp_audit_fail(struct rp_db *db, int64_t id, const char *why);

#endif
