/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_node.h"

/* Counts `*left` down to the one that is looked for. Depth is bounded by the parser. */
static bool find(const struct rp_filter_node *n, size_t *left, struct rp_filter_prefix *out)
{
    bool group = n->kind == RP_NODE_TERM && n->field == RP_FIELD_GROUP;
    for (size_t i = 0; group && i < n->n_values; i++) {
        const struct rp_filter_value *v = &n->values[i];
        if (v->low == v->high || (*left)-- > 0)
            continue;
        *out = (struct rp_filter_prefix){v->text, v->low, v->high};
        return true;
    }
    for (const struct rp_filter_node *c = n->first; c != NULL; c = c->next)
        if (find(c, left, out))
            return true;
    return false;
}

bool rp_filter_prefix(const struct rp_filter *f, size_t i, struct rp_filter_prefix *out)
{
    return find(&f->root, &i, out);
}
