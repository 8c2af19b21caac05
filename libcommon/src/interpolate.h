/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_INTERPOLATE_H
#define REPRISE_INTERPOLATE_H

#include "reprise/error.h"

/* Puts in what `text` asks for:
 *
 *     ${env:NAME}            an environment variable, which must be set
 *     ${env:NAME:-DEFAULT}   the same, which need not be
 *     ${file:PATH}           a regular file of at most 64 KiB without NUL bytes, less one newline
 * at its end
 *     $${                    a plain ${
 *
 * What was put in is not looked at again. The result is the caller's to free; NULL with `err`,
 * which names what was asked for and never what it holds. */
char *rp_interpolate(const char *text, struct rp_error *err);

#endif
