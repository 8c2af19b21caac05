/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "suggest.h"
#include "term.h"

/* What is left of argv. */
struct words {
    char **next;
    int n;
};

static char *take(struct words *w)
{
    if (w->n == 0)
        return NULL;
    w->n--;
    return *w->next++;
}

void cli_error(const char *fmt, ...)
{
    struct rp_buf line = {0};
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)term_line(&line, rp_str(text), SIZE_MAX);
    (void)fprintf(stderr, "reprise: %.*s\n", (int)line.len,
                  line.data == NULL ? "" : (const char *)line.data);
    rp_buf_clear(&line);
}

void cli_tell_limit(int64_t n, int64_t limit)
{
    if (n >= limit)
        cli_error("there may be more than these %" PRId64 ": --limit N", limit);
}

static int bad_word(const char *what, const struct rp_suggestion *s, const char *dashes)
{
    if (s->best != NULL)
        cli_error("unknown %s '%s': did you mean '%s%s'?", what, s->wrong, dashes, s->best);
    else
        cli_error("unknown %s '%s'; --help lists what there is", what, s->wrong);
    return CLI_USAGE;
}

static size_t find_option(const struct cli_command *c, const char *name, size_t n)
{
    size_t i = 0;
    while (c->options != NULL && c->options[i].name != NULL) {
        assert(i < CLI_MAX_OPTIONS);
        if (strlen(c->options[i].name) == n && memcmp(c->options[i].name, name, n) == 0)
            return i;
        i++;
    }
    return CLI_MAX_OPTIONS;
}

bool cli_has_option(const struct cli_args *args, const char *option)
{
    return find_option(args->command, option, strlen(option)) < CLI_MAX_OPTIONS;
}

const char *cli_value(const struct cli_args *args, const char *option)
{
    size_t i = find_option(args->command, option, strlen(option));
    assert(i < CLI_MAX_OPTIONS);
    return args->values[i];
}

bool cli_is_repeatable(const struct cli_option *o)
{
    size_t n = o->value == NULL ? 0 : strlen(o->value);
    return n > 3 && strcmp(o->value + n - 3, "...") == 0;
}

const char *cli_value_at(const struct cli_args *args, const char *option, size_t n)
{
    size_t i = find_option(args->command, option, strlen(option));
    assert(i < CLI_MAX_OPTIONS && cli_is_repeatable(&args->command->options[i]));
    for (size_t g = 0; g < args->n_given; g++)
        if (args->given[g].option == i && n-- == 0)
            return args->given[g].value;
    return NULL;
}

static int unknown_option(const struct cli_command *c, const char *word)
{
    char name[64];
    struct rp_suggestion s = {.wrong = name};
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++)
        rp_suggest(&s, o->name);
    rp_suggest(&s, "config");
    rp_suggest(&s, "help");
    s.wrong = word;
    return bad_word("option", &s, "--");
}

/* The value behind "--name": after its "=", or the next word. */
static int take_value(const char *word, struct words *w, const char **out)
{
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    *out = equals != NULL ? equals + 1 : take(w);
    if (*out != NULL)
        return CLI_OK;
    cli_error("option '%s' needs a value", word);
    return CLI_USAGE;
}

static int parse_option(struct cli_args *args, const char *word, struct words *w)
{
    size_t n = word[1] == '-' ? strcspn(word + 2, "=") : 0;
    if (strcmp(word, "-c") == 0 || (n == 6 && memcmp(word + 2, "config", n) == 0))
        return take_value(word, w, &args->config_file);
    if (n == 0) {
        cli_error("unknown option '%s'; --help lists what there is", word);
        return CLI_USAGE;
    }
    size_t i = find_option(args->command, word + 2, n);
    if (i == CLI_MAX_OPTIONS)
        return unknown_option(args->command, word);
    bool repeatable = cli_is_repeatable(&args->command->options[i]);
    if (args->values[i] != NULL && !repeatable) {
        cli_error("option '--%s' is given twice", args->command->options[i].name);
        return CLI_USAGE;
    }
    if (args->command->options[i].value != NULL) {
        int rc = take_value(word, w, &args->values[i]);
        if (rc == CLI_OK && repeatable)
            args->given[args->n_given++] = (struct cli_given){i, args->values[i]};
        return rc;
    }
    args->values[i] = "";
    if (word[2 + n] == '\0')
        return CLI_OK;
    cli_error("option '--%s' takes no value", args->command->options[i].name);
    return CLI_USAGE;
}

/* How many words the synopsis has; those in brackets may be left out. */
static size_t count_words(const char *synopsis, bool needed)
{
    size_t n = 0;
    for (const char *word = synopsis, *space; word != NULL; word = space) {
        n += !needed || word[0] != '[';
        space = strchr(word, ' ');
        if (space != NULL)
            space++;
    }
    return n;
}

static int check_arguments(const struct cli_args *args)
{
    const struct cli_command *c = args->command;
    size_t most = count_words(c->positional, false);
    if (args->n_positional < count_words(c->positional, true)) {
        cli_error("%s is missing", c->positional);
        return CLI_USAGE;
    }
    if (args->n_positional > most) {
        cli_error("unexpected argument '%s'", args->positional[most]);
        return CLI_USAGE;
    }
    return CLI_OK;
}

static bool is_help(const char *word)
{
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

/* Parses what is behind the command's name; positional words go to the front of `room`. */
static int parse_and_run(struct cli_args *args, struct words *w, const char **room)
{
    bool options_end = false;
    args->positional = room;
    for (char *word; (word = take(w)) != NULL;) {
        if (options_end || word[0] != '-' || word[1] == '\0') {
            room[args->n_positional++] = word;
        } else if (strcmp(word, "--") == 0) {
            options_end = true;
        } else if (is_help(word)) {
            cli_help_command(stdout, args->command);
            return CLI_OK;
        } else if (parse_option(args, word, w) != CLI_OK) {
            return CLI_USAGE;
        }
    }
    int rc = check_arguments(args);
    return rc != CLI_OK ? rc : args->command->run(args);
}

static const struct cli_command *find_command(const struct cli_command *const *commands,
                                              const char *group, const char *name)
{
    for (; *commands != NULL; commands++) {
        const char *g = (*commands)->group;
        bool same = g == NULL || group == NULL ? g == group : strcmp(g, group) == 0;
        if (same && strcmp((*commands)->name, name) == 0)
            return *commands;
    }
    return NULL;
}

static bool has_group(const struct cli_command *const *commands, const char *group)
{
    for (; *commands != NULL; commands++)
        if ((*commands)->group != NULL && strcmp((*commands)->group, group) == 0)
            return true;
    return false;
}

static int unknown_command(const struct cli_command *const *commands, const char *group,
                           const char *wrong)
{
    struct rp_suggestion s = {.wrong = wrong};
    for (; *commands != NULL; commands++) {
        const char *g = (*commands)->group;
        if (group == NULL)
            rp_suggest(&s, g == NULL ? (*commands)->name : g);
        else if (g != NULL && strcmp(g, group) == 0)
            rp_suggest(&s, (*commands)->name);
    }
    return bad_word("command", &s, "");
}

static int run_command(const struct cli_command *c, const char *config_file, struct words *w)
{
    struct cli_args args = {.command = c, .config_file = config_file};
    /* No word can be more than one of these. */
    const char **room = calloc((size_t)w->n + 1, sizeof *room);
    args.given = calloc((size_t)w->n + 1, sizeof *args.given);
    int rc = CLI_FAILED;
    if (room == NULL || args.given == NULL)
        cli_error("no memory");
    else
        rc = parse_and_run(&args, w, room);
    free(args.given);
    free(room);
    return rc;
}

/* An option in front of the command, where there is but --config. */
static int parse_config(const char *word, struct words *w, const char **config_file)
{
    struct cli_args args = {.command = &(struct cli_command){.name = ""}};
    int rc = parse_option(&args, word, w);
    if (rc == CLI_OK)
        *config_file = args.config_file;
    return rc;
}

/* The word behind a group: its command, or a wish for help. */
static int run_in_group(const struct cli_command *const *commands, const char *group,
                        const char *config_file, struct words *w)
{
    const char *name;
    while ((name = take(w)) != NULL && name[0] == '-' && !is_help(name))
        if (parse_config(name, w, &config_file) != CLI_OK)
            return CLI_USAGE;
    if (name == NULL || is_help(name)) {
        cli_help_group(name == NULL ? stderr : stdout, commands, group);
        return name == NULL ? CLI_USAGE : CLI_OK;
    }
    const struct cli_command *c = find_command(commands, group, name);
    return c == NULL ? unknown_command(commands, group, name) : run_command(c, config_file, w);
}

int cli_main(const struct cli_command *const *commands, int argc, char **argv)
{
    struct words w = {argv + 1, argc - 1};
    const char *config_file = getenv("REPRISE_CONFIG"), *word;
    if (config_file == NULL)
        config_file = "reprise.yaml";
    while ((word = take(&w)) != NULL && word[0] == '-') {
        if (is_help(word)) {
            cli_help_all(stdout, commands);
            return CLI_OK;
        }
        if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) {
            (void)printf("reprise %s\n", REPRISE_VERSION);
            return CLI_OK;
        }
        if (parse_config(word, &w, &config_file) != CLI_OK)
            return CLI_USAGE;
    }
    if (word == NULL) {
        cli_help_all(stderr, commands);
        return CLI_USAGE;
    }
    if (has_group(commands, word))
        return run_in_group(commands, word, config_file, &w);
    const struct cli_command *c = find_command(commands, NULL, word);
    return c == NULL ? unknown_command(commands, NULL, word) : run_command(c, config_file, &w);
}
