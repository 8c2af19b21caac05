/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FRONTIER_H
#define REPRISE_FRONTIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* The frontier of one partition of a tier: which of its records are settled, in three numbers that
 * travel in the metadata of the offset commit (README.md has the argument for why that is enough).
 * It holds the records that were read and are not settled, and gives them out in the order
 * (settle time, offset), late ones first. Knows nothing of Kafka, clocks or the records' bytes.
 * Not thread-safe. */
struct frontier;

/* Longest metadata that frontier_state writes, with its terminating NUL. */
#define FRONTIER_METADATA_MAX 1024

struct frontier_entry {
    int64_t offset;
    int64_t settle_ms;
    bool lap;        /* settled by another lap: its due time lies beyond the reach */
    uint64_t handle; /* the caller's */
};

/* `length_ms` and `reach_ms` are the tier's. `low` is the committed offset; negative: none, and
 * reading begins wherever the log does. `metadata` came with it; where it cannot be read, all from
 * `low` on counts as unsettled, and *out_lost_state says so (it is never an error: sending again is
 * better than losing). Fails with RP_E_NOMEM only. */
RP_NODISCARD int frontier_new(int64_t length_ms, int64_t reach_ms, int64_t low,
                              struct rp_bytes metadata, bool *out_lost_state, struct frontier **out,
                              struct rp_error *err);

typedef void frontier_release_fn(void *opaque, uint64_t handle);
/* Gives back the handle of each held record, those in flight included, and frees. */
void frontier_free(struct frontier *f, frontier_release_fn *release, void *opaque);

/* Takes a record that was read. Offsets ascend; gaps are fine (aborted records, control records).
 * `due_ms` is RP_NO_TIME where the record states none. *out_held false: it was settled before a
 * recovery, or came before, and the handle stays the caller's. A log that begins below the
 * committed offset was made anew: then nothing counts as settled. Fails with RP_E_NOMEM only, and
 * then took nothing. */
RP_NODISCARD int frontier_add(struct frontier *f, int64_t offset, int64_t append_ms, int64_t due_ms,
                              uint64_t handle, bool *out_held, struct rp_error *err);

/* All below `offset` was read, where the log ends in something that is no record. */
void frontier_read_to(struct frontier *f, int64_t offset);
/* The log ends for good at `end`, and all below it was read. A recovery that still waits for
 * records behind it (the log was cut) ends, and what is appended there counts as new. Not for an
 * end that has merely not caught up, as after a change of the partition's leader: what the last
 * owner settled behind `end` would be settled again. */
void frontier_log_cut(struct frontier *f, int64_t end);

/* Of one that has read nothing yet: what lies from `offset` on counts as unsettled, since the log
 * was cut there and goes on with other records. */
void frontier_forget_from(struct frontier *f, int64_t offset);

/* The next record to settle; false where none is held, or while a recovery has not yet read up to
 * where the last owner had. It need not be due: compare settle_ms with the clock. */
bool frontier_peek(const struct frontier *f, struct frontier_entry *out);
/* Takes what frontier_peek showed: it is in flight until frontier_settled or frontier_untake. */
void frontier_take(struct frontier *f);

/* The state to commit, as it is once all that is in flight is settled: the offset to commit, and
 * the metadata that goes with it (NUL-terminated). The offset is negative, and there is nothing to
 * commit, while nothing is known. Records may be added between this and frontier_send_off; none may
 * be taken. */
void frontier_state(const struct frontier *f, int64_t *out_low,
                    char metadata[FRONTIER_METADATA_MAX]);
/* All that is in flight goes with the state of frontier_state; what is taken from now on, with the
 * next one. What was sent off before has been settled. */
void frontier_send_off(struct frontier *f);
/* What was sent off was settled, and its state is committed or will be. */
void frontier_settled(struct frontier *f);
/* A transaction failed: all that is in flight is held again, in its old order. */
void frontier_untake(struct frontier *f);

/* For metrics and trimming. `low` is the lowest offset not known to be settled, in flight counting
 * as unsettled; `high` the next offset to read; -1 while nothing is known. */
int64_t frontier_low(const struct frontier *f);
int64_t frontier_high(const struct frontier *f);
size_t frontier_held(const struct frontier *f);
size_t frontier_in_flight(const struct frontier *f);
/* And how much of that was sent off. */
size_t frontier_sent_off(const struct frontier *f);
bool frontier_recovering(const struct frontier *f);
/* Bytes that it takes itself: about 44 for each record held, given back as they become fewer. */
size_t frontier_memory(const struct frontier *f);

#endif
