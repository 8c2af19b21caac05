/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CONFIG_RETENTION_H
#define REPRISE_CONFIG_RETENTION_H

#include "config.h"
#include "params.h"

/* `retention.by_type`: how long dead letters of some task types are kept. `field` is a struct
 * rp_type_keeps. */
void rp_config_by_type_read(struct rp_doc *doc, const yaml_node_t *node, void *field);
void rp_config_by_type_clear(void *field);
bool rp_config_by_type_same(const void *a, const void *b);

/* Of one type. */
extern const struct rp_param rp_type_keep_param;

/* Notes a type whose time is not shorter than that of all. */
void rp_config_by_type_check(struct rp_doc *doc, const yaml_node_t *node,
                             const struct rp_config *config);

#endif
