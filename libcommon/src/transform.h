/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_TRANSFORM_H
#define REPRISE_TRANSFORM_H

#include "message.h"

/* A jq program that changes messages on their way to be replayed. It sees the document of message.h
 * and in it `task`, what is known of the task, which it can only read; it gives one such document,
 * or nothing.
 *
 * What the program does not touch stays as it was, byte for byte. jq computes with doubles, so that
 * a number it would round (9007199254740993, 0.1000000000000000000001) may be copied and moved, but
 * a program whose result depends on its value is refused: it runs with other values in the place of
 * such numbers (stand_ins.h), and all runs must agree.
 *
 * The program runs in a process of its own: without environment, files, descriptors of ours,
 * imports; with bounded time and memory. It may crash or never end, and costs us one message. */
struct rp_transform;

struct rp_transform_options {
    const char *jq;
    const char *payload_schema_file; /* see rp_message_reader_new */
    const char *payload_schema;      /* the same by its text; NULL: none */
    struct rp_registry *registry;    /* borrowed; may be NULL */
    int64_t patience_ms;             /* with a registry that fails; negative: for ever */
    int64_t cpu_ms;                  /* of a message; 0: 5000 */
};

/* Compiled once, applied to any number of messages. One thread, the one that made it: the process
 * ends with it. Fails with RP_E_INVALID (POISON) where the program is no jq, with jq's words. */
RP_NODISCARD int rp_transform_new(const struct rp_transform_options *o, struct rp_transform **out,
                                  struct rp_error *err);
void rp_transform_free(struct rp_transform *t);

/* `task_json`: what the program sees as `task`; NULL: null. `*out` lives in `arena` or borrows from
 * `in`. POISON with the reason where the program fails or gives what is no message; NOT_FOUND
 * (POISON) where it gives nothing. RETRIABLE: no memory, no process, the registry does not
 * answer, or refuses to tell of a schema, and that not yet for longer than our patience. */
RP_NODISCARD int rp_transform_apply(struct rp_transform *t, const struct rp_message *in,
                                    const char *task_json, struct rp_arena *arena,
                                    struct rp_message *out, struct rp_error *err);

#endif
