/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_STRAYS_H
#define REPRISE_STRAYS_H

#include <stdatomic.h>

#include "config.h"

/* Tiers that tasks are not sent to any more: those that the configuration retires, and those that
 * it does not name at all, so that nobody reads them. What is settled is deleted, so what is there
 * waits. */

/* `records` is at most: the marks of transactions count, too; but 0 is none for certain. */
typedef void rp_stray_fn(void *opaque, const char *topic, bool retired, int64_t records);

/* Tells of each retired tier that has a topic, and of each topic that is named like a tier, is none
 * of the configuration's, and holds records. Connects, and waits for answers, some seconds for each
 * topic at most, two minutes in all; once `stop` (may be NULL) is set, for one answer at most, and
 * then fails. */
RP_NODISCARD int rp_strays_find(const struct rp_config *config, const atomic_bool *stop,
                                rp_stray_fn *tell, void *opaque, struct rp_error *err);

#endif
