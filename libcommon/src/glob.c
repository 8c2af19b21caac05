/* SPDX-License-Identifier: Apache-2.0 */
#include "glob.h"

static char folded(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same(char a, char b, bool fold)
{
    return a == b || (fold && folded(a) == folded(b));
}

/* Only the last star is ever widened: what an earlier one could take, the last one can too.
 * `open` patterns behave as if a star stood at either end. */
static bool match(const char *pattern, struct rp_bytes text, bool fold, bool open)
{
    const char *t = text.data, *end = t + text.len;
    const char *p = pattern, *after_star = open ? p : NULL, *star_at = t;
    while (t < end) {
        if (*p == '*') {
            after_star = ++p;
            star_at = t;
            if (*p == '\0')
                return true;
        } else if (*p != '\0' && (*p == '?' || same(*p, *t, fold))) {
            p++;
            t++;
        } else if (*p == '\0' && open) {
            return true;
        } else if (after_star != NULL) {
            p = after_star;
            t = ++star_at;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return *p == '\0';
}

bool rp_glob_match(const char *pattern, struct rp_bytes text)
{
    return text.data != NULL && match(pattern, text, false, false);
}

bool rp_glob_search(const char *pattern, struct rp_bytes text)
{
    return text.data != NULL && match(pattern, text, true, true);
}

bool rp_glob_is(const char *pattern)
{
    return strpbrk(pattern, "*?") != NULL;
}

size_t rp_glob_literals(const char *pattern)
{
    size_t n = 0;
    for (; *pattern != '\0'; pattern++)
        n += *pattern != '*' && *pattern != '?';
    return n;
}
