/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_OUTBOX_H
#define REPRISE_OUTBOX_H

#include "lessons.h"
#include "publisher.h"
#include "sent.h"
#include "service.h"
#include "targets.h"

/* The sending side of a worker that turns records into others: the batch under way, what failed
 * batches taught, and how long to wait after one. The caller reads again what did not go out. One
 * thread. */

#define RP_OUTBOX_NAME 250

/* A record that was read, and where what follows from it goes. */
struct rp_outbox_item {
    const char *topic; /* borrowed; compared as a pointer */
    int32_t partition;
    int64_t offset;
    char to[RP_OUTBOX_NAME]; /* empty: nothing follows */
};

struct rp_outbox {
    struct rp_worker *worker;
    const struct rp_config *config;
    struct rp_publisher *publisher;
    rd_kafka_t *admin; /* for the questions of `targets` */
    struct rp_targets *targets;
    struct rp_lessons lessons;
    struct rp_sent sent;
    struct rp_outbox_item *items; /* of the batch, by their tag */
    size_t n, most;
    size_t n_headers;                /* of what the batch sends */
    struct rp_outbox_item *sent_off; /* of the batch before, while it has not ended, */
    size_t n_sent_off;               /* and how many; 0: there is none */
    bool alone;                      /* the batch is closed: its one record goes by itself */
    int halved; /* so often, since batches failed: what one may have, in records and bytes */
    int64_t backoff_ms; /* 0: the last batch went out */
    bool learned;       /* the last failure says what to do otherwise, so that is tried at once */
    bool failed;        /* `failure` ends the worker */
    struct rp_error failure;
};

/* `id` and `linger_ms` are the publisher's, `most` the records of a batch. On failure clear it. */
RP_NODISCARD int rp_outbox_init(struct rp_outbox *o, struct rp_worker *worker, const char *id,
                                const char *linger_ms, size_t most, struct rp_error *err);
/* Comes after the consumer is closed, whose callbacks may still send. */
void rp_outbox_clear(struct rp_outbox *o);

/* Nothing further will succeed: the first such error ends the worker. */
void rp_outbox_give_up(struct rp_outbox *o, const struct rp_error *err);
bool rp_outbox_stopping(const struct rp_outbox *o);
/* Waits, twice as long as the last time; not at all when something was learned. */
void rp_outbox_back_off(struct rp_outbox *o, const struct rp_error *err);

/* Makes the producer, and waits until that is done or the worker stops. It comes before all: it
 * ends what a predecessor of the same name left open, which would hold up committed offsets. */
void rp_outbox_open(struct rp_outbox *o);

/* The batch takes no more records: it has as many as it may have, or bytes, or half of the records
 * and a request's worth of bytes, its one record goes alone, or it has waited for acknowledgements,
 * and what is in it is late. A batch that failed, and nobody knows why, halves what the next may
 * have, and one that is out doubles it again. */
bool rp_outbox_full(const struct rp_outbox *o);

/* Takes a record into the batch, which must not be full, and sends what follows from it, unless
 * that is out already (an empty topic: nothing follows). One that there is a lesson about must come
 * first, and closes the batch. After a failure call rp_outbox_failed. */
RP_NODISCARD int rp_outbox_send(struct rp_outbox *o, const char *topic, int32_t partition,
                                int64_t offset, struct rp_outgoing *out, struct rp_error *err);

/* The batch, whose offsets were sent, is complete, and the next one can be filled beside it: see
 * rp_publisher_send_off. The one before must have ended. */
bool rp_outbox_send_off(struct rp_outbox *o);

/* The batch that was sent off, or where there is none the one that is filled, is out. */
void rp_outbox_done(struct rp_outbox *o);
/* The batch is not out, or perhaps not: aborts it, learns from it, and backs off or gives up. */
void rp_outbox_failed(struct rp_outbox *o, const struct rp_error *err);
/* Aborts the batch, without a word. */
void rp_outbox_abort(struct rp_outbox *o);
/* Forgets what is known of a partition's records. */
void rp_outbox_forget(struct rp_outbox *o, const char *topic, int32_t partition);
/* The same of partitions that go. */
void rp_outbox_revoked(struct rp_outbox *o, const rd_kafka_topic_partition_list_t *parts);

#endif
