/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_LETTER_H
#define REPRISE_CLI_LETTER_H

#include "db.h"
#include "message.h"

/* The task of a dead letter, as it can be sent again. In the arena. */
struct letter {
    const char *id;
    const char *status, *job; /* job: the one that has or had it; "" for none */
    const char *task_json;    /* what programs see as `task` */
    struct rp_message message;
};

/* By its id, or, where that is NULL, the newest one of a task. Fails with RP_E_NOT_FOUND where
 * there is no such dead letter, and with RP_E_INVALID where there is no task in it that could be
 * sent. */
RP_NODISCARD int letter_read(struct rp_db *db, const char *id, const char *task_id,
                             struct rp_arena *arena, struct letter *out, struct rp_error *err);

#endif
