/* SPDX-License-Identifier: Apache-2.0 */
#include "target_fixture.h"

#include "replay_message.h"

const char *target_refused;
int target_rc;
int64_t target_max_bytes = RP_NO_LIMIT;

int __wrap_rp_replay_judge_target(struct rp_replay_maker *m, struct rp_bytes task_type,
                                  struct rp_bytes *target, const char **refused,
                                  struct rp_error *err);
int64_t __wrap_rp_replay_max_payload(struct rp_replay_maker *m, struct rp_bytes topic);

int __wrap_rp_replay_judge_target(struct rp_replay_maker *m, struct rp_bytes task_type,
                                  struct rp_bytes *target, const char **refused,
                                  struct rp_error *err)
{
    (void)m;
    (void)task_type;
    if (target->data == NULL)
        *target = rp_str("the-policy-s");
    *refused = target_refused;
    return target_rc == 0 ? 0 : rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "the brokers are away");
}

int64_t __wrap_rp_replay_max_payload(struct rp_replay_maker *m, struct rp_bytes topic)
{
    (void)m;
    (void)topic;
    return target_max_bytes;
}
