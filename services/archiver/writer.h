/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WRITER_H
#define WRITER_H

#include "batch.h"

/* Writes one batch at a time, in a thread of its own: meanwhile the next one is read, and sent on
 * another connection. To be used by one thread. */
struct writer;

RP_NODISCARD int writer_new(struct writer **out, struct rp_error *err);
/* Waits for what is being written. NULL is fine. */
void writer_free(struct writer *w);

/* Begins batch_write. Until writer_take the batch and the store are the writer's, and the claims
 * of `parts`, which it has copied, are not to change. */
RP_NODISCARD int writer_give(struct writer *w, struct batch *b, struct store *store,
                             const struct parts *parts, struct rp_error *err);
/* Something was given and not taken back. */
bool writer_busy(const struct writer *w);
/* Whether it is written by then, or has failed; with 0, now. */
bool writer_wait(struct writer *w, int64_t until_mono_ms);
/* Waits for it, and tells what batch_write said; where that did not fail, `parts` gets the claims.
 */
RP_NODISCARD int writer_take(struct writer *w, struct parts *parts, struct rp_error *err);
/* Waits for what was given, if anything was, and forgets what became of it. */
void writer_drop(struct writer *w);

#endif
