/* SPDX-License-Identifier: Apache-2.0 */
#include "shell_words.h"

#include <stdlib.h>
#include <string.h>

#include "term.h"

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "_-./:,=@%+";

static void print_word(FILE *out, const char *word)
{
    struct rp_buf line = {0};
    bool quote = *word == '\0' || strspn(word, plain) < strlen(word);
    (void)term_line(&line, rp_str(word), SIZE_MAX);
    (void)fputs(quote ? " '" : " ", out);
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] == '\'')
            (void)fputs("'\\''", out);
        else
            (void)fputc(line.data[i], out);
    (void)fputs(quote ? "'" : "", out);
    rp_buf_clear(&line);
}

static void print_option(FILE *out, const struct cli_option *option, const char *value)
{
    (void)fprintf(out, " --%s", option->name);
    if (option->value != NULL)
        print_word(out, value);
}

/* Only if it is another than would be found without it. */
static void print_config(FILE *out, const char *file)
{
    const char *found = getenv("REPRISE_CONFIG");
    if (strcmp(file, found == NULL ? "reprise.yaml" : found) == 0)
        return;
    (void)fputs(" --config", out);
    print_word(out, file);
}

void shell_words_print(FILE *out, const struct cli_args *args, const char *without)
{
    const struct cli_command *c = args->command;
    (void)fprintf(out, "reprise%s%s %s", c->group == NULL ? "" : " ",
                  c->group == NULL ? "" : c->group, c->name);
    print_config(out, args->config_file);
    for (size_t i = 0; c->options[i].name != NULL; i++) {
        const struct cli_option *o = &c->options[i];
        bool many = cli_is_repeatable(o);
        const char *value = many ? NULL : args->values[i];
        if (value != NULL && strcmp(o->name, without) != 0)
            print_option(out, o, value);
        for (size_t n = 0; many && (value = cli_value_at(args, o->name, n)) != NULL; n++)
            print_option(out, o, value);
    }
    for (size_t i = 0; i < args->n_positional; i++)
        print_word(out, args->positional[i]);
}
