/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RETENTION_TYPES_H
#define RETENTION_TYPES_H

#include "retention.h"

/* Deletes what retention.by_type keeps for less than retention.keep, in small batches with pauses
 * between them, each some 100,000 of them exported before where there is a folder for it. What is
 * being replayed stays, until the next run. */
RP_NODISCARD int retention_delete_types(struct retention *r, struct rp_db *db, int64_t now_ms,
                                        struct rp_error *err);

#endif
