/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_ROFF_H
#define REPRISE_CLI_ROFF_H

#include <stdio.h>

/* Text as man(7) takes it. */

/* Writes words in a line: nothing in them is taken for a request or an escape. */
void roff_words(FILE *out, const char *text);
/* Writes paragraphs: an empty line begins a new one, and lines that begin with a space are shown as
 * they stand. */
void roff_text(FILE *out, const char *text);
/* Begins an item of a list: a bold word and, where it is not NULL, an italic one behind it. */
void roff_item(FILE *out, const char *bold, const char *italic);

#endif
