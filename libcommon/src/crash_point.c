/* SPDX-License-Identifier: Apache-2.0 */
#include "crash_point.h"

#ifdef REPRISE_CRASH_POINTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

void rp_crash_point(int number)
{
    static atomic_long passed;
    const char *text = getenv("REPRISE_CRASH_POINT");
    char *end;
    if (text == NULL || strtol(text, &end, 10) != number)
        return;
    long nth = *end == ':' ? strtol(end + 1, &end, 10) : 1;
    /* To this very thread: of the process another one may take it first, and this one goes on. */
    if (atomic_fetch_add(&passed, 1) + 1 == nth)
        (void)raise(*end == ':' ? SIGSTOP : SIGKILL);
}

#else
/* A translation unit must not be empty. */
typedef int no_crash_points;
#endif
