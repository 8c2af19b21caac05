/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SERVICE_H
#define REPRISE_SERVICE_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "config.h"
#include "http.h"
#include "metrics.h"

/* What is alike in the mains of router, delayer and archiver: arguments (--config FILE, --check,
 * --help, --version, --reference), configuration, log, metrics, probes, signals, and the worker
 * threads. SIGTERM or SIGINT: workers are told to stop and have drain_ms; a second one, or the
 * time's end, exits at once with 3. SIGHUP: policies are loaded anew and handed to the workers; a
 * bad file is refused, logged, and the old ones stay; what else differs is logged, and stays too.
 * Exit codes: 0 drained, 1 failed, 2 usage or configuration, 3 drain abandoned. */
struct rp_service;

/* A worker's view of the service. Every call here is for the worker's own thread. */
struct rp_worker {
    const struct rp_config *config;
    struct rp_metrics *metrics;
    int index;               /* 0 .. workers - 1 */
    char instance[96];       /* "<instance>-<index>", unique among live processes */
    const atomic_bool *stop; /* see rp_worker_stopping */
    _Atomic(struct rp_policies *) new_policies; /* the mailbox of rp_worker_policies */
    struct rp_policies *policies;
    atomic_bool ready;             /* set by the worker: it has its partitions and serves */
    _Atomic int64_t asked_mono_ms; /* rp_worker_stopping did */
};

/* Whether to stop intake, drain and return. A worker asks at each turn of its loop and while it
 * waits for something that may not come; nothing else in it takes minutes. One that has not asked
 * for RP_STUCK_MS is stuck: the log says so, and /healthz and /readyz answer 503. */
bool rp_worker_stopping(struct rp_worker *w);
#define RP_STUCK_MS INT64_C(300000)

/* The policies in force; call once a batch, since a reload replaces them. */
const struct rp_policies *rp_worker_policies(struct rp_worker *w);

struct rp_service_def {
    const char *name;  /* "reprise-router" */
    const char *about; /* one line for --help */
    /* This service's part of the configuration. */
    const struct rp_service_config *(*section)(const struct rp_config *config);
    /* Runs until rp_worker_stopping; returns 0, or -1 with `err` when it cannot go on. It is called
     * again, after a pause, when `err` is retriable or says RP_E_FENCED; else the process ends
     * with 1. */
    int (*run)(struct rp_worker *w, struct rp_error *err);
};

int rp_service_main(const struct rp_service_def *def, int argc, char **argv);

#endif
