/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_VERDICT_H
#define REPRISE_REPLAY_VERDICT_H

#include "replay_options.h"

/* What a job may do next, judged by what came back dead of it so far. Knows no clock. */

enum rp_replay_verdict { RP_REPLAY_SEND, RP_REPLAY_HOLD, RP_REPLAY_AWAIT, RP_REPLAY_STOP };

struct rp_replay_standing {
    int64_t total;
    int64_t next;          /* items below it were sent, or refused */
    int64_t refused;       /* of those that are marked, so it may be too small */
    int64_t came_back;     /* dead letters that came of it */
    int64_t canary_age_ms; /* since all canaries were out, when that was counted; -1: not yet */
    bool archived;         /* it counts all that had died by the end of the canaries' time */
};

/* HOLD: the canaries are out, and what becomes of them is not known yet. It is known when they have
 * had their time and what died in it was counted, and before that where all of them came back, or
 * so many that the job is to stop: a success leaves no trace. AWAIT: they have had their time, and
 * only the count is missing. STOP: `why` says so for people. */
enum rp_replay_verdict rp_replay_judge(const struct rp_replay_options *o,
                                       const struct rp_replay_standing *s, char *why, size_t size);

#endif
