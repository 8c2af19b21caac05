/* SPDX-License-Identifier: Apache-2.0 */
#include "pager.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* What a shell ends with where it cannot run the command, or there is none. */
#define NOT_RUN   126
#define NOT_THERE 127

static void give_back(int number)
{
    (void)number;
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGQUIT, SIG_DFL);
}

/* A Ctrl-C is the pager's as long as there is one. Ignored once it has begun, since it would ignore
 * it as well. */
static void leave_interrupts(void)
{
    const struct sigaction gone = {.sa_handler = give_back, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    (void)sigaction(SIGCHLD, &gone, NULL);
}

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
    leave_interrupts();
    /* A reader who has seen enough is no failure. */
    (void)signal(SIGPIPE, SIG_IGN);
    return out;
}

int pager_close(FILE *out)
{
    if (out == stdout) {
        (void)fflush(stdout);
        return CLI_OK;
    }
    int status = pclose(out), code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (code != NOT_RUN && code != NOT_THERE)
        return CLI_OK;
    cli_error("the pager cannot be run; see $PAGER");
    return CLI_FAILED;
}
