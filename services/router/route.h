/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ROUTE_H
#define REPRISE_ROUTE_H

#include "codec.h"
#include "config.h"
#include "guard.h"
#include "lessons.h"
#include "publisher.h"
#include "targets.h"

/* What becomes of one record of failed-tasks: decode, guard, classify, match, decide, and the
 * record that follows from it. Sends nothing. What it asks from outside comes in through the
 * context. */

struct route_context {
    const struct rp_config *config;
    const struct rp_policies *policies;
    struct rp_codec *codec;
    struct guard *guard; /* NULL: off */
    struct rp_targets *targets;
    struct rp_allowed allowed;
    struct rp_rng rng;
    struct rp_arena arena; /* of the record at hand */
    struct rp_decision decision;
    struct rp_buf letter; /* of the dead letter at hand */
};

struct route_record {
    struct rp_bytes key, value;
    const struct rp_header *headers;
    size_t n_headers;
    const char *topic;
    int32_t partition;
    int64_t offset;
    int64_t append_ms; /* RP_NO_TIME: unknown */
    int64_t now_ms;
    /* What an earlier try to send its consequence taught; NULL: nothing. */
    const struct rp_lesson *lesson;
};

enum route_kind { ROUTE_RETRY, ROUTE_DIRECT, ROUTE_FALLBACK, ROUTE_DEAD, ROUTE_REPEAT };

struct route {
    enum route_kind kind;
    enum rp_reason reason;              /* of ROUTE_DEAD and ROUTE_FALLBACK */
    bool looped;                        /* the guard counted the attempt on */
    struct rp_bytes task_id, task_type; /* null where nothing could be decoded */
    int32_t attempt;                    /* executions so far */
    int64_t left_ms;                    /* until it is due; INT64_MAX: it goes to no handler */
    const char *why;                    /* for the log; in the context or static */
    struct rp_outgoing out;             /* nothing to send for ROUTE_REPEAT */
};

/* `out` is valid until the next call. Fails RETRIABLE: the registry or the brokers do not answer,
 * so nothing can be said of this record now. */
RP_NODISCARD int route_record(struct route_context *c, const struct route_record *r,
                              struct route *out, struct rp_error *err);

/* Lets the guard, which must be there, learn of a record that was routed before, by whomever. Fails
 * RETRIABLE, as above. */
RP_NODISCARD int route_recall(struct route_context *c, const struct route_record *r,
                              struct rp_error *err);

/* The dead letter of a record that will not become readable in time. */
RP_NODISCARD int route_undecodable(struct route_context *c, const struct route_record *r,
                                   const char *why, struct route *out, struct rp_error *err);

const char *route_kind_name(enum route_kind kind);

#endif
