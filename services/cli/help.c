/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <string.h>

static const char common_options[] =
    "  -c, --config FILE    the configuration (default: $REPRISE_CONFIG, else reprise.yaml)\n"
    "  -h, --help           print this, and exit\n";

const struct cli_exit_code cli_exit_codes[] = {
    {CLI_OK, "done"},
    {CLI_FAILED, "the broker, the database or the system said no"},
    {CLI_USAGE, "bad arguments or a bad configuration"},
    {CLI_FAULTS, "a check found something"},
    {CLI_NOTHING, "nothing matched"},
    {CLI_PARTLY, "some of it was done"},
    {CLI_REFUSED, "nobody said yes to it"},
    {CLI_OK, NULL},
};

static void print_exit_codes(FILE *out)
{
    (void)fputs("Exit codes:\n", out);
    for (const struct cli_exit_code *e = cli_exit_codes; e->text != NULL; e++)
        (void)fprintf(out, "  %d  %s\n", e->code, e->text);
}

static int option_text(const struct cli_option *o, char *out, size_t size)
{
    return snprintf(out, size, "--%s%s%s", o->name, o->value == NULL ? "" : " ",
                    o->value == NULL ? "" : o->value);
}

static void print_options(FILE *out, const struct cli_option *options)
{
    char left[64];
    int width = 16;
    for (const struct cli_option *o = options; o != NULL && o->name != NULL; o++) {
        int n = option_text(o, left, sizeof left);
        width = n > width && n < 32 ? n : width;
    }
    for (const struct cli_option *o = options; o != NULL && o->name != NULL; o++) {
        (void)option_text(o, left, sizeof left);
        (void)fprintf(out, "      %-*s %s\n", width, left, o->help);
    }
}

void cli_help_command(FILE *out, const struct cli_command *c)
{
    (void)fprintf(out, "Usage: reprise %s%s%s [OPTION...]%s%s\n%s\n\n",
                  c->group == NULL ? "" : c->group, c->group == NULL ? "" : " ", c->name,
                  c->positional == NULL ? "" : " ", c->positional == NULL ? "" : c->positional,
                  c->summary);
    if (c->about != NULL)
        (void)fprintf(out, "%s\n\n", c->about);
    (void)fputs("Options:\n", out);
    print_options(out, c->options);
    (void)fprintf(out, "%s\n", common_options);
    print_exit_codes(out);
}

static void print_command(FILE *out, const struct cli_command *c)
{
    char left[64];
    (void)snprintf(left, sizeof left, "%s%s%s", c->group == NULL ? "" : c->group,
                   c->group == NULL ? "" : " ", c->name);
    (void)fprintf(out, "  %-16s %s\n", left, c->summary);
}

void cli_help_group(FILE *out, const struct cli_command *const *commands, const char *group)
{
    (void)fprintf(out, "Usage: reprise %s COMMAND [OPTION...]\n\nCommands:\n", group);
    for (; *commands != NULL; commands++)
        if ((*commands)->group != NULL && strcmp((*commands)->group, group) == 0)
            print_command(out, *commands);
    (void)fprintf(out, "\n'reprise %s COMMAND --help' says more of one.\n", group);
}

void cli_help_all(FILE *out, const struct cli_command *const *commands)
{
    (void)fputs("Usage: reprise COMMAND [OPTION...]\n"
                "Operates a retry pipeline for Kafka.\n\nCommands:\n",
                out);
    for (; *commands != NULL; commands++)
        if (!(*commands)->hidden)
            print_command(out, *commands);
    (void)fprintf(out,
                  "\nOptions:\n%s"
                  "  -V, --version        print the version, and exit\n\n"
                  "'reprise COMMAND --help' says more of one.\n\n",
                  common_options);
    print_exit_codes(out);
}
