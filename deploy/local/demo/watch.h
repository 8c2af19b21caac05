/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_WATCH_H
#define DEMO_WATCH_H

#include "config.h"
#include "ledger.h"

/* Looks on from outside and tells the ledger: one thread reads the tiers, without a group and
 * without committing anything, for what waits where and until when; the other reads the dead_letter
 * table. What is not the demo's own is told in a line, once that is asked for. */
struct watch;

/* `config` and `ledger` are borrowed until watch_stop. `say` is told what happens to others' tasks,
 * from the threads. */
RP_NODISCARD int watch_start(const struct rp_config *config, struct ledger *ledger,
                             void (*say)(const char *line), struct watch **out,
                             struct rp_error *err);
/* Why one of them gave up; NULL while both look on. Thread-safe. */
const char *watch_error(const struct watch *w);
/* How many dead letters PostgreSQL holds of the tasks whose ids begin with `prefix`. For the end,
 * when nothing should change any more. */
RP_NODISCARD int watch_count_rows(const struct rp_config *config, const char *prefix, int64_t *out,
                                  struct rp_error *err);
void watch_stop(struct watch *w);

#endif
