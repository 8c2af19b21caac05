/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TOPIC_HANDLES_H
#define REPRISE_TOPIC_HANDLES_H

#include <librdkafka/rdkafka.h>

#include "reprise/bytes.h"

/* The handles of the topics that are sent to. By its name librdkafka looks for a topic among all,
 * under a lock that its threads want, too, at each record. Zeroed is ready. One thread. */

#define RP_TOPIC_HANDLES 128 /* a power of two; what has no place takes that of another */

struct rp_topic_handles {
    struct rp_topic_handle {
        rd_kafka_t *rk;
        rd_kafka_topic_t *topic; /* NULL: the place is free */
    } places[RP_TOPIC_HANDLES];
};

/* The handle of a producer's topic: good until the next call. NULL: rd_kafka_last_error says why.
 */
rd_kafka_topic_t *rp_topic_handle(struct rp_topic_handles *h, rd_kafka_t *rk,
                                  struct rp_bytes topic);

/* Comes before any of the producers is destroyed. */
void rp_topic_handles_clear(struct rp_topic_handles *h);

#endif
