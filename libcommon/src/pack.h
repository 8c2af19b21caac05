/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PACK_H
#define REPRISE_PACK_H

#include <stdio.h>

#include "reprise/bytes.h"

/* Bytes on their way to a file, compressed as the file's name says: by gzip for .gz, by zstd for
 * .zst, both with a checksum; as they are for all others. */
struct rp_pack;

/* `file` is borrowed. */
RP_NODISCARD int rp_pack_new(const char *path, FILE *file, struct rp_pack **out,
                             struct rp_error *err);
RP_NODISCARD int rp_pack_put(struct rp_pack *p, struct rp_bytes data, struct rp_error *err);
/* All that was put is in `file`, which is not flushed. */
RP_NODISCARD int rp_pack_end(struct rp_pack *p, struct rp_error *err);
void rp_pack_free(struct rp_pack *p);

#endif
