/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TOPIC_QUESTION_H
#define REPRISE_TOPIC_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

/* Asks the brokers about one topic: whether it is there and lets us write, and how large a batch of
 * records it takes. One thread. */

enum rp_target_state {
    RP_TARGET_USABLE,
    RP_TARGET_MISSING,
    RP_TARGET_DENIED,  /* by the brokers' ACLs */
    RP_TARGET_UNKNOWN, /* the brokers do not answer: try again */
};

#define RP_NO_LIMIT INT64_MAX

/* A zeroed one is ready. What it says holds once rp_topic_question_wait was true. */
struct rp_topic_question {
    rd_kafka_queue_t *queue; /* NULL: nothing is asked */
    int awaited;             /* answers that have not come */
    enum rp_target_state state;
    int64_t max_bytes; /* the topic's max.message.bytes; RP_NO_LIMIT: it may not be read */
};

/* Longest that brokers are waited for. */
#define RP_TOPIC_QUESTION_MS 5000

void rp_topic_question_ask(struct rp_topic_question *q, rd_kafka_t *client, const char *topic);
/* Waits for the answers, or for `timeout_ms`. True: they are all there. */
bool rp_topic_question_wait(struct rp_topic_question *q, int timeout_ms);
/* Drops the question; an answer that comes later meets nobody. */
void rp_topic_question_end(struct rp_topic_question *q);

/* What an error code says of its topic. */
enum rp_target_state rp_target_state_of(rd_kafka_resp_err_t code);

#endif
