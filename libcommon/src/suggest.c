/* SPDX-License-Identifier: Apache-2.0 */
#include "suggest.h"

#include <stdio.h>
#include <string.h>

#define LONGEST 63u

/* Levenshtein's distance, with one row of its table kept at a time. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LONGEST + 1], n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t least = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = changed <= least ? changed : least + 1;
        }
    }
    return row[n];
}

void rp_suggest(struct rp_suggestion *s, const char *word)
{
    size_t n = strlen(s->wrong), m = strlen(word);
    if (n == 0 || n > LONGEST || m > LONGEST)
        return;
    size_t d = distance(s->wrong, word);
    if (m > n && strncmp(s->wrong, word, n) == 0)
        d = 1; /* a beginning is as good as a slip */
    if (d > 2 || d >= m || (s->best != NULL && d >= s->distance))
        return;
    s->best = word;
    s->distance = d;
}

char *rp_suggestion_hint(const struct rp_suggestion *s, char out[RP_HINT_TEXT])
{
    out[0] = '\0';
    if (s->best != NULL)
        (void)snprintf(out, RP_HINT_TEXT, " (did you mean %s?)", s->best);
    return out;
}
