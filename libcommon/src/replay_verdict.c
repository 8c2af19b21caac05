/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_verdict.h"

#include <inttypes.h>
#include <stdio.h>

/* A share of fewer than so many says nothing. */
#define SHARE_OF_LEAST 20

static bool over_share(const struct rp_replay_standing *s, double share, int64_t of)
{
    return (double)s->came_back > share * (double)of;
}

static enum rp_replay_verdict stop(const struct rp_replay_standing *s, const char *what, char *why,
                                   size_t size)
{
    (void)snprintf(why, size, "%" PRId64 " of %" PRId64 " %s came back dead", s->came_back,
                   s->next - s->refused, what);
    return RP_REPLAY_STOP;
}

/* While canaries are still being sent, more than the share of all of them may have come back. What
 * is refused says nothing of what would become of it, so another one goes in its place. */
static enum rp_replay_verdict judge_canaries(const struct rp_replay_options *o,
                                             const struct rp_replay_standing *s, char *why,
                                             size_t size)
{
    int64_t out = s->next - s->refused;
    if (out > 0 && over_share(s, o->canary_share, out < o->canary ? o->canary : out))
        return stop(s, "canaries", why, size);
    if (out < o->canary || s->came_back >= out)
        return RP_REPLAY_SEND;
    if (s->canary_age_ms < 0 || s->canary_age_ms < o->canary_wait_ms)
        return RP_REPLAY_HOLD;
    return s->archived ? RP_REPLAY_SEND : RP_REPLAY_AWAIT;
}

enum rp_replay_verdict rp_replay_judge(const struct rp_replay_options *o,
                                       const struct rp_replay_standing *s, char *why, size_t size)
{
    int64_t out = s->next - s->refused;
    if (s->next >= s->total)
        return RP_REPLAY_SEND;
    if (o->stop_if_dead >= 0 && out >= SHARE_OF_LEAST && over_share(s, o->stop_if_dead, out))
        return stop(s, "tasks", why, size);
    return o->canary > 0 && out <= o->canary ? judge_canaries(o, s, why, size) : RP_REPLAY_SEND;
}
