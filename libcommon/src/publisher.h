/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PUBLISHER_H
#define REPRISE_PUBLISHER_H

#include "consumer.h"

/* A producer whose records go out together with the consumer's offsets.
 *
 * With exactly-once that is one Kafka transaction, of three producers in turn: after the commit's
 * answer the coordinator still ends a transaction for some ms, and refuses its producer the next.
 * With at-least-once the records are acknowledged first and the offsets committed after. The calls
 * are the same: begin, send..., offsets, commit.
 *
 * While a transaction's records are being acknowledged the next one can be filled: begin, send...,
 * offsets, send off; then begin..., offsets for the next, and commit for the first. Two are under
 * way at most, and they are committed in their order. The brokers keep the later one's offsets
 * whichever of the two they end first; so where the first fails, both are dropped. Where the second
 * one does (a begin, send or offsets that fails), the first is there to be committed still.
 *
 * A failed delivery fails the whole batch; rp_publisher_failures says which records are to blame.
 * After an error whose outcome is unknown all producers are destroyed, and the next begin makes new
 * ones, whose epochs fence whatever is still under way. So it is after a transaction in which a
 * request was not answered, whatever came of it. One thread. */
struct rp_publisher;

enum rp_published {
    RP_PUBLISHED = 0,
    RP_NOT_PUBLISHED = -1, /* aborted for sure (at-least-once: parts may be out). POISON: a record
                              is to blame; RETRIABLE: try the same again */
    RP_UNKNOWN = -2,       /* only the group's committed offsets tell; read them before going on */
};

struct rp_outgoing {
    struct rp_bytes topic; /* at most RP_MAX_TOPIC_NAME bytes */
    struct rp_bytes key, value;
    const struct rp_header *headers;
    size_t n_headers;
    size_t tag;              /* the caller's, for rp_publisher_failures: from 0 on in each batch */
    int64_t batch_bytes;     /* it takes alone in a batch; 0: not known */
    int64_t max_batch_bytes; /* of its topic's batches; 0: not known */
};

struct rp_failure_report {
    size_t tag;
    rd_kafka_resp_err_t code;
};

/* `id` becomes the transactional id, and with `-next` and `-third` behind it the others': no two
 * live publishers may share it. `linger_ms` (a literal) is librdkafka's linger.ms where the file
 * states none. One who sends a batch bit by bit needs some: librdkafka's thread spins while a
 * request of five records or more to a partition is under way, and another has lingered enough. */
RP_NODISCARD int rp_publisher_new(const struct rp_config *config, const char *id,
                                  const char *linger_ms, struct rp_publisher **out,
                                  struct rp_error *err);
/* Aborts what is open. NULL is fine. */
void rp_publisher_free(struct rp_publisher *p);

/* Makes the producers where there are none, and fences what others of the same id had left open.
 * Blocks for seconds at most. RETRIABLE when the brokers do not answer. */
RP_NODISCARD int rp_publisher_open(struct rp_publisher *p, struct rp_error *err);

/* Begins a batch; does nothing when one is being filled. */
RP_NODISCARD int rp_publisher_begin(struct rp_publisher *p, struct rp_error *err);

/* Queues a record; all of it is copied. Where its topic takes smaller batches than librdkafka
 * makes, this waits for acknowledgements now and then. In a transaction it goes out at the end of
 * rp_publisher_offsets, which fails where it cannot be sent, or with the wait or the commit where
 * there are no offsets; or before, with one that makes up a request's worth of bytes. On failure
 * abort the batch; rp_publisher_failures then names the record. */
RP_NODISCARD int rp_publisher_send(struct rp_publisher *p, const struct rp_outgoing *record,
                                   struct rp_error *err);

/* How long the sends of this batch waited for acknowledgements. It has no bound of its own: who
 * goes on for long lets what is in the batch be late, and its transaction time out. */
int64_t rp_publisher_waited_ms(const struct rp_publisher *p);

/* The size of the batch at hand. */
int64_t rp_publisher_bytes(const struct rp_publisher *p);

/* Whether one more record like those of this batch (between two: of the last) may need a second
 * request to a partition, for which librdkafka's thread spins until the first is answered. */
bool rp_publisher_fills_request(const struct rp_publisher *p);

/* Adds the consumer's offsets, with their metadata. In a transaction this asks the broker, and
 * needs not wait for the records' acknowledgements: they are on their way when it returns. Call at
 * most once a batch, after the last send. FATAL and RP_E_FENCED: they are not the consumer's any
 * more (rp_consumer_membership). */
enum rp_published rp_publisher_offsets(struct rp_publisher *p, struct rp_consumer *consumer,
                                       const rd_kafka_topic_partition_list_t *offsets,
                                       struct rp_error *err);

/* The same for a group that has no members: its offsets are a place to keep what was sent. Needs
 * exactly-once. */
enum rp_published rp_publisher_group_offsets(struct rp_publisher *p, const char *group,
                                             const rd_kafka_topic_partition_list_t *offsets,
                                             struct rp_error *err);

/* How often producers were made so far. One who keeps no group of members must compare: where it
 * rose since the committed offsets were read, another of the same id may have committed between. */
uint64_t rp_publisher_made(const struct rp_publisher *p);

/* The batch, whose offsets were sent, is complete: the next begin opens another, beside it. The one
 * before has ended. False: not before this one has ended, since it is no transaction, or producers
 * are to be made anew then. */
bool rp_publisher_send_off(struct rp_publisher *p);

/* Whether a commit need not wait for acknowledgements, or fails; waits for them up to `timeout_ms`,
 * which sends at once what lingers. */
bool rp_publisher_acknowledged(struct rp_publisher *p, int timeout_ms);

/* Waits until every record is acknowledged; in a transaction, or until one failed. This and the
 * next are of the batch that was sent off, or where there is none of the one at hand. */
enum rp_published rp_publisher_wait(struct rp_publisher *p, struct rp_error *err);

/* Waits as above, then commits. Where that fails nothing is under way any more. */
enum rp_published rp_publisher_commit(struct rp_publisher *p, struct rp_error *err);

/* Drops all that is under way. `patiently`: outside of a transaction only once it is known what of
 * it is out (rp_publisher_is_out). */
void rp_publisher_abort(struct rp_publisher *p, bool patiently);

/* The records that could not be sent of the batch that failed last, told once; valid until the next
 * begin. */
const struct rp_failure_report *rp_publisher_failures(struct rp_publisher *p, size_t *n);

/* Whether this record of the last batch is out for good, although the batch failed. Never in a
 * transaction. Valid until the next begin. */
bool rp_publisher_is_out(const struct rp_publisher *p, size_t tag);

#endif
