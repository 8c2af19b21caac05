/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_BURY_H
#define REPRISE_BURY_H

#include "config.h"
#include "dead_letter.h"
#include "publisher.h"
#include "targets.h"

/* Makes the dead-letter record of `letter`. Its key is the task's, else `key`, that of the record
 * it came from. `refused`: how often the brokers refused it. Once, or where its topic says that it
 * takes no such record, and the causes and what is long of the texts stay behind; once more, and
 * the payload, the headers and what is long of the names do: then a task's reason becomes
 * RP_OVERSIZED, and `detail` says what it was. The letter says where the original is. The value is
 * in `buf`, whose content is replaced. */
RP_NODISCARD int rp_bury(const struct rp_config *config, struct rp_targets *targets,
                         struct rp_dead_letter *letter, struct rp_bytes key, unsigned refused,
                         struct rp_buf *buf, struct rp_outgoing *out, struct rp_error *err);

#endif
