/* SPDX-License-Identifier: Apache-2.0 */
#include "config_retention.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

#define DAY       INT64_C(86400000)
#define MAX_TYPES 1000

const struct rp_param rp_type_keep_param = {
    .key = "keep",
    .type = RP_P_DURATION,
    RP_FIELD(rp_type_keep, keep_ms),
    .min = DAY,
    .max = 3650 * DAY,
};

static int add(struct rp_type_keeps *list, const char *type, int64_t keep_ms)
{
    char *copy;
    struct rp_type_keep *items =
        rp_array_one_more(list->items, list->n, sizeof *items, type, &copy);
    if (items == NULL)
        return -1;
    list->items = items;
    items[list->n++] = (struct rp_type_keep){copy, keep_ms};
    return 0;
}

static void read_type(struct rp_doc *doc, const char *type, const yaml_node_t *key_node,
                      const yaml_node_t *node, void *opaque)
{
    int64_t keep_ms = 0;
    (void)key_node;
    rp_params_read_value(doc, &rp_type_keep_param, node, &keep_ms);
    if (keep_ms > 0 && add(opaque, type, keep_ms) != 0)
        rp_doc_fault(doc, node, "no memory");
}

void rp_config_by_type_read(struct rp_doc *doc, const yaml_node_t *node, void *field)
{
    if (node->type == YAML_MAPPING_NODE)
        rp_params_each(doc, node, MAX_TYPES, read_type, field);
    else if (!rp_doc_is_null(node))
        rp_doc_unexpected(doc, node, "a mapping of task types to durations");
}

void rp_config_by_type_clear(void *field)
{
    struct rp_type_keeps *list = field;
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i].type);
    free(list->items);
    *list = (struct rp_type_keeps){0};
}

bool rp_config_by_type_same(const void *a, const void *b)
{
    const struct rp_type_keeps *left = a, *right = b;
    bool same = left->n == right->n;
    for (size_t i = 0; i < left->n && same; i++)
        same = left->items[i].keep_ms == right->items[i].keep_ms &&
               strcmp(left->items[i].type, right->items[i].type) == 0;
    return same;
}

void rp_config_by_type_check(struct rp_doc *doc, const yaml_node_t *node,
                             const struct rp_config *config)
{
    const struct rp_type_keeps *list = &config->retention.by_type;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].keep_ms >= config->retention.keep_ms)
            rp_doc_fault(doc, rp_doc_get(doc, node, list->items[i].type),
                         "%s is kept for no longer than all are, by retention.keep",
                         list->items[i].type);
}
