/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RETENTION_JOBS_H
#define RETENTION_JOBS_H

#include "retention.h"

/* Deletes replay jobs that were finished before retention.keep, in small batches: what they sent is
 * gone by then. One that is not finished stays, however old it is. */
RP_NODISCARD int retention_delete_jobs(struct retention *r, struct rp_db *db, struct rp_error *err);

#endif
