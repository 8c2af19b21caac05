/* SPDX-License-Identifier: Apache-2.0 */
#include "man.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config_table.h"
#include "roff.h"

#define MAX_NAME 64

struct service {
    const char *name, *about;
};

static const struct service services[] = {
    {"router", "Takes failure events and parks each task until its retry is due."},
    {"delayer", "Holds each parked task until it is due, then re-invokes its handler."},
    {"archiver", "Archives dead letters in PostgreSQL, each once, and drops the old ones."},
};
#define N_SERVICES (sizeof services / sizeof *services)

static void put_item(FILE *out, const char *name, const char *text)
{
    roff_item(out, name, NULL);
    roff_text(out, text);
}

/* The title line, and NAME. */
static void put_head(FILE *out, const char *name, int section, const char *summary)
{
    char upper[MAX_NAME];
    size_t n = 0;
    for (; name[n] != '\0' && n < sizeof upper - 1; n++)
        upper[n] = (char)toupper((unsigned char)name[n]);
    upper[n] = '\0';
    (void)fprintf(out, ".TH \"%s\" \"%d\" \"%s\" \"reprise %s\" \"reprise\"\n.SH NAME\n", upper,
                  section, REPRISE_DATE, REPRISE_VERSION);
    roff_words(out, name);
    (void)fputs(" \\- ", out);
    roff_words(out, summary);
    (void)fputc('\n', out);
}

static bool is_in(const struct cli_command *c, const char *group, const char *name)
{
    if (group == NULL)
        return c->group == NULL && strcmp(c->name, name) == 0;
    return c->group != NULL && strcmp(c->group, group) == 0;
}

static void put_synopsis(FILE *out, const struct cli_command *c)
{
    (void)fputs("\\fBreprise ", out);
    if (c->group != NULL) {
        roff_words(out, c->group);
        (void)fputc(' ', out);
    }
    roff_words(out, c->name);
    (void)fputs("\\fR [\\fIOPTION\\fR...]", out);
    if (c->positional != NULL) {
        (void)fputs(" \\fI", out);
        roff_words(out, c->positional);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
}

static void put_options(FILE *out, const struct cli_option *options)
{
    for (const struct cli_option *o = options; o != NULL && o->name != NULL; o++) {
        char name[MAX_NAME];
        (void)snprintf(name, sizeof name, "--%s", o->name);
        roff_item(out, name, o->value);
        roff_words(out, o->help);
        (void)fputc('\n', out);
    }
}

static void put_common(FILE *out)
{
    roff_item(out, "-c, --config", "FILE");
    roff_text(out, "the configuration (default: $REPRISE_CONFIG, else reprise.yaml)\n");
    put_item(out, "-h, --help", "print help, and exit\n");
}

static void put_exit_codes(FILE *out)
{
    (void)fputs(".SH EXIT STATUS\n", out);
    for (const struct cli_exit_code *e = cli_exit_codes; e->text != NULL; e++) {
        char code[16];
        (void)snprintf(code, sizeof code, "%d", e->code);
        roff_item(out, code, NULL);
        roff_text(out, e->text);
    }
}

static void put_environment(FILE *out)
{
    (void)fputs(".SH ENVIRONMENT\n", out);
    put_item(out, "REPRISE_CONFIG", "the configuration, where no --config names one\n");
    put_item(out, "NO_COLOR", "no colours, even on a terminal\n");
    put_item(out, "REPRISE_ACTOR", "who acts, for the audit; else who called sudo, or the user\n");
    put_item(out, "PAGER",
             "shows what may be longer than the terminal; empty or cat: nothing does\n");
    put_item(out, "VISUAL", "or EDITOR: what `dlq edit' opens the payload with\n");
    put_item(out, "TMPDIR", "where the file for the editor is made; else /tmp\n");
}

static void put_command(FILE *out, const struct cli_command *c)
{
    (void)fputs(".SS ", out);
    put_synopsis(out, c);
    roff_text(out, c->summary);
    if (c->about != NULL) {
        (void)fputs(".PP\n", out);
        roff_text(out, c->about);
    }
    put_options(out, c->options);
}

static void put_see_also(FILE *out, const char *pages)
{
    (void)fprintf(out, ".SH SEE ALSO\n%s\n", pages);
}

void man_commands(FILE *out, const struct cli_command *const *commands, const char *group,
                  const char *name)
{
    char title[MAX_NAME], summary[128];
    (void)snprintf(title, sizeof title, "reprise-%s", group == NULL ? name : group);
    (void)snprintf(summary, sizeof summary, "the %s%s of reprise", group == NULL ? name : group,
                   group == NULL ? " command" : " commands");
    put_head(out, title, 1, summary);
    (void)fputs(".SH SYNOPSIS\n.nf\n", out);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if (is_in(*c, group, name))
            put_synopsis(out, *c);
    (void)fputs(".fi\n.SH DESCRIPTION\n", out);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if (is_in(*c, group, name))
            put_command(out, *c);
    (void)fputs(".SH COMMON OPTIONS\n", out);
    put_common(out);
    put_exit_codes(out);
    put_environment(out);
    put_see_also(out, "\\fBreprise\\fR(1), \\fBreprise.yaml\\fR(5)");
}

/* Whether the command is the first one of its page. */
static bool begins_page(const struct cli_command *const *commands, const struct cli_command *c)
{
    for (; *commands != c; commands++)
        if (c->group != NULL && (*commands)->group != NULL &&
            strcmp((*commands)->group, c->group) == 0)
            return false;
    return !c->hidden;
}

void man_overview(FILE *out, const struct cli_command *const *commands)
{
    put_head(out, "reprise", 1, "operate a retry pipeline for Kafka");
    (void)fputs(".SH SYNOPSIS\n\\fBreprise\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n"
                ".SH DESCRIPTION\n",
                out);
    roff_text(out, "Topics, policies, the archive of dead letters, and their replay. Each group of"
                   " commands has a page of its own.");
    (void)fputs(".SH COMMANDS\n", out);
    for (const struct cli_command *const *c = commands; *c != NULL; c++) {
        char name[MAX_NAME];
        if ((*c)->hidden)
            continue;
        (void)snprintf(name, sizeof name, "%s%s%s", (*c)->group == NULL ? "" : (*c)->group,
                       (*c)->group == NULL ? "" : " ", (*c)->name);
        roff_item(out, name, NULL);
        roff_text(out, (*c)->summary);
    }
    (void)fputs(".SH OPTIONS\n", out);
    put_common(out);
    put_item(out, "-V, --version", "print the version, and exit\n");
    put_exit_codes(out);
    put_environment(out);
    (void)fputs(".SH SEE ALSO\n", out);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if (begins_page(commands, *c)) {
            (void)fputs("\\fBreprise\\-", out);
            roff_words(out, (*c)->group == NULL ? (*c)->name : (*c)->group);
            (void)fputs("\\fR(1),\n", out);
        }
    for (size_t i = 0; i < N_SERVICES; i++)
        (void)fprintf(out, "\\fBreprise\\-%s\\fR(8),\n", services[i].name);
    (void)fputs("\\fBreprise.yaml\\fR(5)\n", out);
}

/* What is in a mapping of names has the name's place in its path: policies.NAME.target. */
static void put_params(FILE *out, const struct rp_param *params, const char *prefix)
{
    for (const struct rp_param *p = params; p->key != NULL; p++) {
        char path[128], expected[RP_EXPECTED_TEXT];
        int n = snprintf(path, sizeof path, "%s%s", prefix, p->key);
        if (p->type != RP_P_MAP || p->about != NULL) {
            roff_item(out, path, NULL);
            rp_params_expected(p, expected);
            roff_words(out, expected);
            if (p->required)
                (void)fputs("; must be stated", out);
            else if (p->def != NULL) {
                (void)fputs("; default: ", out);
                roff_words(out, *p->def == '\0' ? "empty" : p->def);
            }
            (void)fputs("\n.br\n", out);
            roff_text(out, p->about);
        }
        if (p->fields != NULL && n > 0 && (size_t)n < sizeof path) {
            (void)snprintf(path + n, sizeof path - (size_t)n,
                           p->type == RP_P_SPECIAL ? ".NAME." : ".");
            put_params(out, p->fields, path);
        }
    }
}

void man_config(FILE *out)
{
    put_head(out, "reprise.yaml", 5, "configuration of reprise");
    (void)fputs(".SH DESCRIPTION\n", out);
    roff_text(out,
              "One YAML file for all services and the command line. A key that is not known, or a"
              " value that is not expected, stops the start, with file and line. In a value,"
              " ${env:NAME} stands for an environment variable, and ${file:PATH} for what is in a"
              " file.\n\n`reprise policy check FILE` finds every fault.");
    (void)fputs(".SH PARAMETERS\n", out);
    put_params(out, rp_config_params, "");
    put_see_also(out, "\\fBreprise\\fR(1)");
}

static void put_service(FILE *out, const struct service *s)
{
    char name[MAX_NAME];
    (void)snprintf(name, sizeof name, "reprise-%s", s->name);
    put_head(out, name, 8, "a service of reprise");
    (void)fputs(".SH SYNOPSIS\n\\fB", out);
    roff_words(out, name);
    (void)fputs("\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n", out);
    roff_text(out, s->about);
    (void)fputs(".SH OPTIONS\n", out);
    put_common(out);
    put_item(out, "--check", "check the configuration, print every fault, and exit");
    put_item(out, "--reference", "print all parameters of the configuration, and exit");
    put_item(out, "-V, --version", "print the version, and exit");
    (void)fputs(".SH SIGNALS\n", out);
    put_item(out, "SIGTERM, SIGINT",
             "stop intake, finish what is in hand, commit, exit; a second one exits at once");
    put_item(out, "SIGHUP", "load the policies anew; a bad file is refused, and the old ones stay");
    (void)fputs(".SH EXIT STATUS\n", out);
    static const char *const codes[] = {"drained", "failed", "usage or configuration",
                                        "drain abandoned"};
    for (int i = 0; i < 4; i++) {
        char code[16];
        (void)snprintf(code, sizeof code, "%d", i);
        roff_item(out, code, NULL);
        roff_text(out, codes[i]);
    }
    put_see_also(out, "\\fBreprise\\fR(1), \\fBreprise.yaml\\fR(5)");
}

static FILE *open_page(const char *dir, const char *name, int section)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.%d", dir, name, section) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    FILE *out = fopen(path, "we");
    if (out != NULL)
        (void)fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n", out);
    return out;
}

static bool close_page(FILE *out)
{
    bool good = !ferror(out);
    return fclose(out) == 0 && good;
}

static bool write_commands(const struct cli_command *const *commands, const char *dir)
{
    for (const struct cli_command *const *c = commands; *c != NULL; c++) {
        char name[MAX_NAME];
        if (!begins_page(commands, *c))
            continue;
        (void)snprintf(name, sizeof name, "reprise-%s",
                       (*c)->group == NULL ? (*c)->name : (*c)->group);
        FILE *out = open_page(dir, name, 1);
        if (out == NULL)
            return false;
        man_commands(out, commands, (*c)->group, (*c)->name);
        if (!close_page(out))
            return false;
    }
    return true;
}

static bool write_services(const char *dir)
{
    for (size_t i = 0; i < N_SERVICES; i++) {
        char name[MAX_NAME];
        (void)snprintf(name, sizeof name, "reprise-%s", services[i].name);
        FILE *out = open_page(dir, name, 8);
        if (out == NULL)
            return false;
        put_service(out, &services[i]);
        if (!close_page(out))
            return false;
    }
    return true;
}

static bool write_others(const struct cli_command *const *commands, const char *dir)
{
    FILE *out = open_page(dir, "reprise", 1);
    if (out == NULL)
        return false;
    man_overview(out, commands);
    if (!close_page(out) || (out = open_page(dir, "reprise.yaml", 5)) == NULL)
        return false;
    man_config(out);
    return close_page(out);
}

int man_write(const struct cli_command *const *commands, const char *dir)
{
    if (write_commands(commands, dir) && write_services(dir) && write_others(commands, dir))
        return CLI_OK;
    cli_error("cannot write into %s: %s", dir, strerror(errno));
    return CLI_FAILED;
}
