/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CONFIG_POLICIES_H
#define REPRISE_CONFIG_POLICIES_H

#include "config.h"
#include "params.h"

/* The `categories` and `policies` sections. They may come in either order, so each is first read
 * as it stands (into a struct rp_policies *, which `field` points to), and `finish` then puts them
 * together: new categories, rules, presets, overrides, and what contradicts what. */
extern const struct rp_param rp_category_params[], rp_policy_params[];
extern const struct rp_param rp_override_params[], rp_retry_param, rp_backoff_param;

#define RP_RETRY_MAX_TERMS 8 /* of one all_of or any_of */

void rp_config_categories_read(struct rp_doc *doc, const yaml_node_t *node, void *field);
void rp_config_policies_read(struct rp_doc *doc, const yaml_node_t *node, void *field);
void rp_config_policies_clear(void *field);

/* Needs the rest of the configuration, for the names of its topics. -1: no memory. */
RP_NODISCARD int rp_config_policies_finish(struct rp_doc *doc, struct rp_config *config);

#endif
