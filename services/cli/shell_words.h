/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_SHELL_WORDS_H
#define REPRISE_CLI_SHELL_WORDS_H

#include "cli.h"

/* Prints the command as a shell takes it, but for the option `without`: "reprise dlq list --type
 * 'pay*'". Safe for a terminal. */
void shell_words_print(FILE *out, const struct cli_args *args, const char *without);

#endif
