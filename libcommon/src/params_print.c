/* SPDX-License-Identifier: Apache-2.0 */
#include "params.h"

#include <string.h>

#define INDENT 4
#define WIDTH  96

/* Breaks a text into lines, each indented. */
static void print_wrapped(const char *text, FILE *out)
{
    size_t column = 0;
    for (const char *word = text; *word != '\0';) {
        size_t n = strcspn(word, " ");
        if (column > 0 && column + 1 + n > WIDTH) {
            (void)fputc('\n', out);
            column = 0;
        }
        column += n + (column == 0 ? INDENT : 1);
        (void)fprintf(out, "%*s%.*s", column == n + INDENT ? INDENT : 1, "", (int)n, word);
        word += n + (word[n] == ' ');
    }
    (void)fputc('\n', out);
}

static void print_one(const struct rp_param *p, const char *path, FILE *out)
{
    char text[RP_EXPECTED_TEXT + 128], expected[RP_EXPECTED_TEXT];
    rp_params_expected(p, expected);
    if (p->required)
        (void)snprintf(text, sizeof text, "%s; must be stated", expected);
    else if (p->def == NULL)
        (void)snprintf(text, sizeof text, "%s", expected);
    else
        (void)snprintf(text, sizeof text, "%s; default: %s", expected,
                       *p->def == '\0' ? "empty" : p->def);
    (void)fprintf(out, "%s\n", path);
    print_wrapped(text, out);
    print_wrapped(p->about, out);
}

/* What is in a mapping of names has the name's place in its path: policies.NAME.target. */
static void print(const struct rp_param *params, const char *prefix, FILE *out)
{
    for (const struct rp_param *p = params; p->key != NULL; p++) {
        char path[128];
        int n = snprintf(path, sizeof path, "%s%s", prefix, p->key);
        if (p->type != RP_P_MAP || p->about != NULL)
            print_one(p, path, out);
        if (p->fields != NULL) {
            (void)snprintf(path + n, sizeof path - (size_t)n,
                           p->type == RP_P_SPECIAL ? ".NAME." : ".");
            print(p->fields, path, out);
        }
    }
}

void rp_params_print(const struct rp_param *params, FILE *out)
{
    print(params, "", out);
}
