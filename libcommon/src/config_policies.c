/* SPDX-License-Identifier: Apache-2.0 */
#include "config_policies.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "glob.h"
#include "policies.h"
#include "suggest.h"
#include "units.h"

#define MAX_NAME     256
#define MAX_CATEGORY 64

static void add_category(struct rp_doc *doc, const char *name, const yaml_node_t *key_node,
                         const yaml_node_t *node, void *opaque)
{
    struct rp_policies *p = opaque;
    char *copy;
    struct rp_category_draft *drafts =
        rp_array_one_more(p->drafts, p->n_drafts, sizeof *drafts, name, &copy);
    if (drafts == NULL) {
        rp_doc_fault(doc, key_node, "no memory");
        return;
    }
    p->drafts = drafts;
    struct rp_category_draft *d = &drafts[p->n_drafts++];
    *d = (struct rp_category_draft){.name = copy, .persistent = -1, .profile = -1};
    if (strlen(name) > MAX_CATEGORY)
        rp_doc_fault(doc, key_node, "expected a name of at most %d characters", MAX_CATEGORY);
    rp_params_read(doc, node, rp_category_params, d);
}

static void add_policy(struct rp_doc *doc, const char *name, const yaml_node_t *key_node,
                       const yaml_node_t *node, void *opaque)
{
    struct rp_policies *p = opaque;
    char *copy;
    struct rp_policy *items = rp_array_one_more(p->items, p->n_items, sizeof *items, name, &copy);
    if (items == NULL) {
        rp_doc_fault(doc, key_node, "no memory");
        return;
    }
    p->items = items;
    struct rp_policy *policy = &items[p->n_items++];
    *policy = (struct rp_policy){.name = copy, .preset = -1, .schedule = RP_SCHEDULE_UNSTATED};
    if (strlen(name) > MAX_NAME)
        rp_doc_fault(doc, key_node, "expected a task type of at most %d characters", MAX_NAME);
    rp_params_read(doc, node, rp_policy_params, policy);
}

void rp_config_categories_read(struct rp_doc *doc, const yaml_node_t *node, void *field)
{
    if (node->type == YAML_MAPPING_NODE)
        rp_params_each(doc, node, 100, add_category, *(struct rp_policies **)field);
    else if (!rp_doc_is_null(node))
        rp_doc_unexpected(doc, node, "a mapping of categories");
}

void rp_config_policies_read(struct rp_doc *doc, const yaml_node_t *node, void *field)
{
    if (node->type == YAML_MAPPING_NODE)
        rp_params_each(doc, node, 1000, add_policy, *(struct rp_policies **)field);
    else if (!rp_doc_is_null(node))
        rp_doc_unexpected(doc, node, "a mapping of task types");
}

void rp_config_policies_clear(void *field)
{
    struct rp_policies **p = field;
    rp_policies_unref(*p);
    *p = NULL;
}

/* `entry` becomes what the file makes of it. */
static void apply_draft(struct rp_doc *doc, const yaml_node_t *node,
                        const struct rp_category_draft *d, struct rp_category_entry *entry)
{
    if (d->persistent >= 0 && d->persistent != entry->category.persistent) {
        entry->category.persistent = d->persistent != 0;
        entry->profile = d->persistent ? RP_PROFILE_NO_RETRY : RP_PROFILE_MEDIUM;
    }
    if (d->profile >= 0)
        entry->profile = d->profile;
    if (!entry->category.persistent && entry->profile == RP_PROFILE_NO_RETRY)
        rp_doc_fault(doc, node, "profile no-retry contradicts persistent: false");
}

static struct rp_category_entry *find_entry(struct rp_policies *p, const char *name)
{
    const struct rp_category *found = rp_category_find(p, rp_str(name));
    for (size_t i = 0; found != NULL && i < p->n_categories; i++)
        if (&p->categories[i].category == found)
            return &p->categories[i];
    return NULL;
}

static int add_rules(struct rp_rules *rules, const struct rp_category_draft *d,
                     const struct rp_category *category)
{
    for (size_t i = 0; i < d->classes.n; i++)
        if (rp_rules_add_class(rules, d->classes.items[i], category) != 0)
            return -1;
    for (size_t i = 0; i < d->messages.n; i++)
        if (rp_rules_add_message(rules, d->messages.items[i], category) != 0)
            return -1;
    return 0;
}

static int add_builtin(struct rp_policies *p)
{
    for (size_t i = 0; i < rp_n_builtin_categories; i++) {
        const struct rp_builtin_category *b = &rp_builtin_categories[i];
        struct rp_category_entry *entry = &p->categories[p->n_categories++];
        *entry = b->entry;
        for (const char *const *c = b->classes; *c != NULL; c++)
            if (rp_rules_add_class(&p->builtin, *c, &entry->category) != 0)
                return -1;
        for (const char *const *m = b->messages; *m != NULL; m++)
            if (rp_rules_add_message(&p->builtin, *m, &entry->category) != 0)
                return -1;
    }
    (void)rp_rules_sort(&p->builtin);
    return 0;
}

static int finish_categories(struct rp_doc *doc, struct rp_policies *p)
{
    const yaml_node_t *section = rp_doc_get(doc, rp_doc_root(doc), "categories");
    p->categories = calloc(rp_n_builtin_categories + p->n_drafts, sizeof *p->categories);
    if (p->categories == NULL || add_builtin(p) != 0)
        return -1;
    size_t mark = rp_doc_enter(doc, "categories");
    for (size_t i = 0; i < p->n_drafts; i++) {
        const struct rp_category_draft *d = &p->drafts[i];
        const yaml_node_t *node = rp_doc_get(doc, section, d->name);
        size_t inner = rp_doc_enter(doc, d->name);
        struct rp_category_entry *entry = find_entry(p, d->name);
        if (entry != NULL && entry - p->categories >= (ptrdiff_t)rp_n_builtin_categories)
            rp_doc_fault(doc, node, "comes twice, as %s", entry->category.name);
        if (entry == NULL) {
            entry = &p->categories[p->n_categories++];
            *entry = (struct rp_category_entry){{d->name, false}, RP_PROFILE_MEDIUM};
        }
        apply_draft(doc, node, d, entry);
        if (add_rules(&p->configured, d, &entry->category) != 0)
            return -1;
        rp_doc_leave(doc, inner);
    }
    const char *twice = rp_rules_sort(&p->configured);
    if (twice != NULL)
        rp_doc_fault(doc, section, "the class %s is listed twice", twice);
    rp_doc_leave(doc, mark);
    return 0;
}

/* A rule of one number is the shorthand of the same name. */
static void settle_rule(struct rp_doc *doc, const yaml_node_t *node, struct rp_schedule *s)
{
    if (s->stated.kind == RP_RETRY_MAX_ATTEMPTS) {
        if (s->max_attempts > 0)
            rp_doc_fault(doc, node, "max_attempts is stated twice");
        s->max_attempts = s->stated.max_attempts;
        s->stated.kind = -1;
    } else if (s->stated.kind == RP_RETRY_DEADLINE) {
        if (s->deadline_ms > 0)
            rp_doc_fault(doc, node, "deadline is stated twice");
        s->deadline_ms = s->stated.deadline_ms;
        s->stated.kind = -1;
    } else if (s->stated.kind == RP_RETRY_NEVER && (s->max_attempts > 0 || s->deadline_ms > 0)) {
        rp_doc_fault(doc, node, "retry: never contradicts %s",
                     s->max_attempts > 0 ? "max_attempts" : "deadline");
    }
    if (s->stated.kind >= 0)
        s->rule = &s->stated;
}

/* What is not stated is the base's. A rule that is stated whole replaces the base's whole; a
 * shorthand replaces the base's shorthand, and the base's rule, which said the same in full. */
static void fill(struct rp_schedule *s, const struct rp_schedule *base)
{
    if (s->rule == NULL) {
        if (s->max_attempts == 0 && s->deadline_ms == 0)
            s->rule = base->rule;
        if (s->max_attempts == 0)
            s->max_attempts = base->max_attempts;
        if (s->deadline_ms == 0)
            s->deadline_ms = base->deadline_ms;
    }
    if (s->backoff.kind < 0)
        s->backoff = base->backoff;
    if (s->jitter_percent < 0)
        s->jitter_percent = base->jitter_percent;
}

static void check_schedule(struct rp_doc *doc, const yaml_node_t *node, const struct rp_schedule *s)
{
    const struct rp_backoff *b = &s->backoff;
    char delay[RP_UNIT_TEXT], deadline[RP_UNIT_TEXT];
    const yaml_node_t *at = rp_doc_get(doc, node, "backoff");
    if (at == NULL) /* it is the policy's, or the preset's */
        at = node;
    if (b->kind == RP_BACKOFF_UNIFORM && b->initial_ms > b->max_ms)
        rp_doc_fault(doc, at, "backoff: min is greater than max");
    if (b->kind >= RP_BACKOFF_EXPONENTIAL && b->initial_ms > b->max_ms)
        rp_doc_fault(doc, at, "backoff: initial is greater than max");
    if (b->kind == RP_BACKOFF_BY_CATEGORY || s->deadline_ms == 0)
        return;
    int64_t first = rp_backoff_range(b, 1).low_ms;
    if (first > s->deadline_ms)
        rp_doc_fault(
            doc, node, "deadline %s is shorter than the first delay, %s: nothing would be retried",
            rp_format_duration(s->deadline_ms, deadline), rp_format_duration(first, delay));
}

static void check_topic(struct rp_doc *doc, const yaml_node_t *policy_node, const char *key,
                        const char *topic, const struct rp_config *config)
{
    const yaml_node_t *at = rp_doc_get(doc, policy_node, key);
    if (topic == NULL)
        return;
    if (!rp_config_is_topic_name(rp_str(topic)))
        rp_doc_fault(doc, at, "%s: expected the name of a topic, found \"%s\"", key, topic);
    else if (rp_config_owns_topic(config, rp_str(topic)))
        rp_doc_fault(doc, at, "%s: %s is a topic of reprise's own", key, topic);
}

static void check_lists(struct rp_doc *doc, const yaml_node_t *node, const struct rp_policy *p)
{
    for (size_t i = 0; i < p->retryable.n; i++)
        for (size_t j = 0; j < p->non_retryable.n; j++)
            if (strcmp(p->retryable.items[i], p->non_retryable.items[j]) == 0)
                rp_doc_fault(doc, rp_doc_get(doc, node, "non_retryable"),
                             "%s is both retryable and non_retryable", p->retryable.items[i]);
}

static void note_unknown_category(struct rp_doc *doc, const yaml_node_t *node,
                                  const struct rp_policies *p, const char *name)
{
    struct rp_suggestion s = {.wrong = name};
    char hint[RP_HINT_TEXT];
    for (size_t i = 0; i < p->n_categories; i++)
        rp_suggest(&s, p->categories[i].category.name);
    rp_doc_fault(doc, node, "there is no such category%s", rp_suggestion_hint(&s, hint));
}

static void finish_overrides(struct rp_doc *doc, const yaml_node_t *node,
                             const struct rp_policies *p, struct rp_policy *policy)
{
    node = rp_doc_get(doc, node, "overrides");
    size_t mark = rp_doc_enter(doc, "overrides");
    for (size_t i = 0; i < policy->overrides.n; i++) {
        struct rp_override *o = &policy->overrides.items[i];
        const yaml_node_t *at = rp_doc_get(doc, node, o->name);
        size_t inner = rp_doc_enter(doc, o->name);
        o->category = rp_category_find(p, rp_str(o->name));
        if (o->category == NULL)
            note_unknown_category(doc, at, p, o->name);
        for (size_t j = 0; j < i && o->category != NULL; j++)
            if (policy->overrides.items[j].category == o->category)
                rp_doc_fault(doc, at, "comes twice, as %s", policy->overrides.items[j].name);
        settle_rule(doc, at, &o->schedule);
        fill(&o->schedule, &policy->schedule);
        check_schedule(doc, at, &o->schedule);
        rp_doc_leave(doc, inner);
    }
    rp_doc_leave(doc, mark);
}

static void finish_policy(struct rp_doc *doc, const yaml_node_t *node, struct rp_config *config,
                          struct rp_policy *policy)
{
    struct rp_schedule base = rp_default_schedule, *s = &policy->schedule;
    size_t mark = rp_doc_enter(doc, policy->name);
    settle_rule(doc, node, s);
    if (policy->preset >= 0)
        base = rp_presets[policy->preset];
    else if (s->max_attempts > 0 || s->deadline_ms > 0)
        base.max_attempts = 0; /* how often is stated: the default has no say in it */
    fill(s, &base);
    check_schedule(doc, node, s);
    check_topic(doc, node, "target", policy->target, config);
    check_topic(doc, node, "fallback", policy->fallback, config);
    if (policy->target != NULL && policy->fallback != NULL &&
        strcmp(policy->target, policy->fallback) == 0)
        rp_doc_fault(doc, rp_doc_get(doc, node, "fallback"), "fallback is the target itself");
    check_lists(doc, node, policy);
    if (policy->track)
        rp_doc_fault(doc, rp_doc_get(doc, node, "track"),
                     "track: expected false: this version writes no task-events");
    finish_overrides(doc, node, config->policies, policy);
    rp_doc_leave(doc, mark);
}

/* The file may have none. */
static int add_default(struct rp_doc *doc, struct rp_policies *p)
{
    for (size_t i = 0; i < p->n_items; i++)
        if (strcmp(p->items[i].name, "default") == 0)
            return 0;
    size_t n = p->n_items;
    struct rp_doc nothing = {.file = doc->file};
    yaml_node_t empty = {
        .type = YAML_SCALAR_NODE,
        .data.scalar = {.value = (yaml_char_t *)"", .style = YAML_PLAIN_SCALAR_STYLE}};
    add_policy(&nothing, "default", &empty, &empty, p);
    rp_doc_close(&nothing);
    if (p->n_items == n)
        return -1;
    p->items[n].built_in = true;
    return 0;
}

int rp_config_policies_finish(struct rp_doc *doc, struct rp_config *config)
{
    struct rp_policies *p = config->policies;
    const yaml_node_t *section = rp_doc_get(doc, rp_doc_root(doc), "policies");
    if (finish_categories(doc, p) != 0 || add_default(doc, p) != 0)
        return -1;
    size_t mark = rp_doc_enter(doc, "policies");
    for (size_t i = 0; i < p->n_items; i++)
        finish_policy(doc, rp_doc_get(doc, section, p->items[i].name), config, &p->items[i]);
    rp_doc_leave(doc, mark);
    return rp_policies_index(p);
}
