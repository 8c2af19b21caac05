/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LANE_H
#define REPRISE_LANE_H

#include <librdkafka/rdkafka.h>

#include "config.h"
#include "frontier.h"
#include "hold.h"
#include "arena.h"

/* One partition of a tier: its frontier, and its own queue, which is read a little ahead of what
 * can be due. The rest waits in the log: where that takes long, the lane is closed, and nothing is
 * fetched of it. */
struct lane;

/* The tier of this topic, borrowed from the configuration; NULL: it is none. */
const struct rp_tier *lane_tier_of(const struct rp_config *config, const char *topic);

/* A lane of a tier, whose state is not known yet, so that nothing is read. Takes the partition's
 * queue, and so comes before the partition is assigned. Borrows the consumer. `wake_fd` is an
 * eventfd that is written to when records come into an empty queue. */
RP_NODISCARD int lane_new(rd_kafka_t *consumer, const struct rp_config *config, const char *topic,
                          int32_t partition, int wake_fd, struct hold *hold, struct lane **out,
                          struct rp_error *err);
/* The partition's state is known: reading can begin. `position` is the committed offset and its
 * metadata. Fails RETRIABLE for want of memory, or while librdkafka has not begun with the
 * partition. */
RP_NODISCARD int lane_take_over(struct lane *lane, const rd_kafka_topic_partition_t *position,
                                struct rp_error *err);
bool lane_is_taken_over(const struct lane *lane);
/* Back to where it began: what is held is dropped, and the state is to be found out anew. */
void lane_let_go(struct lane *lane);
/* Drops what is held. NULL is fine. */
void lane_free(struct lane *lane);

/* Of a lane that was taken over. Reads up to `most` records: those that can be due within the slack
 * from `now_ms`, and behind them up to `most_ahead` bytes of what cannot. Returns how many were
 * read, or -1: RETRIABLE for want of memory. */
int lane_read(struct lane *lane, int64_t now_ms, int most, size_t most_ahead,
              struct rp_arena *arena, struct rp_error *err);
/* A recovery reads up to where the last owner had. Where the log ends before that, and still does
 * after a while (it was cut), the recovery is ended, loudly. Whether it was. */
bool lane_check_end(struct lane *lane);

/* A leader that was elected later goes on with other records from an offset below what was read: no
 * more is read before the lane is let go, and taken over again. */
bool lane_is_cut(const struct lane *lane);
/* That was done, and it begins there. But it is not in the committed state yet. */
bool lane_was_cut(const struct lane *lane);
void lane_cut_committed(struct lane *lane);

/* All that was fetched has been read, and since the last call of this it was not taken over, nor
 * did an error come: *out_next is the offset up to which it came. */
bool lane_is_emptied(struct lane *lane, int64_t *out_next);

/* When lane_read has something to do again; INT64_MAX: when the eventfd says so. */
int64_t lane_read_at_ms(const struct lane *lane);

struct frontier *lane_frontier(struct lane *lane);
const char *lane_topic(const struct lane *lane);
int32_t lane_partition(const struct lane *lane);
const struct rp_tier *lane_tier(const struct lane *lane);

/* What was sent off is settled. The lane is dirty until its state is committed. */
void lane_set_settled(struct lane *lane);
void lane_set_committed(struct lane *lane);
/* Its commit was sent; then the answer came. One at a time. */
void lane_set_committing(struct lane *lane);
void lane_commit_answered(struct lane *lane, bool failed);
bool lane_is_dirty(const struct lane *lane);

/* The offset below which the log can be deleted, if that has moved since the last call (`again`: or
 * has not); else -1. All below it is settled, and that is committed. */
int64_t lane_trim_to(struct lane *lane, bool again);

#endif
