/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"

/* The next file that is opened would take the place of one of these that is closed, and get what is
 * printed. To print fails then, as before. */
static bool hold_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    if (!hold_standard_files())
        return CLI_FAILED;
    (void)mallopt(M_MXFAST, 0); /* as the services do, for a replay */
    int code = cli_main(cli_commands, argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    cli_error("not all of it could be written to stdout");
    return code == CLI_OK ? CLI_FAILED : code;
}
