/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_HTTP_H
#define REPRISE_HTTP_H

#include <stdbool.h>

#include "metrics.h"
#include "reprise/error.h"

/* The probes and metrics of a service: /healthz and /readyz (each 200, or 503 with a line that says
 * why), /metrics. Runs a thread of its own. */
struct rp_http;

/* Asked from the server's thread: true, or false with a reason in `why`. */
typedef bool rp_http_probe_fn(void *opaque, char *why, size_t why_size);

struct rp_http_probes {
    rp_http_probe_fn *healthy, *ready;
    void *opaque;
};

/* Listens on "host:port"; port 0 is any free one. With `fall_back`, a taken port becomes any free
 * one (it is logged). Logs the address. `metrics` and the probes' `opaque` are borrowed. */
RP_NODISCARD int rp_http_start(const char *address, bool fall_back, struct rp_metrics *metrics,
                               const struct rp_http_probes *probes, struct rp_http **out,
                               struct rp_error *err);
/* The address in use, "127.0.0.1:9101"; lives as long as `http`. */
const char *rp_http_address(const struct rp_http *http);
void rp_http_stop(struct rp_http *http);

#endif
