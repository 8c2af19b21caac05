/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SETTLE_H
#define REPRISE_SETTLE_H

#include "codec.h"
#include "lessons.h"
#include "parcel.h"
#include "publisher.h"
#include "targets.h"

/* What becomes of one held record when its time has come: the re-invocation, another lap, or a dead
 * letter. Sends nothing. */

struct settle_context {
    const struct rp_config *config;
    const struct rp_policies *policies;
    struct rp_codec *codec;
    struct rp_targets *targets;
    struct rp_allowed allowed;
    struct rp_arena arena; /* of the record at hand */
    struct rp_buf letter;
};

struct settle_record {
    struct parcel parcel; /* with the due time that it has without a stated one */
    const char *topic;    /* where it is held */
    int32_t partition;
    int64_t offset;
    bool lap; /* it starts another lap, unless it is due by now */
    int64_t now_ms;
    const struct rp_lesson *lesson; /* NULL: none */
};

enum settle_kind { SETTLE_SENT, SETTLE_LAP, SETTLE_DEAD };

struct settlement {
    enum settle_kind kind;
    enum rp_reason reason; /* of SETTLE_DEAD */
    const char *why;       /* for the log */
    struct rp_bytes task_id;
    struct rp_outgoing out;
};

/* `out` is valid until the next call. Fails RETRIABLE: no memory. */
RP_NODISCARD int settle_record(struct settle_context *c, const struct settle_record *r,
                               struct settlement *out, struct rp_error *err);

const char *settle_kind_name(enum settle_kind kind);

#endif
