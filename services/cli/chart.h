/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_CHART_H
#define REPRISE_CLI_CHART_H

#include <stdint.h>
#include <stdbool.h>

#include "reprise/bytes.h"

/* Whether the locale's characters are UTF-8. */
bool chart_unicode(void);

/* Appends a bar chart of one line: a character a value, the highest for the largest. Nothing is a
 * space, and whatever is more than nothing can be seen. Without memory it is shorter. */
void chart_append(struct rp_buf *out, const int64_t *values, size_t n, bool unicode);

#endif
