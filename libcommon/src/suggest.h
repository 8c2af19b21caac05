/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SUGGEST_H
#define REPRISE_SUGGEST_H

#include <stddef.h>

/* A word for "did you mean": offer `word` any number of times, then `best` is the nearest of them,
 * or NULL where none is near. */
struct rp_suggestion {
    const char *wrong, *best;
    size_t distance;
};
void rp_suggest(struct rp_suggestion *s, const char *word);

/* " (did you mean workers?)", or "" where none is near. */
#define RP_HINT_TEXT 96
char *rp_suggestion_hint(const struct rp_suggestion *s, char out[RP_HINT_TEXT]);

#endif
