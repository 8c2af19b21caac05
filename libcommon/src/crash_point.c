/* SPDX-License-Identifier: Apache-2.0 */
#include "crash_point.h"

#ifdef REPRISE_CRASH_POINTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

void rp_crash_point(int n)
{
    static atomic_int passed;
    const char *text = getenv("REPRISE_CRASH_POINT");
    char *end;
    if (text == NULL || strtol(text, &end, 10) != n)
        return;
    long times = *end == ':' ? strtol(end + 1, NULL, 10) : 1;
    if (atomic_fetch_add(&passed, 1) + 1 == times)
        (void)kill(getpid(), SIGKILL);
}

#endif
