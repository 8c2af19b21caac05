/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARCHIVE_EXPORT_H
#define REPRISE_ARCHIVE_EXPORT_H

#include "archive_json.h"
#include "db.h"

/* Dead letters as JSON lines in a file, which is there whole or not at all: it is written beside
 * its name, as NAME.part, and takes the name when all of it is on the disk. A NAME that ends in
 * .gz or .zst is compressed. "-" is stdout. */
struct rp_export;

/* Fails with RP_E_INVALID where there is a file of this name already, and where another process is
 * writing one. What an earlier process left of it unfinished is overwritten. */
RP_NODISCARD int rp_export_open(const char *path, struct rp_export **out, struct rp_error *err);
/* Appends a line; `json` is without its end. */
RP_NODISCARD int rp_export_line(struct rp_export *e, struct rp_bytes json, struct rp_error *err);
/* Appends the first column of each row. */
RP_NODISCARD int rp_export_rows(struct rp_export *e, const PGresult *rows, struct rp_error *err);
/* Once this returns 0 the file is there, whatever happens to this process or to the machine. */
RP_NODISCARD int rp_export_commit(struct rp_export *e, struct rp_error *err);
/* Without rp_export_commit nothing is left. */
void rp_export_free(struct rp_export *e);

#endif
