/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_EDITOR_H
#define REPRISE_CLI_EDITOR_H

#include "reprise/bytes.h"

#define EDITOR_PATH 4096

/* Writes `text` into a file of its own that only its owner can read, and opens $VISUAL, $EDITOR or
 * vi on it. `path` is the file, the caller's to unlink; "" where there is none. Fails with RP_E_IO,
 * also where the editor did not end well. */
RP_NODISCARD int editor_write(struct rp_bytes text, char path[EDITOR_PATH], struct rp_error *err);
RP_NODISCARD int editor_open(const char *path, struct rp_error *err);

/* Appends a whole file; "-": stdin. */
RP_NODISCARD int editor_read(const char *path, struct rp_buf *out, struct rp_error *err);

#endif
