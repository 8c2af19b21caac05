/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JQ_PROCESS_H
#define REPRISE_JQ_PROCESS_H

#include "reprise/bytes.h"

/* A jq program in a process of its own, which has no environment, no files and no descriptors of
 * ours. A message may take so much time of the processor and so much memory; one that takes more,
 * or crashes jq, ends the process, and the next one begins a new one. So does one that is not
 * answered within half a minute, or whose process somebody ended or could not begin, which may be
 * tried again (RP_E_IO, RETRIABLE); but who is killed (SIGKILL) three times without an answer in
 * between is refused (POISON): the machine, or a container, lacks memory for it. The process ends
 * with the thread that made it, and not by the signals that end programs. One thread. */
struct rp_jq_process;

#define RP_JQ_MEMORY_BYTES ((size_t)512 * 1024 * 1024)

/* Fails with RP_E_INVALID (POISON) where the program is no jq. */
RP_NODISCARD int rp_jq_process_new(const char *program, int64_t cpu_ms, struct rp_jq_process **out,
                                   struct rp_error *err);
void rp_jq_process_free(struct rp_jq_process *p);

/* As rp_jq_program_run. `*out` is valid until the next call. */
RP_NODISCARD int rp_jq_process_run(struct rp_jq_process *p, struct rp_bytes json,
                                   struct rp_bytes *out, struct rp_error *err);

#endif
