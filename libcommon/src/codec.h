/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CODEC_H
#define REPRISE_CODEC_H

#include "arena.h"
#include "dead_letter.h"
#include "reprise/task.h"

struct rp_registry;
struct rp_codec;

/* Reads values in any of the four framings: single-object, Confluent, JSON, bare binary. Keeps the
 * plans it compiled from writers' schemas, by fingerprint and by registry id. The fingerprints it
 * knows are those of the embedded schemas: which bytes can be read does not depend on what was read
 * before. `registry` is borrowed and may be NULL: then the Confluent format is undecodable. One
 * codec per thread. */
RP_NODISCARD int rp_codec_new(struct rp_registry *registry, struct rp_codec **out,
                              struct rp_error *err);
void rp_codec_free(struct rp_codec *codec);

/* Decodes one value. What is decoded borrows from `value` and from `arena` (arrays, and all that
 * JSON unescapes). A null or empty value is POISON. POISON: these bytes cannot be read, the text
 * says why and where; RETRIABLE: the registry does not answer, or there is no memory. Does not
 * check the contract beyond the schema: see rp_failed_task_check. Strings of binary values may hold
 * bytes that are no UTF-8: they are kept as they came, since to lose a task over a mangled error
 * message would be worse; who passes them on escapes or repairs them.
 *
 * A dead letter is not read from bare binary when it has no task: its first byte is that of the
 * Confluent format. We write single-object values only. */
RP_NODISCARD int rp_codec_decode_task(struct rp_codec *codec, struct rp_bytes value,
                                      struct rp_arena *arena, struct rp_failed_task *out,
                                      struct rp_error *err);
RP_NODISCARD int rp_codec_decode_dead_letter(struct rp_codec *codec, struct rp_bytes value,
                                             struct rp_arena *arena, struct rp_dead_letter *out,
                                             struct rp_error *err);

#endif
