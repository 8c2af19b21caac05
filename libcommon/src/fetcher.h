/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FETCHER_H
#define REPRISE_FETCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/bytes.h"
#include "reprise/error.h"

/* Gets what an URL names, one at a time, on a thread of its own, so that whoever asks needs not
 * wait for a server that hangs. The calls are for one thread. */
struct rp_fetcher;

struct rp_fetcher_options {
    const char *username; /* basic authentication; NULL or empty: none */
    const char *password;
    const char *ca_file; /* NULL or empty: the system's */
    const char *accept;  /* the header */
    int64_t timeout_ms;  /* of a whole request */
    size_t max_bytes;    /* of an answer */
};

struct rp_fetched {
    long status; /* HTTP's; 0: no answer, and `error` says why */
    const char *error;
    struct rp_bytes body;
    bool too_large; /* the body is cut */
};

/* Copies the options. The thread starts with the first request. */
RP_NODISCARD int rp_fetcher_new(const struct rp_fetcher_options *options, struct rp_fetcher **out,
                                struct rp_error *err);
/* Drops a request under way, which takes a second at most. NULL is fine. */
void rp_fetcher_free(struct rp_fetcher *f);

/* Whether a request is under way, or answered and not yet told. */
bool rp_fetcher_busy(const struct rp_fetcher *f);
/* Begins a request. Not while the fetcher is busy. */
RP_NODISCARD int rp_fetcher_start(struct rp_fetcher *f, const char *url, struct rp_error *err);
/* Waits up to `wait_ms` for the answer; NULL: it has not come. It is told once, and valid until the
 * next start. */
const struct rp_fetched *rp_fetcher_wait(struct rp_fetcher *f, int64_t wait_ms);

#endif
