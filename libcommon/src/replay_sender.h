/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_SENDER_H
#define REPRISE_REPLAY_SENDER_H

#include "config.h"
#include "replay_job.h"

/* The Kafka side of a job's runner: sends its items in their order, by transactions that move the
 * job's cursor along. After a failure nothing is known but what rp_replay_sender_open says again.
 */
struct rp_replay_sender;

/* What stands in the way of items, to be kept in the database: an array of {"n":, "why":}. */
struct rp_replay_refuser {
    void *opaque;
    int (*refuse)(void *opaque, const char *json, struct rp_error *err);
};

/* `config` and `job` are borrowed. */
RP_NODISCARD int rp_replay_sender_new(const struct rp_config *config,
                                      const struct rp_replay_job *job,
                                      struct rp_replay_refuser refuser,
                                      struct rp_replay_sender **out, struct rp_error *err);
void rp_replay_sender_free(struct rp_replay_sender *s);

/* Fences whoever sends for this job beside us, waits for the end of what that one had under way,
 * and says how far the job is: the next item to send, -1 where Kafka does not know. */
RP_NODISCARD int rp_replay_sender_open(struct rp_replay_sender *s, int64_t *out_next,
                                       struct rp_error *err);

/* Sends items from `*next` on, up to `until`, or fewer: as many as a transaction should have. Moves
 * *next behind them; *sent says how many went out, and the rest were refused. After -1 it may have
 * succeeded: open the sender again. POISON is not among the errors: an item that cannot be sent
 * is refused, and those around it are sent. */
RP_NODISCARD int rp_replay_sender_send(struct rp_replay_sender *s, int64_t *next, int64_t until,
                                       int64_t *sent, struct rp_error *err);

/* As rp_topic_ends, of the dead letters. */
RP_NODISCARD int rp_replay_sender_dead_ends(struct rp_replay_sender *s, struct rp_buf *out,
                                            struct rp_error *err);

/* For one who sends nothing now: as rp_replay_rows_read_ahead. */
void rp_replay_sender_read_ahead(struct rp_replay_sender *s, int64_t until_mono_ms);

#endif
