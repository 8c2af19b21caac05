/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_TERM_H
#define REPRISE_CLI_TERM_H

#include <stdio.h>

#include "reprise/bytes.h"

/* What came from outside, on its way to a terminal. Nothing of it may move the cursor, change
 * colours or the reading direction, or look like our own lines: control characters, marks of
 * direction, invisible characters and bytes that are no UTF-8 are written as escapes. */

/* Appends `text` as one line, of at most `max` characters: cut with an ellipsis. Returns how many
 * characters it has. Without memory less is appended. */
size_t term_line(struct rp_buf *out, struct rp_bytes text, size_t max);

/* Prints what is in it, if anything. */
void term_put(FILE *out, const struct rp_buf *line);
/* Prints the same as term_line appends, without a line feed. */
void term_print(FILE *out, struct rp_bytes text, size_t max);

/* Prints text of several lines, each behind `indent`. Line feeds and tabs are let through. */
void term_text(FILE *out, struct rp_bytes text, const char *indent);

/* Prints JSON, whose strings may hold anything but C0 controls. */
void term_json(FILE *out, struct rp_bytes json);

/* Prints bytes as a hex dump, sixteen a line. */
void term_hex(FILE *out, struct rp_bytes bytes, const char *indent);

/* Whether it is text that can be read as it is. */
bool term_readable(struct rp_bytes bytes);

/* The columns of the terminal; 0 where `out` is none. */
size_t term_width(FILE *out);

/* Whether stdout is a terminal for colours; NO_COLOR in the environment says no. */
bool term_colours(void);
#define TERM_PLAIN "\x1b[0m"
#define TERM_BOLD  "\x1b[1m"
/* How a dead letter's status begins in colour; "" where it is no such word. */
const char *term_status_colour(const char *status);

#endif
