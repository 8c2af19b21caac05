/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CRASH_POINT_H
#define REPRISE_CRASH_POINT_H

/* Places where a test lets the process die, as by kill -9, or stand still, as by kill -STOP:
 * between any two steps that outlive it. There is no code for it without the build option
 * REPRISE_CRASH_POINTS. With it, the environment says where:
 *
 *   REPRISE_CRASH_POINT=N        at point N
 *   REPRISE_CRASH_POINT=N:M      the M-th time that any thread comes there
 *   REPRISE_CRASH_POINT=N:M:S    stands still instead, until SIGCONT
 *
 * bin/crash_points prints the list below: number, name, and who comes there. For each kind of those
 * there is a test that dies at every one of its points. A number is never used for something else.
 */
#define RP_CRASH_POINTS(POINT)                                                                     \
    /* Publishing: the router, the delayer and replay. */                                          \
    POINT(1, init_before, "router delayer replay")                                                 \
    POINT(2, init_after, "router delayer replay")                                                  \
    POINT(3, produce_before, "router delayer replay")                                              \
    POINT(4, produce_after, "router delayer replay")                                               \
    POINT(5, offsets_before, "router delayer replay")                                              \
    POINT(6, offsets_after, "router delayer replay")                                               \
    POINT(7, acknowledged, "router delayer replay")                                                \
    POINT(8, commit_before, "router delayer replay")                                               \
    POINT(9, commit_after, "router delayer replay")                                                \
    POINT(10, abort_before, "router delayer replay-abort")                                         \
    POINT(11, abort_after, "router delayer replay-abort")                                          \
    POINT(12, offsets_beside, "router delayer")                                                    \
    POINT(13, committed_beside, "router delayer")                                                  \
    POINT(20, rewind_before, "router")                                                             \
    POINT(21, rewind_after, "router")                                                              \
    POINT(22, assigned, "router delayer archiver")                                                 \
    POINT(23, revoked_before, "router delayer archiver")                                           \
    POINT(24, revoked_after, "router delayer archiver")                                            \
    POINT(30, take_over_before, "delayer")                                                         \
    POINT(31, take_over_after, "delayer")                                                          \
    POINT(32, settled, "delayer")                                                                  \
    POINT(33, trim_before, "delayer")                                                              \
    POINT(34, trim_sent, "delayer")                                                                \
    POINT(35, trim_answered, "delayer")                                                            \
    POINT(36, states_before, "delayer-at-least-once")                                              \
    POINT(37, states_sent, "delayer-at-least-once")                                                \
    POINT(38, states_answered, "delayer-at-least-once")                                            \
    POINT(40, claim_before, "archiver")                                                            \
    POINT(41, claim_after, "archiver")                                                             \
    POINT(42, day_before, "archiver")                                                              \
    POINT(43, day_after, "archiver")                                                               \
    POINT(44, copy_before, "archiver")                                                             \
    POINT(45, copy_begun, "archiver")                                                              \
    POINT(46, copy_sent, "archiver")                                                               \
    POINT(47, copy_ended, "archiver")                                                              \
    POINT(48, database_committed, "archiver")                                                      \
    POINT(49, watched_offsets_after, "archiver")                                                   \
    POINT(50, batch_given, "archiver")                                                             \
    /* Retention by type, dlq purge, statistics. */                                                \
    POINT(60, export_batch_written, "export retention")                                            \
    POINT(61, export_named, "export retention")                                                    \
    POINT(62, purge_deleted, "purge retention")                                                    \
    POINT(63, purge_committed, "purge retention")                                                  \
    POINT(64, statistics_taken, "retention")                                                       \
    POINT(65, day_exported, "retention")                                                           \
    /* dlq discard, dlq import. */                                                                 \
    POINT(70, discard_changed, "discard")                                                          \
    POINT(71, discard_committed, "discard")                                                        \
    POINT(72, import_added, "import")                                                              \
    POINT(73, import_committed, "import")                                                          \
    /* Replay. */                                                                                  \
    POINT(80, replay_plan_before, "replay-plan")                                                   \
    POINT(81, replay_plan_after, "replay-plan")                                                    \
    POINT(82, replay_claimed, "replay")                                                            \
    POINT(83, replay_fenced, "replay")                                                             \
    POINT(84, replay_cursor_read, "replay")                                                        \
    POINT(85, replay_recovered, "replay")                                                          \
    POINT(86, replay_refuse_before, "replay")                                                      \
    POINT(87, replay_refuse_after, "replay")                                                       \
    POINT(88, replay_sent, "replay")                                                               \
    POINT(89, replay_committed, "replay")                                                          \
    POINT(90, replay_mark_asked, "replay")                                                         \
    POINT(91, replay_marked, "replay")                                                             \
    POINT(92, replay_canaries_out, "replay-canary")                                                \
    POINT(93, replay_stopped, "replay-stop")                                                       \
    POINT(94, replay_released, "replay-cancel")                                                    \
    POINT(95, replay_finish_before, "replay")                                                      \
    POINT(96, replay_finished, "replay")                                                           \
    POINT(97, replay_rest_before, "replay-pause")                                                  \
    POINT(98, replay_rested, "replay-pause")

#ifdef REPRISE_CRASH_POINTS
#define RP_CRASH_POINT_NUMBER(number, name, services) RP_CRASH_##name = number,
enum { RP_CRASH_POINTS(RP_CRASH_POINT_NUMBER) };
void rp_crash_point(int number);
#define RP_CRASH_POINT(name) rp_crash_point(RP_CRASH_##name)
#else
#define RP_CRASH_POINT(name) ((void)0)
#endif

#endif
