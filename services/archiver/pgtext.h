/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PGTEXT_H
#define REPRISE_PGTEXT_H

#include "copy.h"

/* Text that PostgreSQL takes. A text column holds UTF-8 without NUL; anything else it refuses, and
 * with it the whole batch. */

/* Whether it can be stored as it is, in at most `max` bytes. */
bool pgtext_fits(struct rp_bytes text, size_t max);

/* Appends what can be stored in its place, in at most `max` bytes: if it is text, as much of it as
 * fits; else with each byte that is no text as \xHH and each backslash as \\. Characters and
 * escapes stay whole. Fails with RP_E_NOMEM. */
RP_NODISCARD int pgtext_escape(struct rp_buf *out, struct rp_bytes text, size_t max,
                               struct rp_error *err);

/* Appends the text as a column's value, or what can be stored in its place; whether that is
 * something else. Null is null. */
bool pgtext_copy(struct copy *c, struct rp_bytes text, size_t max);

#endif
