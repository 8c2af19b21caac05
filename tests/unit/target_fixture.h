/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TARGET_FIXTURE_H
#define REPRISE_TARGET_FIXTURE_H

/* What rp_replay_judge_target says, where a test wraps it: why the target is refused, NULL where it
 * is not, and whether anybody answered. */
extern const char *target_refused;
extern int target_rc;

#endif
