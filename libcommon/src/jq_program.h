/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JQ_PROGRAM_H
#define REPRISE_JQ_PROGRAM_H

#include "reprise/bytes.h"

/* A jq program that maps JSON text to JSON text and keeps what it does not touch as it stands,
 * with all the digits of its numbers; see transform.h. It may crash, run for ever, or abort for
 * want of memory: it is to be run in a process of its own. */
struct rp_jq_program;

/* Fails with RP_E_INVALID (POISON) and jq's words. */
RP_NODISCARD int rp_jq_program_new(const char *text, struct rp_jq_program **out,
                                   struct rp_error *err);
void rp_jq_program_free(struct rp_jq_program *program);

/* Appends the one result. RP_E_NOT_FOUND (POISON): there is none; RP_E_INVALID (POISON): the
 * program failed, and why. `out` then holds anything. */
RP_NODISCARD int rp_jq_program_run(struct rp_jq_program *program, struct rp_bytes json,
                                   struct rp_buf *out, struct rp_error *err);

#endif
