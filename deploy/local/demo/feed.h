/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_FEED_H
#define DEMO_FEED_H

#include "config.h"
#include "ledger.h"

/* Sends the ledger's tasks at an even pace, from a thread of its own: to their handlers, or, for
 * those that a producer reports, as events to `failed-tasks`. */
struct feed;

#define FEED_SECONDS 15

/* `config` and `ledger` are borrowed until feed_stop. */
RP_NODISCARD int feed_start(const struct rp_config *config, struct ledger *ledger,
                            struct feed **out, struct rp_error *err);
/* Why it gave up; NULL while it is well. Thread-safe. */
const char *feed_error(const struct feed *f);
/* NULL is fine. */
void feed_stop(struct feed *f);

#endif
