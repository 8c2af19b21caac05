/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CRASH_POINT_H
#define REPRISE_CRASH_POINT_H

/* Places where a test lets the process die, as by kill -9: between any two steps that outlive it.
 * REPRISE_CRASH_POINT=N in the environment names the place, N:M lets it pass M - 1 times before.
 * There is no code for it without the build option REPRISE_CRASH_POINTS. Numbers are unique in the
 * project; tests find them in the sources. Thread-safe. */
#ifdef REPRISE_CRASH_POINTS
void rp_crash_point(int n);
#define RP_CRASH_POINT(n) rp_crash_point(n)
#else
#define RP_CRASH_POINT(n) ((void)0)
#endif

#endif
