/* SPDX-License-Identifier: Apache-2.0 */
#include "roff.h"

#include <stdbool.h>
#include <string.h>

static void put_escaped(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\')
            (void)fputs("\\e", out);
        else if (text[i] == '-')
            (void)fputs("\\-", out);
        else if (text[i] == '\'' || text[i] == '`' || text[i] == '^' || text[i] == '~')
            (void)fprintf(out, "\\(%s",
                          text[i] == '\''  ? "aq"
                          : text[i] == '`' ? "ga"
                          : text[i] == '^' ? "ha"
                                           : "ti");
        else
            (void)fputc(text[i], out);
    }
}

void roff_words(FILE *out, const char *text)
{
    put_escaped(out, text, strlen(text));
}

/* A line of its own, whatever it begins with. */
static void put_line(FILE *out, const char *text, size_t n)
{
    if (n > 0 && text[0] == '.')
        (void)fputs("\\&", out);
    put_escaped(out, text, n);
    (void)fputc('\n', out);
}

void roff_text(FILE *out, const char *text)
{
    bool as_it_is = false, begin = false;
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        if (n > 0 && (*text == ' ') != as_it_is) {
            as_it_is = !as_it_is;
            (void)fputs(as_it_is ? ".PP\n.nf\n" : ".fi\n.PP\n", out);
        } else if (n > 0 && begin && !as_it_is) {
            (void)fputs(".PP\n", out);
        } else if (n > 0 && begin) {
            (void)fputc('\n', out);
        }
        begin = n == 0;
        if (n > 0)
            put_line(out, text, n);
        text += n + (text[n] == '\n');
    }
    if (as_it_is)
        (void)fputs(".fi\n", out);
}

void roff_item(FILE *out, const char *bold, const char *italic)
{
    (void)fputs(".TP\n\\fB", out);
    roff_words(out, bold);
    (void)fputs("\\fR", out);
    if (italic != NULL) {
        (void)fputs(" \\fI", out);
        roff_words(out, italic);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
}
