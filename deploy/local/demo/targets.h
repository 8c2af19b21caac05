/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_TARGETS_H
#define DEMO_TARGETS_H

#include "config.h"

/* Creates the topics of the sample handlers, and the one that takes small records only. Those that
 * are there already stay as they are. */
RP_NODISCARD int targets_make(const struct rp_config *config, struct rp_error *err);
/* Creates one topic with as many partitions as reprise's own have; `max_message_bytes` NULL: the
 * broker's default. */
RP_NODISCARD int targets_make_one(const struct rp_config *config, const char *topic,
                                  const char *max_message_bytes, struct rp_error *err);

#endif
