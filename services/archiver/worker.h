/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_H
#define WORKER_H

#include "service.h"

/* Moves dead letters from their topic to PostgreSQL until it is told to stop. While the database is
 * away it waits, keeps its place in the consumer group, and commits nothing. */
int worker_run(struct rp_worker *w, struct rp_error *err);

#endif
