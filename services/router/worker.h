/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ROUTER_WORKER_H
#define REPRISE_ROUTER_WORKER_H

#include "service.h"

/* Routes failed-tasks until it is told to stop: one consumer, one publisher, one thread. A batch of
 * records is published, with the offsets behind them, in one transaction; a batch that fails is
 * read again. */
int router_run(struct rp_worker *w, struct rp_error *err);

#endif
