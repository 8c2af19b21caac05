/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_COMPLETION_H
#define REPRISE_CLI_COMPLETION_H

#include "cli.h"

/* Scripts that complete the words of `reprise` in a shell, from the table of commands. */
void completion_bash(FILE *out, const struct cli_command *const *commands);
void completion_zsh(FILE *out, const struct cli_command *const *commands);

#endif
