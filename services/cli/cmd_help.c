/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"
#include "filter.h"

static int run(const struct cli_args *args)
{
    if (args->n_positional == 1 && strcmp(args->positional[0], "filter") == 0) {
        rp_filter_help(stdout);
        return CLI_OK;
    }
    cli_error("there is help on: filter; `reprise --help` lists the commands");
    return CLI_USAGE;
}

const struct cli_command cmd_help = {
    .name = "help",
    .positional = "TOPIC",
    .summary = "Explains a topic: filter.",
    .run = run,
};
