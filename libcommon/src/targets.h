/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TARGETS_H
#define REPRISE_TARGETS_H

#include "dead_letter.h"
#include "kafka.h"

/* Which topics can be sent to, as the brokers say: asked at first use, remembered for some seconds,
 * in a cache of fixed size. While they do not answer, nobody waits for more than one question a
 * second. What a delivery finds out later is told to rp_targets_blame. One thread. */
struct rp_targets;

enum rp_target_state {
    RP_TARGET_USABLE,
    RP_TARGET_MISSING,
    RP_TARGET_DENIED,  /* by the brokers' ACLs */
    RP_TARGET_UNKNOWN, /* the brokers do not answer: try again */
};

/* Asks through `client`, borrowed. Not one that consumes: a broker answers the requests of a
 * connection in turn, so a question would wait behind a fetch that waits for records. */
RP_NODISCARD int rp_targets_new(rd_kafka_t *client, struct rp_targets **out, struct rp_error *err);
void rp_targets_free(struct rp_targets *t);

enum rp_target_state rp_targets_state(struct rp_targets *t, struct rp_bytes topic);

/* A batch failed, and nothing says which topic it was: asks anew for those that were usable. */
void rp_targets_forget(struct rp_targets *t);

/* A delivery to `topic` failed with `code`. False: the topic is not to blame. */
bool rp_targets_blame(struct rp_targets *t, struct rp_bytes topic, rd_kafka_resp_err_t code);

#endif
