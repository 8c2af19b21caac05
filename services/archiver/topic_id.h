/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOPIC_ID_H
#define TOPIC_ID_H

#include <librdkafka/rdkafka.h>

#include "reprise/error.h"

#define TOPIC_ID_SIZE 32

/* The broker's id of a topic, which changes when it is deleted and created again under its name;
 * "" where the broker knows no ids. Waits for the broker, a few seconds at most. */
RP_NODISCARD int topic_id_query(rd_kafka_t *rk, const char *topic, char out[TOPIC_ID_SIZE],
                                struct rp_error *err);

#endif
