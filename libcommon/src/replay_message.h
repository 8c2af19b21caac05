/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_MESSAGE_H
#define REPRISE_REPLAY_MESSAGE_H

#include "message.h"
#include "publisher.h"
#include "replay_options.h"
#include "replay_rows.h"
#include "targets.h"

/* What a replay makes of a dead letter: the record to send, or why none is sent. */
struct rp_replay_maker;

/* `client`: for questions about topics. `config` and `options` are borrowed, `job` is copied. */
RP_NODISCARD int rp_replay_maker_new(const struct rp_config *config,
                                     const struct rp_replay_options *options, const char *job,
                                     rd_kafka_t *client, struct rp_replay_maker **out,
                                     struct rp_error *err);
void rp_replay_maker_free(struct rp_replay_maker *m);

/* *refused: NULL, and `out` is to be sent; or why not, ASCII of one line. Both are valid until the
 * next call, `out` also borrows from the row. Fails RETRIABLE where a broker or registry does not
 * answer; schema_registry.patience bounds how long the latter is waited for. */
RP_NODISCARD int rp_replay_make(struct rp_replay_maker *m, const struct rp_replay_row *row,
                                int64_t now_ms, struct rp_outgoing *out, const char **refused,
                                struct rp_error *err);

/* Why tasks of this type would not be sent to `*target`, valid until the next call; NULL: they
 * would. Null becomes the target that their policy names. */
RP_NODISCARD int rp_replay_judge_target(struct rp_replay_maker *m, struct rp_bytes task_type,
                                        struct rp_bytes *target, const char **refused,
                                        struct rp_error *err);
/* A payload of more bytes is certainly refused there; one of a few less, with what is around it,
 * too. RP_NO_LIMIT: nobody can say. */
int64_t rp_replay_max_payload(struct rp_replay_maker *m, struct rp_bytes topic);

/* A task as transforms and edits see it. */
struct rp_message rp_replay_message_of(const struct rp_failed_task *task, struct rp_arena *arena);

struct rp_targets *rp_replay_targets(struct rp_replay_maker *m);

#endif
