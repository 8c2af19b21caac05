/* SPDX-License-Identifier: Apache-2.0 */
#include "pager.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

FILE *pager_open(void)
{
    const char *pager = getenv("PAGER");
    if (!isatty(STDOUT_FILENO) || (pager != NULL && (*pager == '\0' || strcmp(pager, "cat") == 0)))
        return stdout;
    if (pager == NULL)
        pager = "if command -v less >/dev/null; then exec less; else exec cat; fi";
    /* As git has it: leave when all fits, show colours, leave the text on the screen. */
    (void)setenv("LESS", "FRX", 0);
    (void)fflush(stdout);
    FILE *out = popen(pager, "w");
    if (out == NULL)
        return stdout;
    /* A reader who has seen enough is no failure. */
    (void)signal(SIGPIPE, SIG_IGN);
    return out;
}

void pager_close(FILE *out)
{
    if (out != stdout)
        (void)pclose(out);
    else
        (void)fflush(stdout);
}
