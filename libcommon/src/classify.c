/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "glob.h"
#include "policies.h"

/* Most rules do not match most errors, and to find that out by globbing costs 0.5 us a rule. So a
 * text's pairs of neighbouring letters are noted first, and only rules whose pairs are all among
 * them are tried. Pairs that share a place only cost a look in vain. */
struct pair_set {
    uint64_t bits[16];
};

static uint16_t place_of_pair(char a, char b)
{
    return (uint16_t)((((unsigned)a | 0x20) * 31 + ((unsigned)b | 0x20)) % 1024);
}

static void note_pairs(struct rp_bytes text, struct pair_set *set)
{
    const char *t = text.data;
    *set = (struct pair_set){0};
    for (size_t i = 1; i < text.len; i++) {
        uint16_t place = place_of_pair(t[i - 1], t[i]);
        set->bits[place / 64] |= UINT64_C(1) << place % 64;
    }
}

static bool is_wild(char c)
{
    return c == '*' || c == '?';
}

static void need_pairs(struct rp_rule *rule)
{
    const char *p = rule->pattern;
    for (; p[0] != '\0' && p[1] != '\0' && rule->n_pairs < RP_RULE_PAIRS; p++)
        if (!is_wild(p[0]) && !is_wild(p[1]))
            rule->pairs[rule->n_pairs++] = place_of_pair(p[0], p[1]);
}

static bool may_match(const struct rp_rule *rule, const struct pair_set *set)
{
    for (size_t i = 0; i < rule->n_pairs; i++)
        if ((set->bits[rule->pairs[i] / 64] >> rule->pairs[i] % 64 & 1) == 0)
            return false;
    return true;
}

static int add(struct rp_rule_list *list, const char *pattern, const struct rp_category *category)
{
    struct rp_rule *items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (items == NULL)
        return -1;
    list->items = items;
    items[list->n] = (struct rp_rule){.pattern = pattern, .category = category};
    need_pairs(&items[list->n++]);
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

static const struct rp_category *match_class(const struct rp_rules *rules, struct rp_bytes name,
                                             const struct pair_set *pairs)
{
    const struct rp_rule *found = NULL;
    if (rules->exact.n > 0)
        found = bsearch(&name, rules->exact.items, rules->exact.n, sizeof *found, compare_class);
    for (size_t i = 0; found == NULL && i < rules->globs.n; i++)
        if (may_match(&rules->globs.items[i], pairs) &&
            rp_glob_match(rules->globs.items[i].pattern, name))
            found = &rules->globs.items[i];
    return found == NULL ? NULL : found->category;
}

static const struct rp_category *match_message(const struct rp_rules *rules, struct rp_bytes text,
                                               const struct pair_set *pairs)
{
    for (size_t i = 0; i < rules->messages.n; i++)
        if (may_match(&rules->messages.items[i], pairs) &&
            rp_glob_search(rules->messages.items[i].pattern, text))
            return rules->messages.items[i].category;
    return NULL;
}

static const struct rp_category *by_rules(const struct rp_policies *p, struct rp_bytes name)
{
    struct pair_set pairs;
    note_pairs(name, &pairs);
    const struct rp_category *found = match_class(&p->configured, name, &pairs);
    return found != NULL ? found : match_class(&p->builtin, name, &pairs);
}

/* What the rules said of a class. Never changes, and stays as long as the policies, since another
 * thread may be reading it. */
struct rp_class_memo {
    const struct rp_category *found;
    size_t len;
    char name[];
};

static void remember(_Atomic(struct rp_class_memo *) *place, struct rp_bytes name,
                     const struct rp_category *found)
{
    struct rp_class_memo *none = NULL, *memo = malloc(sizeof *memo + name.len);
    if (memo == NULL)
        return;
    memo->found = found;
    memo->len = name.len;
    memcpy(memo->name, name.data, name.len);
    if (!atomic_compare_exchange_strong(place, &none, memo))
        free(memo);
}

/* There are few classes, and to try the rules costs more than all else that is decided of an event.
 * One that finds its place taken does without a memo. */
static const struct rp_category *by_class(const struct rp_policies *p, struct rp_bytes name)
{
    if (name.len == 0)
        return NULL;
    name = rp_bytes_head(name, RP_MAX_CLASS_BYTES);
    _Atomic(struct rp_class_memo *) *place =
        &p->memos[XXH3_64bits(name.data, name.len) % RP_CLASS_MEMOS];
    const struct rp_class_memo *memo = atomic_load_explicit(place, memory_order_acquire);
    if (memo != NULL && memo->len == name.len && memcmp(memo->name, name.data, name.len) == 0)
        return memo->found;
    const struct rp_category *found = by_rules(p, name);
    if (memo == NULL)
        remember(place, name, found);
    return found;
}

static const struct rp_category *by_message(const struct rp_policies *p, struct rp_bytes text)
{
    text = rp_bytes_head(text, RP_MAX_MESSAGE_BYTES);
    struct pair_set pairs;
    note_pairs(text, &pairs);
    const struct rp_category *found = match_message(&p->configured, text, &pairs);
    return found != NULL ? found : match_message(&p->builtin, text, &pairs);
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
