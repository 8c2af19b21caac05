/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REGISTRY_H
#define REPRISE_REGISTRY_H

#include <stdint.h>

#include "reprise/error.h"

/* A client of a Confluent-compatible schema registry. Caches what it fetched (an id never changes
 * its schema), up to 64 MiB, and remembers an unknown id for a second, an id that it was not told
 * of and an outage for two, so that a flood of bad records is not a flood of requests. An answer
 * that does not come at once is waited for in the background: a registry that hangs delays its
 * caller by a quarter of a second, once an outage. One per thread. */
struct rp_registry;

struct rp_registry_options {
    const char *url;      /* http(s)://host[:port][/path] */
    const char *username; /* basic authentication; NULL or empty: none */
    const char *password;
    const char *ca_file; /* NULL or empty: the system's */
    int64_t timeout_ms;  /* of a whole request */
    /* For tests; NULL: the system's clock. */
    int64_t (*now_mono_ms)(void);
};

/* Copies the options. Fails with RP_E_CONFIG (FATAL) when the url is none. */
RP_NODISCARD int rp_registry_new(const struct rp_registry_options *options,
                                 struct rp_registry **out, struct rp_error *err);
void rp_registry_free(struct rp_registry *registry);

struct rp_config;
/* The registry of the configuration; *out is NULL where it names none. */
RP_NODISCARD int rp_registry_open(const struct rp_config *config, struct rp_registry **out,
                                  struct rp_error *err);

/* The schema of an id, as JSON, valid until the next call. POISON: there is no such id, or it
 * is no Avro schema; RETRIABLE: the registry does not answer, or refuses us (RP_E_IO), or has not
 * answered yet (RP_E_TIMEOUT), of which nothing is to be concluded. */
RP_NODISCARD int rp_registry_schema(struct rp_registry *registry, int32_t id, const char **out_json,
                                    struct rp_error *err);

/* For how long what failed with RP_E_IO last has failed: the id, whatever the registry says of
 * others (of those that it denies us, all as one), or all that was asked since the registry last
 * told of an id, be it that there is none. Where nobody asked for half a minute, it begins anew. */
int64_t rp_registry_failing_ms(const struct rp_registry *registry);

#endif
