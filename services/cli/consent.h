/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_CONSENT_H
#define REPRISE_CLI_CONSENT_H

#include <stdint.h>

#include "cli.h"

/* Who does something to dead letters, why, and whether they are sure. CONSENT_OPTIONS goes into the
 * tables of the commands that do. */
#define CONSENT_OPTIONS                                                                            \
    CONSENT_WHO, {.name = "dry-run", .help = "say what would be done, and do nothing"},            \
    {                                                                                              \
        .name = "yes", .help = "do not ask"                                                        \
    }

/* For those that need not ask. */
#define CONSENT_WHO                                                                                \
    {.name = "reason", .value = "TEXT", .help = "why, for the audit"},                             \
    {                                                                                              \
        .name = "as", .value = "NAME",                                                             \
        .help = "who, for the audit (default: $REPRISE_ACTOR, $SUDO_USER, or the system's user)"   \
    }

/* The actor: --as, else $REPRISE_ACTOR, else who went through sudo, else the name of the system's
 * user, who in a container is root whoever it is. Borrowed, until the next call. */
const char *consent_actor(const struct cli_args *args);
/* CLI_OK where --reason says why, which a dry run need not. The word of a filter is none: where
 * other commands filter by --reason, it would be lost, and more be done than was asked for. */
int consent_reason(const struct cli_args *args);
/* Asks on the terminal whether to go on; --yes is an answer. Without a terminal and without --yes
 * nothing is done. What stands against it is printed. CLI_OK to go on. */
int consent_ask(const struct cli_args *args, const char *question);
/* `n` where that many were asked about, for rp_query_check_shown; 0 with --yes. */
int64_t consent_shown(const struct cli_args *args, int64_t n);

#endif
