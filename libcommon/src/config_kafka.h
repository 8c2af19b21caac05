/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CONFIG_KAFKA_H
#define REPRISE_CONFIG_KAFKA_H

#include "config.h"
#include "doc.h"

/* The `kafka` section: librdkafka's properties, each tried on a configuration object of
 * librdkafka's own, so that a wrong name or value is found with its line. `field` is a struct
 * rp_kafka_config. */
void rp_config_kafka_read(struct rp_doc *doc, const yaml_node_t *node, void *field);
void rp_config_kafka_clear(void *field);
bool rp_config_kafka_same(const void *a, const void *b);

/* Notes properties that break what reprise promises. */
void rp_config_kafka_check(struct rp_doc *doc, const struct rp_config *config);

/* The bootstrap servers where the file names none. -1: no memory. */
RP_NODISCARD int rp_config_kafka_default(struct rp_kafka_config *kafka);

#endif
