/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TOPIC_PLAN_H
#define REPRISE_TOPIC_PLAN_H

#include "config.h"

/* What reprise's topics, the brokers and the targets must be set to so that the promises hold, and
 * what is wrong where they are set otherwise. Knows no Kafka client. */

enum topic_rule { TOPIC_EQUALS, TOPIC_AT_LEAST, TOPIC_AT_MOST };

struct topic_setting {
    const char *name;
    enum topic_rule rule;
    char create[24]; /* what a new topic gets; "": left to the cluster */
    char need[24];   /* what an existing one must have, by the rule; -1 is without end */
    const char *why; /* what breaks otherwise */
};

#define TOPIC_MAX_SETTINGS 8
#define TOPIC_MAX_PLANS    (RP_MAX_TIERS + 2)

struct topic_plan {
    const char *topic; /* the configuration's */
    /* Who must not be away for longer than retention.ms, and what is lost otherwise; NULL: nothing
     * goes unread. */
    const char *readers, *lost;
    int partitions, replicas; /* what a new topic gets */
    struct topic_setting settings[TOPIC_MAX_SETTINGS];
    size_t n;
};

/* Headers that the router puts in front of what came from failed-tasks, at most. */
#define TOPIC_TIER_ROOM (64 * 1024)
/* A dead letter wraps the task, or the bytes that could not be read, in a record of its own. */
#define TOPIC_DEAD_LETTER_ROOM (128 * 1024)

/* As many as there are brokers, where no other number is configured. */
#define TOPIC_REPLICAS 3

/* Fills in the plans of failed-tasks, the tiers and dead-letter for a cluster of `brokers`, those
 * that are away among them; returns how many. `largest` is the max.message.bytes of failed-tasks
 * where it exists, else 0: a topic that takes more than the configuration says makes the others
 * need more. */
size_t topic_plans(const struct rp_config *config, int brokers, int64_t largest,
                   struct topic_plan plans[TOPIC_MAX_PLANS]);

/* A topic or broker as it is. */
struct topic_state {
    const char *name;
    int partitions, replicas; /* the least of its partitions' */
    struct rp_properties settings;
};

const char *topic_setting_value(const struct topic_state *state, const char *name);

/* How many brokers a cluster has of which `known` are known: it has at least as many as the
 * settings of a broker put new topics on, and the offsets of groups. Of those beyond TOPIC_REPLICAS
 * only known ones count. */
int topic_cluster_size(int known, const struct topic_state *broker);

/* A setting that breaks a promise. */
struct topic_fault {
    const char *where, *setting, *value, *need, *why;
    enum topic_rule rule;
    bool alterable; /* `topics apply --alter` can mend it */
};
typedef void topic_fault_fn(void *opaque, const struct topic_fault *fault);

/* Each tells every fault and returns how many there were. */
size_t topic_check(const struct topic_plan *plan, const struct topic_state *state,
                   topic_fault_fn *fault, void *opaque);
/* `transaction_ms` and `session_ms` are what the services' clients ask for. */
size_t topic_check_broker(const struct topic_state *broker, int brokers, int64_t transaction_ms,
                          int64_t session_ms, topic_fault_fn *fault, void *opaque);
/* A target or fallback of a policy; `largest` is the max.message.bytes of failed-tasks. */
size_t topic_check_target(const struct topic_state *target, int64_t largest, topic_fault_fn *fault,
                          void *opaque);

#endif
