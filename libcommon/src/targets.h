/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TARGETS_H
#define REPRISE_TARGETS_H

#include "dead_letter.h"
#include "publisher.h"
#include "topic_question.h"

/* Which topics can be sent to, and with how much, as the brokers say: asked at first use, and again
 * behind the work after some seconds, in a cache of fixed size. While they do not answer, nobody
 * waits for more than one question a second. What a delivery finds out later is told to
 * rp_targets_blame. One thread. */
struct rp_targets;

/* Asks through `client`, borrowed. Not one that consumes: a broker answers the requests of a
 * connection in turn, so a question would wait behind a fetch that waits for records. `compressed`:
 * what is sent is, so that its size at the brokers is not known before. */
RP_NODISCARD int rp_targets_new(rd_kafka_t *client, bool compressed, struct rp_targets **out,
                                struct rp_error *err);
void rp_targets_free(struct rp_targets *t);

enum rp_target_state rp_targets_state(struct rp_targets *t, struct rp_bytes topic);

/* The bytes that a batch of records may have there (max.message.bytes); RP_NO_LIMIT: not known. */
int64_t rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic);
/* Whether the record, alone in its batch, may fit: false is certain. What is found out stands in
 * the record, which may change no more. */
bool rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record);

/* A batch failed, and nothing says which topic it was: asks anew for those that were usable. */
void rp_targets_forget(struct rp_targets *t);

/* A delivery to `topic` failed with `code`. False: the topic is not to blame. */
bool rp_targets_blame(struct rp_targets *t, struct rp_bytes topic, rd_kafka_resp_err_t code);

#endif
