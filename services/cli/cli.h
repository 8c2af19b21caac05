/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_H
#define REPRISE_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of `reprise`. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,  /* the broker, the database or the system said no */
    CLI_USAGE = 2,   /* bad arguments or a bad configuration */
    CLI_FAULTS = 3,  /* a check found something */
    CLI_NOTHING = 4, /* nothing matched */
    CLI_PARTLY = 5,  /* some of it was done */
    CLI_REFUSED = 6, /* nobody said yes to it */
};

/* What --help and the man pages say of them; ends with a NULL text. */
struct cli_exit_code {
    enum cli_exit code;
    const char *text;
};
extern const struct cli_exit_code cli_exit_codes[];

struct cli_option {
    const char *name;  /* without the dashes: "success" */
    const char *value; /* the placeholder: "P"; "P...": any number of them; NULL: a switch */
    const char *help;
};
bool cli_is_repeatable(const struct cli_option *option);

#define CLI_MAX_OPTIONS 56

/* One value of an option that may come any number of times. */
struct cli_given {
    size_t option; /* its place among the command's */
    const char *value;
};

/* A command's parsed arguments, borrowed from argv. */
struct cli_args {
    const struct cli_command *command;
    const char *config_file; /* --config, else $REPRISE_CONFIG, else reprise.yaml; never NULL */
    const char *values[CLI_MAX_OPTIONS]; /* by the option's place; a given switch is "" */
    struct cli_given *given;             /* of the options with many values, in argv's order */
    size_t n_given;
    const char *const *positional;
    size_t n_positional;
};

/* One command. The table of all of them is the only source of parsing, --help, man pages and
 * completion. `options` ends with a NULL name. */
struct cli_command {
    const char *group, *name; /* "policy" "explain"; group NULL: a command of its own ("fail") */
    const char *positional;   /* as in the synopsis: "JOB RATE"; "[FILE]": or none; NULL: none */
    const char *summary;      /* one line */
    const char *about;        /* paragraphs for --help; may be NULL */
    const struct cli_option *options;        /* NULL: none */
    bool hidden;                             /* is for the build, and shown nowhere */
    int (*run)(const struct cli_args *args); /* returns an exit code */
};

/* Finds the command in `commands` (which ends with NULL), parses its arguments and runs it, or
 * prints the help that was asked for, or what is wrong. Returns the exit code. */
int cli_main(const struct cli_command *const *commands, int argc, char **argv);

/* Help on a command, on the commands of a group, on all of them. */
void cli_help_command(FILE *out, const struct cli_command *command);
void cli_help_group(FILE *out, const struct cli_command *const *commands, const char *group);
void cli_help_all(FILE *out, const struct cli_command *const *commands);

/* Whether the command knows an option of this name. */
bool cli_has_option(const struct cli_args *args, const char *option);
/* The value of an option, NULL where it was not given. The name must be one of the command's. */
const char *cli_value(const struct cli_args *args, const char *option);
/* Value number `n` (from 0) of an option that may come any number of times, NULL where there are
 * not as many. */
const char *cli_value_at(const struct cli_args *args, const char *option, size_t n);

/* Loads the configuration that the arguments name; the caller's to free. NULL when it cannot be
 * used: every fault is printed, and the command ends with CLI_USAGE. */
struct rp_config;
struct rp_config *cli_config_load(const struct cli_args *args);

/* Prints "reprise: ..." on stderr, as one line that is safe for a terminal. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Says, on stderr, that there may be more than the limit of a list of `n` let through. */
void cli_tell_limit(int64_t n, int64_t limit);

/* All commands, in the order of --help. Ends with NULL. */
extern const struct cli_command *const cli_commands[];

/* Each is defined in its cmd_*.c and listed in commands.c. */
extern const struct cli_command cmd_policy_explain, cmd_policy_check;
extern const struct cli_command cmd_topics_apply, cmd_topics_check;
extern const struct cli_command cmd_db_migrate, cmd_db_check;
extern const struct cli_command cmd_fail;
extern const struct cli_command cmd_completion, cmd_man;
extern const struct cli_command cmd_dlq_edit;
extern const struct cli_command cmd_dlq_list, cmd_dlq_groups, cmd_dlq_show, cmd_dlq_stats;
extern const struct cli_command cmd_dlq_count, cmd_dlq_tail, cmd_dlq_discard, cmd_dlq_purge;
extern const struct cli_command cmd_dlq_export, cmd_dlq_import, cmd_help;
extern const struct cli_command cmd_dlq_replay;
extern const struct cli_command cmd_replay_list, cmd_replay_show, cmd_replay_pause,
    cmd_replay_resume;
extern const struct cli_command cmd_replay_cancel, cmd_replay_rate;

#endif
