/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PROCESS_METRICS_H
#define REPRISE_PROCESS_METRICS_H

#include "reprise/bytes.h"

/* Appends what the system knows of this process, now, under the names that Prometheus' own clients
 * use: resident memory, CPU time, open files. What cannot be read is left out. */
RP_NODISCARD int rp_process_metrics_write(struct rp_buf *out, struct rp_error *err);

#endif
