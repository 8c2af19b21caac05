/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_VIEW_H
#define DEMO_VIEW_H

#include "config.h"
#include "ledger.h"

/* What the demo shows: redrawn in place on a terminal, a plain line every few seconds otherwise. */
struct view {
    const struct rp_config *config;
    bool terminal;
    int lines; /* drawn and to be drawn over */
    int64_t begun_mono_ms;
    int64_t shown_mono_ms;
};

void view_begin(struct view *v, const struct rp_config *config);
/* Draws, when it is time to. `last` draws in any case, and leaves it standing. */
void view_show(struct view *v, struct ledger *l, bool last);

/* The end summary. True when every task ended as it had to, once, and never early; `rows` is what
 * PostgreSQL counts. */
bool view_summary(const struct view *v, struct ledger *l, int64_t rows);

#endif
