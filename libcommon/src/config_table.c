/* SPDX-License-Identifier: Apache-2.0 */
#include "config_table.h"

#include <string.h>

#include "config.h"
#include "config_kafka.h"
#include "config_policies.h"
#include "config_retention.h"
#include "reprise/policy.h"
#include "units.h"

/* clang-format off: a parameter is a few dense lines, not one a field. */

#define MS     INT64_C(1)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define KIB    INT64_C(1024)
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)

#define END {.key = NULL}

/* What may stand in the name of a topic, and so in a name that we make one from. */
static const char *check_name(const char *text)
{
    static const char legal[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return text[strspn(text, legal)] == '\0' ? NULL : "only letters, digits, '.', '_' and '-'";
}

static const char *check_listen(const char *text)
{
    const char *colon = strrchr(text, ':');
    int64_t port;
    bool good = colon != NULL && colon != text && rp_parse_int(colon + 1, &port) && port >= 0 &&
                port <= 65535;
    return good ? NULL : "host:port, such as 127.0.0.1:9101 (port 0: any free one)";
}

static const char *check_url(const char *text)
{
    bool good = *text == '\0' || strncmp(text, "http://", 7) == 0 ||
                strncmp(text, "https://", 8) == 0;
    return good ? NULL : "a URL that begins with http:// or https://";
}

static const char *check_path(const char *text)
{
    return *text == '/' ? NULL : "an absolute path";
}

static const char *check_path_or_none(const char *text)
{
    return *text == '/' || *text == '\0' ? NULL : "an absolute path, or nothing";
}

static const char *const guarantees[] = {"exactly-once", "at-least-once", NULL};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const formats[] = {"text", "json", NULL};

static const struct rp_param topics[] = {
    {.key = "prefix", .type = RP_P_STRING, RP_FIELD(rp_config, topics.prefix), .max = 100,
     .def = "", .check = check_name,
     .about = "Put in front of the names of reprise's own topics."},
    {.key = "partitions", .type = RP_P_INT, RP_FIELD(rp_config, topics.partitions), .min = 1,
     .max = 10000, .def = "8", .about = "Of each topic that `reprise topics apply` creates."},
    {.key = "replication_factor", .type = RP_P_INT, RP_FIELD(rp_config, topics.replication_factor),
     .min = -1, .max = 100, .def = "-1",
     .about = "Of the same; -1: as many as the cluster has brokers, at most 3."},
    {.key = "max_message_bytes", .type = RP_P_SIZE, RP_FIELD(rp_config, topics.max_message_bytes),
     .min = 4 * KIB, .max = 95 * MIB, .def = "1MiB", /* producers send 100 MB, see kafka.c */
     .about = "The largest record of failed-tasks; the other topics' limits follow from it."},
    END,
};

static const struct rp_param targets[] = {
    {.key = "allow", .type = RP_P_LIST, .item = RP_P_STRING, RP_FIELD(rp_config, targets.allow),
     .min = 1, .max = RP_MAX_TOPIC_NAME, .max_items = 1000, .def = "",
     .about = "The topics that an event may name as its target, as globs. With none, only the "
              "targets that policies name are used."},
    END,
};

static const struct rp_param schema_registry[] = {
    {.key = "url", .type = RP_P_STRING, RP_FIELD(rp_config, registry.url), .max = 2000, .def = "",
     .check = check_url,
     .about = "Where the schemas of records in the Confluent wire format are; empty: such records "
              "cannot be decoded."},
    {.key = "username", .type = RP_P_STRING, RP_FIELD(rp_config, registry.username), .max = 1000,
     .def = "", .about = "For basic authentication."},
    {.key = "password", .type = RP_P_STRING, RP_FIELD(rp_config, registry.password), .max = 65536,
     .def = "", .about = "For basic authentication."},
    {.key = "ca_file", .type = RP_P_STRING, RP_FIELD(rp_config, registry.ca_file), .max = 4096,
     .def = "", .about = "Certificates to trust, in PEM; empty: the system's."},
    {.key = "timeout", .type = RP_P_DURATION, RP_FIELD(rp_config, registry.timeout_ms),
     .min = 100 * MS, .max = MINUTE, .def = "5s", .about = "Of one request."},
    {.key = "patience", .type = RP_P_DURATION, RP_FIELD(rp_config, registry.patience_ms), .min = 0,
     .max = DAY, .def = "5m", .about = "How long a record waits for a registry that is away."},
    END,
};

/* What every service has. */
#define SERVICE(member, def_batch, def_listen)                                                     \
    {.key = "workers", .type = RP_P_INT, RP_FIELD(rp_config, member.workers), .min = 1,            \
     .max = 64, .def = "1", .about = "Threads, each a member of the consumer group."},             \
    {.key = "batch", .type = RP_P_INT, RP_FIELD(rp_config, member.batch), .min = 1,                \
     .max = 100000, .def = def_batch, .about = "Records in one transaction, at most."},            \
    {.key = "drain", .type = RP_P_DURATION, RP_FIELD(rp_config, member.drain_ms), .min = SECOND,   \
     .max = HOUR, .def = "30s", .about = "From SIGTERM to the end, at most."},                     \
    {.key = "listen", .type = RP_P_STRING, RP_FIELD(rp_config, member.listen), .min = 1,           \
     .max = 260, .def = def_listen, .check = check_listen,                                         \
     .about = "Where /healthz, /readyz and /metrics are served."}

/* The delayer has none: its transactions begin when something is due. */
#define LINGER(member, def_linger, what)                                                           \
    {.key = "linger", .type = RP_P_DURATION, RP_FIELD(rp_config, member.linger_ms), .min = 0,      \
     .max = 10 * SECOND, .def = def_linger,                                                        \
     .about = "How long a transaction waits for more records" what}

static const struct rp_param router[] = {
    SERVICE(router, "1000", "127.0.0.1:9101"),
    LINGER(router, "20ms", "; where a task in it is due soon, 5 ms at most."),
    {.key = "clock_skew", .type = RP_P_DURATION, RP_FIELD(rp_config, clock_skew_ms), .min = 0,
     .max = HOUR, .def = "5s",
     .about = "A failed_at further in the future than this counts as the event's append time. By so "
              "much the brokers' clock may be off before a failure whose time is in whole seconds "
              "is taken for a repeat."},
    {.key = "loop_guard", .type = RP_P_INT, RP_FIELD(rp_config, loop_guard), .min = 0,
     .max = 10000000, .def = "100000",
     .about = "Recent events that a worker remembers, to notice repeated ones and a handler that does "
              "not count its attempts; 0: off."},
    END,
};

static const struct rp_param delayer[] = {
    SERVICE(delayer, "1000", "127.0.0.1:9102"),
    {.key = "prepare_ahead", .type = RP_P_DURATION, RP_FIELD(rp_config, prepare_ahead_ms),
     .min = 0, .max = SECOND, .def = "10ms",
     .about = "How long before the due time a transaction begins, at most; it follows what one takes. "
              "0: off, for handlers that read uncommitted."},
    {.key = "slack", .type = RP_P_DURATION, RP_FIELD(rp_config, slack_ms), .min = 0,
     .max = MINUTE, .def = "1s", .about = "How much earlier than needed a tier is read."},
    {.key = "memory", .type = RP_P_SIZE, RP_FIELD(rp_config, memory_bytes), .min = MIB,
     .max = 64 * GIB, .def = "32MiB",
     .about = "For the tasks that a worker holds; what is beyond goes to spill_dir."},
    {.key = "max_held", .type = RP_P_INT, RP_FIELD(rp_config, max_held), .min = 1000,
     .max = 100000000, .def = "2000000", .about = "Tasks that a worker holds, at most."},
    {.key = "spill_dir", .type = RP_P_STRING, RP_FIELD(rp_config, spill_dir), .min = 1,
     .max = 4096, .def = "/var/tmp", .check = check_path,
     .about = "Where held tasks are written when memory runs out; the file has no name."},
    END,
};

static const struct rp_param archiver[] = {
    SERVICE(archiver, "5000", "127.0.0.1:9103"),
    LINGER(archiver, "100ms", "."),
    {.key = "statistics", .type = RP_P_DURATION, RP_FIELD(rp_config, statistics_ms),
     .min = SECOND, .max = DAY, .def = "5m",
     .about = "How often the dead letters are counted into the table dead_letter_stat."},
    END,
};

static const struct rp_param postgres[] = {
    {.key = "dsn", .type = RP_P_STRING, RP_FIELD(rp_config, postgres.dsn), .min = 1, .max = 4096,
     .def = "postgresql:///reprise", .about = "The archive, as libpq's URI or key=value text."},
    END,
};

static const struct rp_param retention[] = {
    {.key = "keep", .type = RP_P_DURATION, RP_FIELD(rp_config, retention.keep_ms), .min = DAY,
     .max = 3650 * DAY, .def = "30d", .about = "How long a dead letter is kept."},
    {.key = "schedule", .type = RP_P_TIME_OF_DAY, RP_FIELD(rp_config, retention.schedule_minute),
     .def = "03:00", .about = "When older ones are dropped, each day, UTC."},
    {.key = "by_type", .type = RP_P_SPECIAL, RP_FIELD(rp_config, retention.by_type),
     .read = rp_config_by_type_read, .clear = rp_config_by_type_clear,
     .same = rp_config_by_type_same, .schema = "by_type",
     .noun = "a mapping of task types to durations",
     .about = "Task types, by name or glob, that are kept for less than retention.keep: "
              "{payment: 7d, \"mail.*\": 2d}. Where several match, the shortest counts."},
    {.key = "export", .type = RP_P_STRING, RP_FIELD(rp_config, retention.export_dir), .max = 4000,
     .def = "", .check = check_path_or_none,
     .about = "A folder to which dead letters are written, as compressed JSON lines, before they "
              "are dropped; empty: they are not. What cannot be written is not dropped."},
    {.key = "statistics", .type = RP_P_DURATION, RP_FIELD(rp_config, retention.statistics_ms),
     .min = HOUR, .max = 3650 * DAY, .def = "90d",
     .about = "How long the statistics are kept."},
    END,
};

static const struct rp_param logging[] = {
    {.key = "level", .type = RP_P_CHOICE, RP_FIELD(rp_config, log.level), .words = levels,
     .def = "info", .about = "The least severe lines that are written."},
    {.key = "format", .type = RP_P_CHOICE, RP_FIELD(rp_config, log.json), .words = formats,
     .def = "text", .about = "key=value, or one JSON object a line."},
    END,
};

/* The sections' fields are all in struct rp_config, so a section has no offset of its own. */
const struct rp_param rp_config_params[] = {
    {.key = "instance", .type = RP_P_STRING, RP_FIELD(rp_config, instance), .min = 1, .max = 64,
     .check = check_name,
     .about = "Names this process's group members and transactions, and must be unique among live "
              "processes of a service. Without it: the host's name and the first free slot."},
    {.key = "guarantee", .type = RP_P_CHOICE, RP_FIELD(rp_config, guarantee), .words = guarantees,
     .def = "exactly-once",
     .about = "at-least-once trades the transaction for a shorter delay."},
    {.key = "tiers", .type = RP_P_LIST, .item = RP_P_DURATION, RP_FIELD(rp_config, tier_lengths),
     .min = 100 * MS, .max = 30 * DAY, .max_items = RP_MAX_TIERS, .def = "1s, 10s, 60s",
     .about = "The delay topics, ascending. A tier's topic is named by its length as written "
              "here: retry-10s."},
    {.key = "tiers_retired", .type = RP_P_LIST, .item = RP_P_DURATION,
     RP_FIELD(rp_config, retired_lengths), .min = 100 * MS, .max = 30 * DAY,
     .max_items = RP_MAX_TIERS,
     .about = "Tiers taken out of `tiers`, which the delayer still empties. 'reprise topics check' "
              "says when nothing is left in one."},
    {.key = "kafka", .type = RP_P_SPECIAL, RP_FIELD(rp_config, kafka), .read = rp_config_kafka_read,
     .clear = rp_config_kafka_clear, .same = rp_config_kafka_same, .schema = "kafka",
     .noun = "a mapping of librdkafka's properties",
     .about = "Any property of librdkafka; under `consumer` and `producer`, of only these. "
              "bootstrap.servers defaults to localhost:9092."},
    {.key = "topics", .type = RP_P_MAP, .fields = topics},
    {.key = "targets", .type = RP_P_MAP, .fields = targets},
    {.key = "schema_registry", .type = RP_P_MAP, .fields = schema_registry},
    {.key = "router", .type = RP_P_MAP, .fields = router},
    {.key = "delayer", .type = RP_P_MAP, .fields = delayer},
    {.key = "archiver", .type = RP_P_MAP, .fields = archiver},
    {.key = "postgres", .type = RP_P_MAP, .fields = postgres},
    {.key = "retention", .type = RP_P_MAP, .fields = retention},
    {.key = "log", .type = RP_P_MAP, .fields = logging},
    {.key = "categories", .type = RP_P_SPECIAL, RP_FIELD(rp_config, policies),
     .read = rp_config_categories_read, .schema = "categories", .fields = rp_category_params,
     .noun = "a mapping of categories",
     .about = "New error categories, and more rules for the built-in ones, which are tried first."},
    {.key = "policies", .type = RP_P_SPECIAL, RP_FIELD(rp_config, policies),
     .read = rp_config_policies_read, .clear = rp_config_policies_clear, .schema = "policies",
     .fields = rp_policy_params, .noun = "a mapping of task types",
     .about = "By task type: its name, a glob, or default. The exact name counts first, then the "
              "most specific glob, then default. What a policy leaves out is as in the built-in "
              "default: 3 executions (where it does not say how often in another way), from 1s x2, "
              "at most 60s, plus 0 to 10% of jitter."},
    END,
};
