/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "config_policies.h"
#include "policies.h"

/* clang-format off: a parameter is a few dense lines, not one a field. */

#define SECOND INT64_C(1000)
#define DAY    (86400 * SECOND)

#define END {.key = NULL}

#define MAX_DEPTH 8     /* of all_of and any_of, counted from the file's root */
#define MAX_RULES 10000 /* of these in a file */

static const char *const retry_words[] = {"never", "always", NULL};
static const char *const backoff_words[] = {"none", "by_category", NULL};
static const char *const profiles[] = {"fast", "medium", "no-retry", NULL};

static void read_terms(struct rp_doc *doc, const yaml_node_t *node, void *field)
{
    struct rp_retry_rule *rule = field;
    const yaml_node_item_t *item = node->data.sequence.items.start;
    ptrdiff_t n = node->type == YAML_SEQUENCE_NODE ? node->data.sequence.items.top - item : 0;
    if (n < 1 || n > RP_RETRY_MAX_TERMS) {
        rp_doc_fault(doc, node, "expected a list of 1 to %d rules", RP_RETRY_MAX_TERMS);
        return;
    }
    doc->n_rules += (size_t)n;
    if (doc->depth > MAX_DEPTH || doc->n_rules > MAX_RULES) {
        rp_doc_fault(doc, node, "expected %s",
                     doc->depth > MAX_DEPTH ? "a rule that is nested less deeply"
                                            : "fewer rules in the file");
        return;
    }
    rule->terms = calloc((size_t)n, sizeof *rule->terms);
    if (rule->terms == NULL) {
        rp_doc_fault(doc, node, "no memory");
        return;
    }
    rule->n_terms = (size_t)n;
    for (size_t i = 0; i < rule->n_terms; i++) {
        rule->terms[i].kind = -1;
        rp_params_read_value(doc, &rp_retry_param, rp_doc_node(doc, item[i]), &rule->terms[i]);
    }
}

#define MAX_ATTEMPTS(owner, member)                                                                \
    {.key = "max_attempts", .type = RP_P_INT, RP_FIELD(owner, member), .min = 1, .max = 100,       \
     .about = "Executions in all, the first one included."}
#define DEADLINE(owner, member)                                                                    \
    {.key = "deadline", .type = RP_P_DURATION, RP_FIELD(owner, member), .min = 1,                  \
     .max = 365 * DAY, .about = "From the first failure; no retry is due later than this."}

static const struct rp_param retry_fields[] = {
    MAX_ATTEMPTS(rp_retry_rule, max_attempts),
    DEADLINE(rp_retry_rule, deadline_ms),
    {.key = "all_of", .type = RP_P_SPECIAL, .read = read_terms, .schema = "retries",
     .noun = "a list of 1 to 8 of these rules",
     .about = "Each of these rules must allow a retry."},
    {.key = "any_of", .type = RP_P_SPECIAL, .read = read_terms, .schema = "retries",
     .noun = "a list of 1 to 8 of these rules",
     .about = "One of these rules must allow a retry."},
    END,
};

const struct rp_param rp_retry_param = {
    .key = "retry", .type = RP_P_ONE_OF, .words = retry_words, .fields = retry_fields,
    .about = "How often a task is executed.",
};

/* The default only keeps one that is missing from being told twice. */
#define DELAY(name, member, stand_in, text)                                                        \
    {.key = name, .type = RP_P_DURATION, RP_FIELD(rp_backoff, member), .min = 0, .max = 365 * DAY, \
     .required = true, .def = stand_in, .about = text}

static const struct rp_param uniform[] = {
    DELAY("min", initial_ms, "0", "The least delay."),
    DELAY("max", max_ms, "365d", "The greatest delay."),
    END,
};

static const struct rp_param exponential[] = {
    DELAY("initial", initial_ms, "0", "The first delay."),
    {.key = "multiplier", .type = RP_P_RATIO, RP_FIELD(rp_backoff, multiplier), .min = 1000,
     .max = 8000, .def = "2", .about = "From one delay to the next."},
    DELAY("max", max_ms, "365d", "The greatest delay."),
    END,
};

static const struct rp_param backoff_fields[] = {
    {.key = "fixed", .type = RP_P_DURATION, RP_FIELD(rp_backoff, initial_ms), .min = 0,
     .max = 365 * DAY, .about = "Always the same delay."},
    {.key = "uniform", .type = RP_P_MAP, .fields = uniform,
     .about = "Drawn uniformly for each task."},
    {.key = "exponential", .type = RP_P_MAP, .fields = exponential,
     .about = "min(initial * multiplier^(n - 1), max) after execution n."},
    {.key = "exponential_random", .type = RP_P_MAP, .fields = exponential,
     .about = "Drawn uniformly between the exponential delay of this execution and the next."},
    END,
};

const struct rp_param rp_backoff_param = {
    .key = "backoff", .type = RP_P_ONE_OF, .words = backoff_words, .fields = backoff_fields,
    .about = "How long a task waits.",
};

/* What a policy and an override have in common. */
#define SCHEDULE(owner)                                                                            \
    MAX_ATTEMPTS(owner, schedule.max_attempts),                                                    \
    DEADLINE(owner, schedule.deadline_ms),                                                         \
    {.key = "retry", .type = RP_P_ONE_OF, RP_FIELD(owner, schedule.stated), .words = retry_words,  \
     .fields = retry_fields, .schema = "retry",                                                    \
     .about = "How often; with max_attempts and deadline beside it, all must allow."},             \
    {.key = "backoff", .type = RP_P_ONE_OF, RP_FIELD(owner, schedule.backoff),                     \
     .words = backoff_words, .fields = backoff_fields, .schema = "backoff",                        \
     .about = "How long a task waits. by_category: by the profile of the error's category."},      \
    {.key = "jitter", .type = RP_P_PERCENT, RP_FIELD(owner, schedule.jitter_percent), .min = 0,    \
     .max = 100, .about = "Up to so much is added to each delay, drawn per task."}

const struct rp_param rp_override_params[] = {
    SCHEDULE(rp_override),
    END,
};

static void add_override(struct rp_doc *doc, const char *name, const yaml_node_t *key_node,
                         const yaml_node_t *node, void *opaque)
{
    struct rp_overrides *list = opaque;
    char *copy;
    struct rp_override *items = rp_array_one_more(list->items, list->n, sizeof *items, name, &copy);
    if (items == NULL) {
        rp_doc_fault(doc, key_node, "no memory");
        return;
    }
    list->items = items;
    struct rp_override *o = &items[list->n++];
    *o = (struct rp_override){.name = copy, .schedule = RP_SCHEDULE_UNSTATED};
    rp_params_read(doc, node, rp_override_params, o);
}

static void read_overrides(struct rp_doc *doc, const yaml_node_t *node, void *field)
{
    if (node->type == YAML_MAPPING_NODE)
        rp_params_each(doc, node, 100, add_override, field);
    else if (!rp_doc_is_null(node))
        rp_doc_unexpected(doc, node, "a mapping of categories");
}

#define CLASSES(member, text)                                                                      \
    {.key = #member, .type = RP_P_LIST, .item = RP_P_STRING, RP_FIELD(rp_policy, member),          \
     .min = 1, .max = 256, .max_items = 1000, .about = text}

const struct rp_param rp_policy_params[] = {
    {.key = "preset", .type = RP_P_CHOICE, RP_FIELD(rp_policy, preset), .words = rp_preset_names,
     .about = "A start, of which all can be stated otherwise: short (5 executions, from 2s x2), "
              "medium (7, from 30s x2), long (11, from 5m x1.75)."},
    {.key = "target", .type = RP_P_STRING, RP_FIELD(rp_policy, target), .min = 1,
     .max = RP_MAX_TOPIC_NAME,
     .about = "The topic where a task is re-invoked when its event names none."},
    SCHEDULE(rp_policy),
    CLASSES(retryable, "Error classes (or globs) that are retried whatever their category."),
    CLASSES(non_retryable, "Error classes (or globs) that are never retried."),
    {.key = "fallback", .type = RP_P_STRING, RP_FIELD(rp_policy, fallback), .min = 1,
     .max = RP_MAX_TOPIC_NAME,
     .about = "The topic of the last try, before a task becomes a dead letter."},
    {.key = "track", .type = RP_P_BOOL, RP_FIELD(rp_policy, track), .def = "false",
     .about = "Kept for the steps of a task in task-events, which this version does not write: "
              "only false."},
    {.key = "overrides", .type = RP_P_SPECIAL, RP_FIELD(rp_policy, overrides),
     .read = read_overrides, .schema = "overrides",
     .noun = "a mapping of categories",
     .about = "By category: max_attempts, deadline, retry, backoff, jitter. What an override does "
              "not state is the policy's. A persistent category with an override is retried."},
    END,
};

const struct rp_param rp_category_params[] = {
    {.key = "persistent", .type = RP_P_BOOL, RP_FIELD(rp_category_draft, persistent),
     .about = "Whether it is not retried unless a policy says otherwise; default: no."},
    {.key = "profile", .type = RP_P_CHOICE, RP_FIELD(rp_category_draft, profile),
     .words = profiles,
     .about = "The backoff of policies that take it from the category: fast (100ms x2 to 400ms), "
              "medium (1s x2 to 16s); default: medium, or no-retry where it is persistent."},
    {.key = "classes", .type = RP_P_LIST, .item = RP_P_STRING,
     RP_FIELD(rp_category_draft, classes), .min = 1, .max = 256, .max_items = 1000,
     .about = "Error classes or globs, tried before the built-in ones."},
    {.key = "messages", .type = RP_P_LIST, .item = RP_P_STRING,
     RP_FIELD(rp_category_draft, messages), .min = 1, .max = 256, .max_items = 1000,
     .about = "What to look for in the error's message, in either case; globs."},
    END,
};
