/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CODEC_H
#define REPRISE_CODEC_H

#include "arena.h"
#include "dead_letter.h"
#include "reprise/task.h"

struct rp_registry;
struct rp_codec;

/* Reads values in any of the four framings: single-object, Confluent, JSON, bare binary. Keeps the
 * plans it compiled from writers' schemas, by fingerprint and by registry id. `registry` is
 * borrowed and may be NULL: then the Confluent format is undecodable. One codec per thread. */
RP_NODISCARD int rp_codec_new(struct rp_registry *registry, struct rp_codec **out,
                              struct rp_error *err);
void rp_codec_free(struct rp_codec *codec);

/* Decodes one value. What is decoded borrows from `value` and from `arena` (arrays, and all that
 * JSON unescapes). A null or empty value is POISON. POISON: these bytes cannot be read, the text
 * says why and where; RETRIABLE: the registry does not answer. Does not check the contract beyond
 * the schema: see rp_failed_task_check. */
RP_NODISCARD int rp_codec_decode_task(struct rp_codec *codec, struct rp_bytes value,
                                      struct rp_arena *arena, struct rp_failed_task *out,
                                      struct rp_error *err);
RP_NODISCARD int rp_codec_decode_dead_letter(struct rp_codec *codec, struct rp_bytes value,
                                             struct rp_arena *arena, struct rp_dead_letter *out,
                                             struct rp_error *err);

#endif
