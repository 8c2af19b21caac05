/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_REPLAY_ARGS_H
#define REPRISE_CLI_REPLAY_ARGS_H

#include "cli.h"
#include "replay_options.h"

/* How a replay goes about its work, as options of the command line. */
#define REPLAY_OPTIONS                                                                             \
    {.name = "rate", .value = "N", .help = "tasks a second (default: as fast as it goes)"},        \
        {.name = "limit", .value = "N", .help = "so many at most, in the order"},                  \
        {.name = "order", .value = "ORDER", .help = "oldest (default), newest, or key"},           \
        {.name = "to",                                                                             \
         .value = "WHERE",                                                                         \
         .help = "target (default): the task again; router: its failure, for today's policies"},   \
        {.name = "send-to",                                                                        \
         .value = "TOPIC",                                                                         \
         .help = "to this topic instead of the task's target"},                                    \
        {.name = "canary", .value = "N", .help = "send N first, and see what becomes of them"},    \
        {.name = "canary-wait",                                                                    \
         .value = "DURATION",                                                                      \
         .help = "how long they have to come back dead (default: 60s)"},                           \
        {.name = "canary-share",                                                                   \
         .value = "SHARE",                                                                         \
         .help = "stop where more than this share of them did: 10%, 0.1 (default: 0)"},            \
        {.name = "stop-if-dead",                                                                   \
         .value = "SHARE",                                                                         \
         .help = "stop as soon as more than this share of what was sent came back dead"},          \
        {.name = "max-replays",                                                                    \
         .value = "N",                                                                             \
         .help = "hold back what was replayed so often already (default: 3)"},                     \
        {.name = "jq", .value = "PROGRAM|@FILE", .help = "transform each message"},                \
        {.name = "payload-schema",                                                                 \
         .value = "FILE",                                                                          \
         .help = "the Avro schema of payloads, for --jq, where no registry has it"},               \
        {.name = "set-header", .value = "NAME=VALUE...", .help = "set a header of each message"},  \
    {                                                                                              \
        .name = "success-within", .value = "DURATION",                                             \
        .help = "what has not come back dead by then has succeeded, says `replay show`"            \
    }

/* Reads them; what cannot be read is printed. CLI_OK: clear `out`. */
int replay_args_read(const struct cli_args *args, struct rp_replay_options *out, double *out_rate);

/* Tasks a second; 0 for "none". */
bool replay_rate_parse(const char *text, double *out);

#endif
