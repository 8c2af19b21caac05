/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JSON_NUMBER_H
#define REPRISE_JSON_NUMBER_H

#include <stdbool.h>

#include "reprise/bytes.h"

/* The largest integers that a double computes with exactly lie below 2^53. */
#define RP_SAFE_INTEGER 9007199254740992.0

#define RP_NUMBER_TEXT 32

/* The shortest JSON number that reads back as the same double, which must be finite. */
char *rp_number_text(double value, char out[RP_NUMBER_TEXT]);
/* The same of a float. */
char *rp_float_text(float value, char out[RP_NUMBER_TEXT]);

/* The value of a JSON number; infinite where it is too large. */
double rp_number_value(struct rp_bytes literal);

/* Whether a double stands for the number as well as its digits do: it is below 2^53, or no whole
 * number, and its shortest text means the same (10.10 is 10.1). */
bool rp_number_is_safe(struct rp_bytes literal);

/* The numbers' order by all their digits. */
int rp_number_compare(struct rp_bytes a, struct rp_bytes b);

#endif
