/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ROW_H
#define REPRISE_ROW_H

#include "dead_letter.h"
#include "groups.h"

/* A dead letter as a row of the table dead_letter. Whatever the record holds, the row is one that
 * PostgreSQL takes: what it cannot hold is altered, the column is named in `altered`, and the
 * record's own bytes go into `record`, so that nothing is lost. */

/* The record of a dead letter. */
struct row_record {
    struct rp_bytes topic;
    int32_t partition;
    int64_t offset;
    struct rp_bytes key, value;
    struct rp_bytes replay_job; /* what the record's own headers say of a replay; may be null */
};

/* What became of it. */
struct row_facts {
    bool altered;  /* something in it is not as it came */
    bool replayed; /* a replay sent the task that is dead again */
    int64_t fingerprint;
};

/* The columns, in the order in which rows are written. */
extern const char *const row_columns[];
extern const size_t row_n_columns;

/* Texts that indexes are built over are cut here, in bytes: PostgreSQL refuses an index entry over
 * 2704 of them. */
#define ROW_NAME_MAX 1024
/* Other texts are cut here, those of an array together. */
#define ROW_TEXT_MAX ((size_t)8 << 20)
/* What a record may have, key and value together, to be more than a bare row. PostgreSQL makes
 * neither a row nor JSON of 1 GiB. JSON has 6 bytes for one of a text, in six columns, and 4/3 for
 * one of the bytes, which are in the row twice where something is altered. No service of ours sends
 * as much, but a compressed record may have any size. */
#define ROW_RECORD_MAX ((size_t)128 << 20)

/* Appends the row, and that of its error group to `groups` where it is the first one of it. Needs a
 * record within ROW_RECORD_MAX. Fails with RP_E_NOMEM, and then appended nothing. */
RP_NODISCARD int row_write(struct copy *c, const struct row_record *record,
                           const struct rp_dead_letter *letter, int64_t dead_at_ms,
                           struct groups *groups, struct row_facts *out, struct rp_error *err);

/* Appends a row that has the record's bytes, up to ROW_RECORD_MAX of its key and of its value,
 * `reason` and `detail`, and nothing else: for a dead letter that is too large, that cannot be
 * decoded, or that PostgreSQL refuses for whatever cause. */
RP_NODISCARD int row_write_bare(struct copy *c, const struct row_record *record,
                                enum rp_reason reason, const char *detail, int64_t dead_at_ms,
                                struct groups *groups, struct row_facts *out, struct rp_error *err);

/* Has the row that begins there count as dead at another time. */
void row_redate(struct copy *c, size_t begin, int64_t dead_at_ms);

#endif
