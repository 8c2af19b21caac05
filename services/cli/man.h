/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_MAN_H
#define REPRISE_CLI_MAN_H

#include "cli.h"

/* Man pages, in man(7): of the command line and its commands from their table, of the services, and
 * of the configuration from its table of parameters. */

/* Writes each page as a file into the directory. Returns an exit code. */
int man_write(const struct cli_command *const *commands, const char *dir);

/* One page each. `group` NULL: of the command `name`, which is in no group. */
void man_overview(FILE *out, const struct cli_command *const *commands);
void man_commands(FILE *out, const struct cli_command *const *commands, const char *group,
                  const char *name);
void man_config(FILE *out);

#endif
