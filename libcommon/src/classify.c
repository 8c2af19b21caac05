/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "glob.h"
#include "policies.h"

static int add(struct rp_rule_list *list, const char *pattern, const struct rp_category *category)
{
    struct rp_rule *items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (items == NULL)
        return -1;
    list->items = items;
    items[list->n++] = (struct rp_rule){pattern, category};
    return 0;
}

int rp_rules_add_class(struct rp_rules *rules, const char *pattern,
                       const struct rp_category *category)
{
    return add(rp_glob_is(pattern) ? &rules->globs : &rules->exact, pattern, category);
}

int rp_rules_add_message(struct rp_rules *rules, const char *pattern,
                         const struct rp_category *category)
{
    return add(&rules->messages, pattern, category);
}

static int by_pattern(const void *a, const void *b)
{
    const struct rp_rule *x = a, *y = b;
    return strcmp(x->pattern, y->pattern);
}

const char *rp_rules_sort(struct rp_rules *rules)
{
    if (rules->exact.n > 0)
        qsort(rules->exact.items, rules->exact.n, sizeof *rules->exact.items, by_pattern);
    for (size_t i = 1; i < rules->exact.n; i++)
        if (by_pattern(&rules->exact.items[i - 1], &rules->exact.items[i]) == 0)
            return rules->exact.items[i].pattern;
    return NULL;
}

void rp_rules_clear(struct rp_rules *rules)
{
    free(rules->exact.items);
    free(rules->globs.items);
    free(rules->messages.items);
    *rules = (struct rp_rules){0};
}

static int compare_class(const void *key, const void *element)
{
    const struct rp_bytes *name = key;
    const struct rp_rule *rule = element;
    return rp_bytes_compare(*name, rule->pattern);
}

static const struct rp_category *match_class(const struct rp_rules *rules, struct rp_bytes name)
{
    const struct rp_rule *found = NULL;
    if (rules->exact.n > 0)
        found = bsearch(&name, rules->exact.items, rules->exact.n, sizeof *found, compare_class);
    for (size_t i = 0; found == NULL && i < rules->globs.n; i++)
        if (rp_glob_match(rules->globs.items[i].pattern, name))
            found = &rules->globs.items[i];
    return found == NULL ? NULL : found->category;
}

static const struct rp_category *match_message(const struct rp_rules *rules, struct rp_bytes text)
{
    for (size_t i = 0; i < rules->messages.n; i++)
        if (rp_glob_search(rules->messages.items[i].pattern, text))
            return rules->messages.items[i].category;
    return NULL;
}

static const struct rp_category *by_class(const struct rp_policies *p, struct rp_bytes name)
{
    if (name.len == 0)
        return NULL;
    name = rp_bytes_head(name, RP_MAX_CLASS_BYTES);
    const struct rp_category *found = match_class(&p->configured, name);
    return found != NULL ? found : match_class(&p->builtin, name);
}

static const struct rp_category *by_message(const struct rp_policies *p, struct rp_bytes text)
{
    text = rp_bytes_head(text, RP_MAX_MESSAGE_BYTES);
    const struct rp_category *found = match_message(&p->configured, text);
    return found != NULL ? found : match_message(&p->builtin, text);
}

const struct rp_category *rp_category_find(const struct rp_policies *p, struct rp_bytes name)
{
    for (size_t i = 0; name.data != NULL && i < p->n_categories; i++) {
        const char *known = p->categories[i].category.name;
        if (strlen(known) == name.len && strncasecmp(known, name.data, name.len) == 0)
            return &p->categories[i].category;
    }
    return NULL;
}

const struct rp_category *rp_classify(const struct rp_policies *p,
                                      const struct rp_failed_task *task)
{
    const struct rp_category *found = rp_category_find(p, task->error_category);
    if (found == NULL)
        found = by_class(p, task->error_class);
    for (size_t i = 0; found == NULL && i < task->n_causes && i < RP_MAX_CAUSES; i++)
        found = by_class(p, task->causes[i].class_name);
    if (found == NULL)
        found = by_message(p, task->error_message);
    return found != NULL ? found : rp_category_find(p, rp_str("UNKNOWN"));
}
