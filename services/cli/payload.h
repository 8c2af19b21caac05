/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_PAYLOAD_H
#define REPRISE_CLI_PAYLOAD_H

#include <stdio.h>

#include "cli.h"
#include "reprise/bytes.h"

/* A task's payload as a person reads it. Whatever is in it, a terminal is safe from it. */
enum payload_form { PAYLOAD_AUTO, PAYLOAD_TEXT, PAYLOAD_JSON, PAYLOAD_HEX, PAYLOAD_BAD };

/* --payload: AUTO where it was not given; what is none of them is printed, and is BAD. */
enum payload_form payload_form_read(const struct cli_args *args);

/* Prints it over lines that begin with `indent`. AUTO takes the form that says most and cuts what
 * is long. Null prints nothing. */
void payload_print(FILE *out, struct rp_bytes bytes, enum payload_form form, const char *indent);

#endif
