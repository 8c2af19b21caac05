/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_DIFF_H
#define REPRISE_CLI_DIFF_H

#include <stdio.h>

#include "message.h"

/* Prints what changed between two messages, as lines of their documents (message.h): "- " the old
 * ones, "+ " the new ones, with some unchanged ones around; in colours on a terminal. `*changed`
 * may be NULL. Fails as rp_document_write does. */
RP_NODISCARD int cli_diff_print(FILE *out, struct rp_message_reader *reader,
                                const struct rp_message *before, const struct rp_message *after,
                                bool *changed, struct rp_error *err);

/* The same of two texts. Returns whether they differ. */
bool cli_diff_text(FILE *out, struct rp_bytes before, struct rp_bytes after);

#endif
