/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TARGET_FIXTURE_H
#define REPRISE_TARGET_FIXTURE_H

#include "targets.h"

/* What rp_replay_judge_target and rp_replay_max_payload say, where a test wraps them: why the
 * target is refused, NULL where it is not, whether anybody answered, and how much it takes. */
extern const char *target_refused;
extern int target_rc;
extern int64_t target_max_bytes;

#endif
