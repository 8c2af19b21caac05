/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CONFIG_H
#define REPRISE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "reprise/error.h"
#include "reprise/policy.h"
#include "string_list.h"
#include "tier.h"

#define RP_MAX_TOPIC_NAME 249 /* Kafka's own limit */

enum rp_guarantee { RP_EXACTLY_ONCE, RP_AT_LEAST_ONCE };

struct rp_property {
    char *name, *value;
};

struct rp_properties {
    struct rp_property *items;
    size_t n;
};

/* One configuration file, for all services. Owns all that it points to, and one reference to the
 * policies. Read-only once loaded. Times are in ms, sizes in bytes. */
struct rp_config {
    char *instance; /* names this process's members and transactions; NULL: by host name and slot */
    enum rp_guarantee guarantee;
    struct rp_strings tier_lengths,
        retired_lengths; /* as the file writes them: they name the topics */
    /* Those that tasks are sent to, ascending; behind them those that are only read until they are
     * empty. */
    struct rp_tier tiers[2 * RP_MAX_TIERS];
    size_t n_tiers, n_retired;

    struct rp_kafka_config {
        struct rp_properties common, consumer, producer; /* librdkafka's, passed through */
    } kafka;

    struct {
        char *prefix;
        char *failed_tasks, *dead_letter; /* full names, made from the prefix */
        int partitions;                   /* of topics that `topics apply` creates */
        int replication_factor;           /* -1: as many as the cluster has brokers, at most 3 */
        int64_t max_message_bytes;        /* of failed-tasks; the other topics' follow from it */
    } topics;

    struct {
        struct rp_strings allow; /* globs; none: no event names a target, only policies do */
    } targets;

    struct {
        char *url, *username, *password, *ca_file;
        int64_t timeout_ms;
        int64_t patience_ms; /* how long a record waits for a registry that is away */
    } registry;

    struct rp_service_config {
        int workers;
        int64_t batch;     /* records in a transaction, at most */
        int64_t linger_ms; /* how long a transaction waits for more records; not the delayer's */
        int64_t drain_ms;  /* from SIGTERM to the end */
        char *listen;      /* host:port of the probes and metrics */
        bool listen_set;   /* the file states it, so a taken port is an error */
    } router, delayer, archiver;

    int64_t clock_skew_ms; /* router.clock_skew */
    int64_t loop_guard;    /* router.loop_guard: events remembered a worker; 0: off */

    int64_t prepare_ahead_ms; /* delayer.prepare_ahead; 0: off */
    int64_t slack_ms;         /* delayer.slack: how much earlier than needed a tier is read */
    int64_t memory_bytes; /* delayer.memory: of held tasks a worker; the rest goes to the spill */
    int64_t max_held;     /* delayer.max_held: tasks held a worker, at most */
    char *spill_dir;      /* delayer.spill_dir */

    struct {
        char *dsn; /* libpq's conninfo or URI */
    } postgres;

    struct {
        int64_t keep_ms;     /* retention.keep */
        int schedule_minute; /* retention.schedule: minute of the day, UTC */
        struct rp_type_keeps {
            struct rp_type_keep {
                char *type; /* a name or a glob */
                int64_t keep_ms;
            } *items;
            size_t n;
        } by_type;
        char *export_dir; /* retention.export; "": none */
        int64_t statistics_ms;
    } retention;

    int64_t statistics_ms; /* archiver.statistics: how often they are taken */

    struct {
        int level; /* enum rp_log_level */
        bool json;
    } log;

    struct rp_policies *policies;
};

/* Told of every fault in a file, in the file's order. `line` is 1-based; 0: the file as a whole. */
typedef void rp_config_fault_fn(void *opaque, const char *file, int line, const char *text);

/* Loads and checks a whole file. Every fault is told to `fault` (NULL: only the first is kept, in
 * `err`). Fails with RP_E_CONFIG when there was any; `err` then names file, line and what was
 * expected. `*out` is the caller's to free. */
RP_NODISCARD int rp_config_load(const char *file, rp_config_fault_fn *fault, void *opaque,
                                struct rp_config **out, struct rp_error *err);
void rp_config_free(struct rp_config *config);

/* Whether `name` is one of reprise's own topics (failed-tasks, dead-letter, a tier, task-events,
 * control, each with the prefix), which are never targets. */
bool rp_config_owns_topic(const struct rp_config *config, struct rp_bytes name);
/* Whether a topic of this name can exist. */
bool rp_config_is_topic_name(struct rp_bytes name);
/* Whether an event may name this target: allowed by a glob, and not our own. */
bool rp_config_allows_target(const struct rp_config *config, struct rp_bytes name);

/* The name that was allowed last, for who asks once a record; of one configuration. Zeroed: none.
 */
struct rp_allowed {
    char name[RP_MAX_TOPIC_NAME];
    size_t len;
};

/* The same as rp_config_allows_target. */
bool rp_config_allows_again(const struct rp_config *config, struct rp_allowed *last,
                            struct rp_bytes name);

/* Writes the names of the parameters that differ, and are not policies or categories, into `out`,
 * ", " between them, as many as it has room for. */
void rp_config_compare(const struct rp_config *a, const struct rp_config *b, char *out,
                       size_t size);

/* Writes the reference of all parameters: name, unit, default, limits, meaning. */
void rp_config_print_reference(FILE *out);
/* Writes the JSON Schema of the file. -1: it could not be written, or no memory. */
RP_NODISCARD int rp_config_write_schema(FILE *out);

#endif
