/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"
#include "completion.h"
#include "man.h"

static int run_completion(const struct cli_args *args)
{
    const char *shell = args->positional[0];
    if (strcmp(shell, "bash") == 0)
        completion_bash(stdout, cli_commands);
    else if (strcmp(shell, "zsh") == 0)
        completion_zsh(stdout, cli_commands);
    else {
        cli_error("SHELL is bash or zsh, not '%s'", shell);
        return CLI_USAGE;
    }
    return CLI_OK;
}

const struct cli_command cmd_completion = {
    .name = "completion",
    .positional = "SHELL",
    .summary = "Prints what completes the words of reprise in a shell: bash or zsh.",
    .about = "An installed reprise brings it along. Else:\n\n"
             "  source <(reprise completion bash)\n",
    .run = run_completion,
};

static int run_man(const struct cli_args *args)
{
    return man_write(cli_commands, args->positional[0]);
}

const struct cli_command cmd_man = {
    .name = "man",
    .positional = "DIR",
    .summary = "Writes the man pages into a directory.",
    .hidden = true,
    .run = run_man,
};
