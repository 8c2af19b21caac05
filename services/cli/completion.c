/* SPDX-License-Identifier: Apache-2.0 */
#include "completion.h"

#include <ctype.h>
#include <string.h>

#include "dead_letter.h"

/* What an option's placeholder says that its value can be. */
static const struct {
    const char *placeholder, *words;
} choices[] = {
    {"STATUS", "dead replaying replayed discarded"},
    {"FORMAT", "table wide json"},
    {"FORM", "auto text json hex"},
    {"ORDER", "oldest newest key"},
    {"SHELL", "bash zsh"},
};

static void print_reasons(FILE *out)
{
    for (int i = 0; i < RP_N_REASONS; i++) {
        (void)fputs(i == 0 ? "" : " ", out);
        for (const char *c = rp_reason_name((enum rp_reason)i); *c != '\0'; c++)
            (void)fputc(tolower((unsigned char)*c), out);
    }
}

/* Prints the words with a space between. */
static void print_choices(FILE *out, const char *placeholder)
{
    if (strcmp(placeholder, "REASON") == 0)
        print_reasons(out);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (strcmp(choices[i].placeholder, placeholder) == 0)
            (void)fputs(choices[i].words, out);
    for (const char *c = placeholder; islower((unsigned char)placeholder[0]) && *c != '\0'; c++)
        (void)fputc(*c == '|' ? ' ' : *c, out);
}

/* Those in lower case are the words themselves: "target|router". */
static bool has_choices(const char *placeholder)
{
    if (strcmp(placeholder, "REASON") == 0 || islower((unsigned char)placeholder[0]))
        return true;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (strcmp(choices[i].placeholder, placeholder) == 0)
            return true;
    return false;
}

static bool is_file(const char *placeholder)
{
    return strstr(placeholder, "FILE") != NULL || strcmp(placeholder, "DIR") == 0;
}

/* The command is the first of its group. */
static bool begins_group(const struct cli_command *const *commands, const struct cli_command *c)
{
    for (; *commands != c; commands++)
        if ((*commands)->group != NULL && strcmp((*commands)->group, c->group) == 0)
            return false;
    return true;
}

static void print_name(FILE *out, const struct cli_command *c)
{
    (void)fprintf(out, "%s%s%s", c->group == NULL ? "" : c->group, c->group == NULL ? "" : " ",
                  c->name);
}

/* Of bash: first what there is at each place of the line, then what each option can be. */

static void bash_groups(FILE *out, const struct cli_command *const *commands)
{
    (void)fputs("    '') words='", out);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if (!(*c)->hidden && ((*c)->group == NULL || begins_group(commands, *c)))
            (void)fprintf(out, "%s ", (*c)->group == NULL ? (*c)->name : (*c)->group);
    (void)fputs("--config --help --version' ;;\n", out);
    for (const struct cli_command *const *g = commands; *g != NULL; g++) {
        if ((*g)->group == NULL || !begins_group(commands, *g))
            continue;
        (void)fprintf(out, "    '%s') words='", (*g)->group);
        for (const struct cli_command *const *c = g; *c != NULL; c++)
            if ((*c)->group != NULL && strcmp((*c)->group, (*g)->group) == 0)
                (void)fprintf(out, "%s ", (*c)->name);
        (void)fputs("--help' ;;\n", out);
    }
}

static void bash_command(FILE *out, const struct cli_command *c)
{
    (void)fputs("    '", out);
    print_name(out, c);
    (void)fputs("') words='", out);
    for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++)
        (void)fprintf(out, "--%s ", o->name);
    (void)fputs("--config --help' valued=' ", out);
    for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++)
        if (o->value != NULL)
            (void)fprintf(out, "--%s ", o->name);
    (void)fputs("' positional='", out);
    if (c->positional != NULL && has_choices(c->positional))
        print_choices(out, c->positional);
    (void)fprintf(out, "' files=%s ;;\n",
                  c->positional != NULL && is_file(c->positional) ? "1" : "");
}

static void bash_values(FILE *out, const struct cli_command *c)
{
    for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++) {
        if (o->value == NULL || (!has_choices(o->value) && !is_file(o->value)))
            continue;
        (void)fputs("    '", out);
        print_name(out, c);
        (void)fprintf(out, " --%s') ", o->name);
        if (is_file(o->value)) {
            (void)fputs("files=1 ;;\n", out);
            continue;
        }
        (void)fputs("words='", out);
        print_choices(out, o->value);
        (void)fputs("' ;;\n", out);
    }
}

void completion_bash(FILE *out, const struct cli_command *const *commands)
{
    (void)fputs(
        "# bash completion for reprise; made by `reprise completion bash`.\n"
        "_reprise()\n{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    local place='' words='' valued='' positional='' files='' word i\n"
        "    COMPREPLY=()\n"
        "    # --name=value arrives as three words.\n"
        "    if [[ $cur == = ]]; then\n        cur=\n"
        "    elif [[ $prev == = ]]; then\n        prev=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        word=${COMP_WORDS[i]}\n"
        "        if [[ $word == -c || $word == --config ]]; then\n"
        "            ((i++))\n"
        "            [[ ${COMP_WORDS[i]} != = ]] || ((i++))\n"
        "        elif [[ $word != -* ]]; then\n"
        "            place+=${place:+ }$word\n"
        "            case $place in\n"
        "            ",
        out);
    const char *bar = "";
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if ((*c)->group != NULL && begins_group(commands, *c)) {
            (void)fprintf(out, "%s%s", bar, (*c)->group);
            bar = " | ";
        }
    (void)fputs(") ;;\n            *) break ;;\n            esac\n        fi\n    done\n"
                "    case $place in\n",
                out);
    bash_groups(out, commands);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if (!(*c)->hidden)
            bash_command(out, *c);
    (void)fputs("    esac\n"
                "    if [[ $prev == -c || $prev == --config ]]; then\n"
                "        words='' files=1\n"
                "    elif [[ $valued == *\" $prev \"* ]]; then\n"
                "        words='' files=''\n"
                "        case \"$place $prev\" in\n",
                out);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if (!(*c)->hidden)
            bash_values(out, *c);
    (void)fputs("        esac\n"
                "    elif [[ $cur != -* && -n $valued ]]; then\n"
                "        words=$positional\n"
                "    else\n"
                "        files=''\n"
                "    fi\n"
                "    if [[ -n $files ]]; then\n"
                "        compopt -o filenames 2>/dev/null\n"
                "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                "    else\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                "    fi\n}\n"
                "complete -F _reprise reprise\n",
                out);
}

/* Of zsh: a function with a branch for each command, which leaves the rest to _arguments. */

/* Text between brackets of an _arguments specification, between single quotes. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", out);
        else if (strchr("[]:\\", *text) != NULL)
            (void)fprintf(out, "\\%c", *text);
        else
            (void)fputc(*text == '\n' ? ' ' : *text, out);
    }
}

static void zsh_value(FILE *out, const char *placeholder)
{
    (void)fputc(':', out);
    zsh_text(out, placeholder);
    if (has_choices(placeholder)) {
        (void)fputs(":(", out);
        print_choices(out, placeholder);
        (void)fputc(')', out);
    } else {
        (void)fputs(is_file(placeholder) ? ":_files" : ": ", out);
    }
}

static void zsh_option(FILE *out, const struct cli_option *o)
{
    const char *dots = o->value == NULL ? NULL : strstr(o->value, "...");
    (void)fprintf(out, "            '%s--%s%s[", dots != NULL ? "*" : "", o->name,
                  o->value == NULL ? "" : "=");
    zsh_text(out, o->help);
    (void)fputc(']', out);
    if (o->value != NULL)
        zsh_value(out, o->value);
    (void)fputs("' \\\n", out);
}

static void zsh_command(FILE *out, const struct cli_command *c)
{
    (void)fputs("    '", out);
    print_name(out, c);
    (void)fputs("')\n        _arguments \\\n", out);
    for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++)
        zsh_option(out, o);
    (void)fputs("            '(-c --config)'{-c,--config=}'[the configuration]:FILE:_files' \\\n"
                "            '(-h --help)'{-h,--help}'[print help, and exit]'",
                out);
    if (c->positional != NULL) {
        (void)fputs(" \\\n            '*", out);
        zsh_value(out, c->positional);
        (void)fputc('\'', out);
    }
    (void)fputs(" ;;\n", out);
}

static void zsh_names(FILE *out, const struct cli_command *const *commands, const char *group)
{
    (void)fprintf(out, "    '%s')\n        words_here=(\n", group == NULL ? "" : group);
    for (const struct cli_command *const *c = commands; *c != NULL; c++) {
        const char *name = (*c)->name, *summary = (*c)->summary;
        bool here =
            group == NULL ? !(*c)->hidden : (*c)->group != NULL && strcmp((*c)->group, group) == 0;
        if (group == NULL && (*c)->group != NULL) {
            here = begins_group(commands, *c);
            name = (*c)->group;
            summary = "a group of commands";
        }
        if (!here)
            continue;
        (void)fprintf(out, "            '%s:", name);
        zsh_text(out, summary);
        (void)fputs("'\n", out);
    }
    (void)fputs("        )\n        _describe command words_here ;;\n", out);
}

void completion_zsh(FILE *out, const struct cli_command *const *commands)
{
    (void)fputs("#compdef reprise\n"
                "# zsh completion for reprise; made by `reprise completion zsh`.\n"
                "_reprise()\n{\n"
                "    local place='' i n=1\n"
                "    local -a words_here\n"
                "    for ((i = 2; i < CURRENT; i++)); do\n"
                "        if [[ $words[i] == (-c|--config) ]]; then\n"
                "            ((i++))\n"
                "        elif [[ $words[i] != -* ]]; then\n"
                "            place+=${place:+ }$words[i]\n"
                "            n=$i\n"
                "            case $place in\n            ",
                out);
    const char *bar = "";
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if ((*c)->group != NULL && begins_group(commands, *c)) {
            (void)fprintf(out, "%s%s", bar, (*c)->group);
            bar = "|";
        }
    (void)fputs(") ;;\n            *) break ;;\n            esac\n        fi\n    done\n"
                "    words=(\"$place\" \"${(@)words[n + 1,-1]}\")\n"
                "    ((CURRENT -= n - 1))\n"
                "    case $place in\n",
                out);
    zsh_names(out, commands, NULL);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if ((*c)->group != NULL && begins_group(commands, *c))
            zsh_names(out, commands, (*c)->group);
    for (const struct cli_command *const *c = commands; *c != NULL; c++)
        if (!(*c)->hidden)
            zsh_command(out, *c);
    (void)fputs("    esac\n}\n"
                "if [[ $funcstack[1] == _reprise ]]; then\n    _reprise \"$@\"\nelse\n"
                "    compdef _reprise reprise\nfi\n",
                out);
}
