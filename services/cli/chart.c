/* SPDX-License-Identifier: Apache-2.0 */
#include "chart.h"

#include <stdlib.h>
#include <strings.h>

/* Locales are not set up here, since numbers and times are to look the same everywhere. */
bool chart_unicode(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0')
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
    }
    return false;
}

void chart_append(struct rp_buf *out, const int64_t *values, size_t n, bool unicode)
{
    static const char *const blocks[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
                                         "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
                                         "\xe2\x96\x87", "\xe2\x96\x88"};
    static const char *const ascii[] = {".", ":", "-", "=", "+", "*", "%", "#"};
    int64_t most = 1;
    for (size_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    for (size_t i = 0; i < n; i++) {
        int level = (int)((double)(values[i] - 1) / (double)most * 8);
        level = level > 7 ? 7 : level; /* large numbers round up */
        const char *mark = values[i] <= 0 ? " " : unicode ? blocks[level] : ascii[level];
        if (rp_buf_append(out, mark, strlen(mark), NULL) != 0)
            return;
    }
}
