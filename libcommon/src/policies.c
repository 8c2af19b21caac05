/* SPDX-License-Identifier: Apache-2.0 */
#include "policies.h"

#include <stdlib.h>
#include <string.h>

#include "glob.h"

struct rp_policies *rp_policies_new(void)
{
    struct rp_policies *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->memos = calloc(RP_CLASS_MEMOS, sizeof *p->memos);
    if (p->memos == NULL) {
        free(p);
        return NULL;
    }
    atomic_init(&p->refs, 1);
    return p;
}

struct rp_policies *rp_policies_ref(struct rp_policies *p)
{
    (void)atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

static void policy_clear(struct rp_policy *policy)
{
    for (size_t i = 0; i < policy->overrides.n; i++) {
        free(policy->overrides.items[i].name);
        rp_retry_clear(&policy->overrides.items[i].schedule.stated);
    }
    free(policy->overrides.items);
    rp_retry_clear(&policy->schedule.stated);
    rp_strings_clear(&policy->retryable);
    rp_strings_clear(&policy->non_retryable);
    free(policy->name);
    free(policy->target);
    free(policy->fallback);
}

void rp_policies_unref(struct rp_policies *p)
{
    if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < p->n_items; i++)
        policy_clear(&p->items[i]);
    for (size_t i = 0; i < p->n_drafts; i++) {
        free(p->drafts[i].name);
        rp_strings_clear(&p->drafts[i].classes);
        rp_strings_clear(&p->drafts[i].messages);
    }
    for (size_t i = 0; i < RP_CLASS_MEMOS; i++)
        free(p->memos[i]);
    free(p->memos);
    rp_rules_clear(&p->configured);
    rp_rules_clear(&p->builtin);
    free(p->items);
    free(p->drafts);
    free(p->categories);
    free(p->exact);
    free(p->globs);
    free(p);
}

static int by_name(const void *a, const void *b)
{
    const struct rp_policy *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The most literal bytes first, then the longer one, then by name: never by chance. */
static int by_specificity(const void *a, const void *b)
{
    const struct rp_policy *const *x = a, *const *y = b;
    size_t n = rp_glob_literals((*x)->name), m = rp_glob_literals((*y)->name);
    if (n == m) {
        n = strlen((*x)->name);
        m = strlen((*y)->name);
    }
    return n > m ? -1 : n < m ? 1 : by_name(a, b);
}

int rp_policies_index(struct rp_policies *p)
{
    p->exact = calloc(p->n_items + 1, sizeof(struct rp_policy *));
    p->globs = calloc(p->n_items + 1, sizeof(struct rp_policy *));
    if (p->exact == NULL || p->globs == NULL)
        return -1;
    for (size_t i = 0; i < p->n_items; i++) {
        if (rp_glob_is(p->items[i].name))
            p->globs[p->n_globs++] = &p->items[i];
        else
            p->exact[p->n_exact++] = &p->items[i];
        if (strcmp(p->items[i].name, "default") == 0)
            p->fallback_policy = &p->items[i];
    }
    qsort(p->exact, p->n_exact, sizeof *p->exact, by_name);
    qsort(p->globs, p->n_globs, sizeof *p->globs, by_specificity);
    return 0;
}

static int compare_type(const void *key, const void *element)
{
    const struct rp_bytes *type = key;
    const struct rp_policy *const *policy = element;
    return rp_bytes_compare(*type, (*policy)->name);
}

const struct rp_policy *rp_policies_match(const struct rp_policies *p, struct rp_bytes task_type)
{
    if (task_type.data == NULL)
        return p->fallback_policy;
    const struct rp_policy **found =
        bsearch(&task_type, p->exact, p->n_exact, sizeof *p->exact, compare_type);
    if (found != NULL)
        return *found;
    for (size_t i = 0; i < p->n_globs; i++)
        if (rp_glob_match(p->globs[i]->name, rp_bytes_head(task_type, RP_MAX_CLASS_BYTES)))
            return p->globs[i];
    return p->fallback_policy;
}

const char *rp_policy_name(const struct rp_policy *policy)
{
    return policy->name;
}

const char *rp_policy_target(const struct rp_policy *policy)
{
    return policy->target;
}

const char *rp_policy_fallback(const struct rp_policy *policy)
{
    return policy->fallback;
}
