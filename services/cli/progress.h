/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_PROGRESS_H
#define REPRISE_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A line on stderr that says how far something is, while stderr is a terminal; and Ctrl-C, which
 * asks for an end. */
struct progress {
    const char *what; /* "discarded" */
    int64_t total;    /* 0: not known */
    int64_t shown_mono_ms;
    bool on;
};

/* From here on Ctrl-C and SIGTERM only ask. */
void progress_begin(struct progress *p, const char *what, int64_t total);
/* Shows it, a few times a second at most. False: an end was asked for. */
bool progress_show(struct progress *p, int64_t done);
/* Takes the line away. */
void progress_end(struct progress *p);

/* Whether an end was asked for. */
bool progress_stopped(void);

#endif
