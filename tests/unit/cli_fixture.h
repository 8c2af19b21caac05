/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_FIXTURE_H
#define REPRISE_CLI_FIXTURE_H

#include "cli.h"

/* What the last command printed, on stdout and stderr. */
extern char printed[1 << 17];

/* Runs "reprise <words>", which are split and quoted as a shell has it; returns the exit code. */
int cli_run(const struct cli_command *const *commands, const char *words);

/* Writes a configuration that REPRISE_CONFIG names from here on; it goes with the program. */
void cli_configure(const char *text);

/* What isatty says, where a test wraps it. */
extern bool terminal;

/* Fails unless `part` was printed. */
void assert_printed(const char *part);

#endif
