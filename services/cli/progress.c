/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "dlq.h"
#include "signals.h"

#define EVERY_MS 200

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

bool progress_stopped(void)
{
    return stopped != 0;
}

void progress_begin(struct progress *p, const char *what, int64_t total)
{
    *p = (struct progress){.what = what, .total = total, .on = isatty(STDERR_FILENO) != 0};
    /* Once is a wish; the second time ends it. */
    (void)!signals_catch(SIGINT, stop);
    (void)!signals_catch(SIGTERM, stop);
}

bool progress_show(struct progress *p, int64_t done)
{
    char now[RP_UNIT_TEXT], all[RP_UNIT_TEXT];
    int64_t at_mono_ms = rp_mono_ms();
    if (p->on && at_mono_ms - p->shown_mono_ms >= EVERY_MS) {
        p->shown_mono_ms = at_mono_ms;
        (void)fprintf(stderr, "\r%s %s%s%s \x1b[K", p->what, dlq_count_text(done, now),
                      p->total > 0 ? " of " : "",
                      p->total > 0 ? dlq_count_text(p->total, all) : "");
        (void)fflush(stderr);
    }
    return stopped == 0;
}

void progress_end(struct progress *p)
{
    if (p->on && p->shown_mono_ms > 0)
        (void)fputs("\r\x1b[K", stderr);
}
