/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_DELAYER_WORKER_H
#define REPRISE_DELAYER_WORKER_H

#include "service.h"

/* Settles the tiers' records until it is told to stop: one consumer, one publisher, one thread. */
int delayer_run(struct rp_worker *w, struct rp_error *err);

#endif
