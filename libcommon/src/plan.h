/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PLAN_H
#define REPRISE_PLAN_H

#include "arena.h"
#include "schema.h"
#include "shape.h"

/* How to read what a writer's schema wrote into one of our structs: made once from the two, run for
 * every record. Resolves by Avro's rules: fields by name in any order, defaults, int to long,
 * string and bytes for one another, unions by branch, enums by symbol with the default for unknown
 * ones; fields that we do not know are skipped. Logical types are not looked at. Immutable:
 * any number of threads may run one plan.
 *
 * Running is bounds-checked and zero-copy: strings and bytes point into the value, and only arrays
 * take room in the arena. A string may hold bytes that are not UTF-8: they are kept as they came,
 * since to lose a task over a mangled error message would be worse. */
struct rp_plan;

#define RP_PLAN_MAX_ITEMS 131072 /* of one array: headers, causes */
#define RP_PLAN_MAX_DEPTH 200    /* of skipped data in a recursive schema */

/* `schema` is needed no longer than the call, `shape` as long as the plan. Fails with RP_E_SCHEMA
 * (POISON) when what is written so can never be read as ours, and says which field. */
RP_NODISCARD int rp_plan_compile(const struct rp_schema *schema, const struct rp_shape *shape,
                                 struct rp_plan **out, struct rp_error *err);
void rp_plan_free(struct rp_plan *plan);
/* What it takes of memory; NULL: nothing. */
size_t rp_plan_bytes(const struct rp_plan *plan);

/* Reads the record that begins at byte `from` of `value` and must end where `value` ends. `out` is
 * the shape's struct. Fails with RP_E_DECODE (POISON), with the offset in `value` and the field. */
RP_NODISCARD int rp_plan_run(const struct rp_plan *plan, struct rp_bytes value, size_t from,
                             struct rp_arena *arena, void *out, struct rp_error *err);

#endif
