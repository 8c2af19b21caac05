/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BATCH_H
#define BATCH_H

#include <librdkafka/rdkafka.h>

#include "codec.h"
#include "parts.h"

/* Dead letters on their way into the archive, in the order in which they were polled. Whatever a
 * record holds, it becomes a row, and no row stalls those behind it. */
struct batch;

struct batch_options {
    size_t max_rows;
    int64_t keep_ms; /* retention's, which bounds dead_at */
    struct metrics_archiver *metrics;
};

RP_NODISCARD int batch_new(const struct batch_options *options, struct batch **out,
                           struct rp_error *err);
void batch_free(struct batch *b);

/* Takes the message, also on failure: no memory. */
RP_NODISCARD int batch_add(struct batch *b, rd_kafka_message_t *message, int64_t now_ms,
                           struct rp_error *err);
size_t batch_rows(const struct batch *b);
/* As many rows, or bytes, as one transaction should have. */
bool batch_full(const struct batch *b);
void batch_drop(struct batch *b);

/* Sends what was added ahead of batch_write, where that is worth it. Fails where the connection is
 * lost. */
RP_NODISCARD int batch_send(struct batch *b, struct store *store, const struct parts *parts,
                            struct rp_error *err);
/* Whether some of it was: PostgreSQL may have rows then, and locks for them, until batch_write. */
bool batch_sent(const struct batch *b);
/* Takes it back: batch_write sends it again. */
void batch_recall(struct batch *b, struct store *store);

/* Commits the rows and the offsets behind them, and is then empty. Where PostgreSQL refuses the
 * data, halves are tried, down to the one row, which then goes in as bare bytes. Partitions that
 * turn out to have a newer owner are left out: their claim's epoch is 0. Fails where the database
 * does; what was committed by then is not known, and the rows are still in the batch. */
RP_NODISCARD int batch_write(struct batch *b, struct store *store, struct parts *parts,
                             struct rp_error *err);

#endif
