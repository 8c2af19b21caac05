/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_STAND_INS_H
#define REPRISE_STAND_INS_H

#include "reprise/bytes.h"

/* The numbers of a JSON text that a double cannot stand for (json_number.h), each with doubles that
 * occur nowhere else in the text: its stand-ins in the runs of a program. A number that is copied
 * or moved is known by its stand-in; whatever depends on a stand-in's value differs between the
 * runs. Stand-ins have the order of the numbers.
 *
 * The first run's are as near as can be, the second run's the next ones, so that they differ by a
 * power of two, and the third run's of whole numbers are odd and just below 2^53: no remainder
 * is the same in all three. The fourth run's have other distances, and those of what is large are
 * fractions just above 2^42, or above the largest other number that they exceed: rounding shows,
 * and so does what is added, down to half a thousandth there, or to half the last place of that
 * other number. Less is not seen. */
struct rp_stand_ins {
    struct rp_stand_in *items; /* in ascending order */
    size_t n, cap;
    double *safe; /* the other numbers, in ascending order */
    size_t n_safe, cap_safe;
};

#define RP_STAND_IN_RUNS 4

struct rp_stand_in {
    struct rp_bytes literal; /* borrowed from the text */
    double values[RP_STAND_IN_RUNS];
};

/* `json` must be valid. Fails with RP_E_NOMEM; ends with clear in any case. */
RP_NODISCARD int rp_stand_ins_find(struct rp_bytes json, struct rp_stand_ins *out,
                                   struct rp_error *err);
void rp_stand_ins_clear(struct rp_stand_ins *s);

/* Appends the text with the stand-ins of a run in place of their numbers. */
RP_NODISCARD int rp_stand_ins_put(const struct rp_stand_ins *s, struct rp_bytes json, int run,
                                  struct rp_buf *out, struct rp_error *err);

/* The number that a value stands for in a run; null: for none. */
struct rp_bytes rp_stand_ins_literal(const struct rp_stand_ins *s, double value, int run);

#endif
