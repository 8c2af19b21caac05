/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CHECKPOINT_H
#define REPRISE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* What the metadata of an offset commit says of a partition, beside the offset itself (`low`):
 *
 *     reprise/1 high=5120 settled=1763700000123:4711 reach=0:60000,5000:120000
 *
 * Of the records in [low, high), those at or before `settled` are settled and the others are not;
 * below `low` all are, from `high` on none. */

/* The order in which records are settled. */
struct settle_key {
    int64_t ms, offset;
};

/* Before every record: nothing is settled. Written as "settled=-". */
#define SETTLED_NOTHING ((struct settle_key){INT64_MIN, -1})

static inline bool settle_key_before(struct settle_key a, struct settle_key b)
{
    return a.ms != b.ms ? a.ms < b.ms : a.offset < b.offset;
}

/* The reach that counts from an offset on, until the next one's. */
struct reach {
    int64_t from, ms;
};

#define CHECKPOINT_MAX_REACHES 8

struct checkpoint {
    int64_t high;
    struct settle_key settled;
    struct reach reaches[CHECKPOINT_MAX_REACHES]; /* `from` ascends; never empty */
    size_t n_reaches;
};

/* Nothing is settled, and one reach counts for all. */
void checkpoint_init(struct checkpoint *c, int64_t high, int64_t reach_ms);

/* Reads what came with the committed offset `low`. False, with `out` undefined, where it is not
 * what checkpoint_write writes, or contradicts `low` or itself. */
bool checkpoint_read(struct rp_bytes text, int64_t low, struct checkpoint *out);
/* Writes the text, terminated. Reaches that only count below `low` are left out. Its longest is
 * under FRONTIER_METADATA_MAX. Needs low >= 0. */
void checkpoint_write(const struct checkpoint *c, int64_t low, char *out, size_t size);

int64_t checkpoint_reach(const struct checkpoint *c, int64_t offset);
/* Makes `reach_ms` count from `high` on. Where the list is full the last reach goes on counting. */
void checkpoint_change_reach(struct checkpoint *c, int64_t reach_ms);
/* The log was cut at `end` and goes on from there with other records: nothing that was said of
 * offsets from `end` on holds. */
void checkpoint_cut(struct checkpoint *c, int64_t end);

#endif
