/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LINES_H
#define REPRISE_LINES_H

#include "reprise/bytes.h"

/* Reads a file line by line, whether plain or compressed by gzip or zstd: its first bytes say
 * which. It holds one line at a time. */
struct rp_lines;

/* A line that is longer comes as null, and takes no memory of its own. */
#define RP_LINES_MAX ((size_t)256 << 20)

/* "-" is stdin. */
RP_NODISCARD int rp_lines_open(const char *path, struct rp_lines **out, struct rp_error *err);
/* Once `given_up()` is true, a signal ends the wait for more of a pipe: rp_lines_next fails. */
void rp_lines_give_up_when(struct rp_lines *l, bool (*given_up)(void));
/* The next line without its end, until the next call; `*more` false behind the last. What is behind
 * the last line feed is a line too, unless it is empty. Fails with RP_E_DECODE where the file is
 * damaged or cut short. */
RP_NODISCARD int rp_lines_next(struct rp_lines *l, struct rp_bytes *line, bool *more,
                               struct rp_error *err);
void rp_lines_close(struct rp_lines *l);

#endif
