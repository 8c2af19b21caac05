/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_H
#define STORE_H

#include "copy.h"
#include "db.h"

/* The archive in PostgreSQL, as one worker writes to it. PostgreSQL alone decides where a partition
 * of the dead-letter topic is read on from: rows and the offset behind them are committed in one
 * transaction, and only by the owner of the partition's newest epoch. A call that fails may have
 * taken effect all the same; then claiming the partition anew tells, since the new epoch waits for
 * what the old one still has under way and shuts out whatever of it comes later. */
struct store;

/* A partition as its owner sees it. */
struct store_claim {
    int32_t partition;
    int64_t epoch;       /* 0: not claimed yet */
    int64_t next_offset; /* all below is archived; 0: nothing yet */
    int64_t seen_end;    /* the log ended there when all that it had was archived; 0: not known */
};

/* `owner` names this process and no other that lives, or lived, in pg_stat_activity and in
 * archive_offset. All are borrowed. Does not connect. */
RP_NODISCARD int store_new(const char *dsn, const char *topic, const char *owner,
                           struct store **out, struct rp_error *err);
void store_free(struct store *s);

/* Fails with RP_E_SCHEMA when the database has not had all the migrations. */
RP_NODISCARD int store_connect(struct store *s, struct rp_error *err);
bool store_connected(const struct store *s);
void store_disconnect(struct store *s);
/* The time by the database's clock, which it is asked for now and then: ours may be wrong, and it
 * is theirs by which retention drops. Needs a connection. */
RP_NODISCARD int store_now_ms(struct store *s, int64_t *out, struct rp_error *err);
/* For what else is to be done on this connection; NULL where there is none. */
struct rp_db *store_db(struct store *s);

/* Becomes the partition's owner: raises the epoch and learns next_offset. A claim that was held
 * before (epoch > 0) is only renewed: fails with RP_E_FENCED when somebody else has claimed it
 * since. `topic_id` is the broker's, "" where it is not known; for a topic that was deleted and
 * created again, next_offset is 0. */
RP_NODISCARD int store_claim(struct store *s, const char *topic_id, struct store_claim *claim,
                             struct rp_error *err);

/* Tells others the claims' seen_end, until rows are written behind it. Claims that are no longer
 * ours get epoch 0. */
RP_NODISCARD int store_tell_ends(struct store *s, struct store_claim *claims, size_t n,
                                 struct rp_error *err);

/* Makes sure of the partition of a day. POISON: the day has no room, since an operator has detached
 * its partition; it may have some the next time. */
RP_NODISCARD int store_add_day(struct store *s, int64_t day, struct rp_error *err);
/* Whether the last call failed for want of a day's partition: one that was there before may have
 * been dropped by somebody whose retention is shorter. */
bool store_day_missing(const struct store *s);
/* Asks the database again about each day, the next time it is needed. */
void store_forget_days(struct store *s);

/* In place of a day: of more than one. */
#define STORE_DAYS INT64_MIN

/* Rows of row_write, and of the groups that they are of. */
struct store_rows {
    struct rp_bytes groups, letters;
    size_t n;               /* letters */
    bool replayed;          /* a replay sent the task of one of them */
    bool straight;          /* none is, and all belong to the claims: worth trying the short way */
    int64_t day;            /* of all letters, or STORE_DAYS, and */
    struct rp_bytes counts; /* counts_rows of them: where they are straight */
};

/* Begins to send rows that store_write may get as `straight`: these, and what is appended to them
 * until then; `claims` are those of all partitions that they may be of. So the server works while
 * the next ones are made. What is called meanwhile beside it takes that back, and so does another
 * `day`; all is then sent by the next call, or by store_write. Where it fails and the connection
 * lives, store_write tells why. */
RP_NODISCARD int store_send(struct store *s, int64_t day, struct rp_bytes letters,
                            const struct store_claim *claims, size_t n_claims,
                            struct rp_error *err);

/* Gives the server more of what store_send was given, as far as it takes it now; whether there is
 * more. */
bool store_push(struct store *s);

/* Takes back what store_send sent. */
void store_recall(struct store *s);

/* Commits rows of row_write, which belong to the partitions of `claims`, together with the claims'
 * next_offset; seen_end is 0 then, here as well. The rows of claims that are no longer ours, whose
 * epoch is set to 0 here, are left out. A dead letter that a replay led to is linked to the one
 * that was replayed, and that one is marked as come back, in the same transaction. `*out_added` is
 * how many rows are new: one that the archive has already is passed over. POISON: the data was
 * refused, and nothing was written. */
RP_NODISCARD int store_write(struct store *s, const struct store_rows *rows,
                             struct store_claim *claims, size_t n_claims, int64_t *out_added,
                             struct rp_error *err);

#endif
