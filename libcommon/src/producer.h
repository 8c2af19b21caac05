/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PRODUCER_H
#define REPRISE_PRODUCER_H

#include <stdatomic.h>

#include "kafka.h"

/* How long a publisher's call to a transaction's coordinator may take. */
#define RP_PRODUCER_CALL_MS 20000

/* What a publisher's producers are made of; what it points at outlives them. */
struct rp_producer_spec {
    const struct rp_config *config;
    const char *id;        /* transactional and client id, before the suffix */
    const char *linger_ms; /* librdkafka's linger.ms where the file states none */
    bool transactional;
    void (*delivered)(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque);
    void *opaque;
    /* Becomes true, on a thread of librdkafka's, where a request of a transaction was not answered:
     * a copy of it may be under way. */
    atomic_bool *unanswered;
};

/* The caller's to destroy. */
RP_NODISCARD int rp_producer_new(const struct rp_producer_spec *spec, const char *suffix,
                                 rd_kafka_t **out, struct rp_error *err);

/* Ends what another one of the same id has under way. Blocks for 10 s at most. */
RP_NODISCARD int rp_producer_fence(rd_kafka_t *rk, struct rp_error *err);

/* librdkafka's batch.size. */
int64_t rp_producer_batch_bytes(rd_kafka_t *rk);

/* A copy, for a record to be sent; the caller's to destroy unless that succeeds. */
rd_kafka_headers_t *rp_producer_headers(const struct rp_header *headers, size_t n);

#endif
