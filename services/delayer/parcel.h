/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PARCEL_H
#define REPRISE_PARCEL_H

#include "hold.h"
#include "reinvoke.h"

/* A tier's record as it is held: what settling it takes, and nothing else. The last try, a
 * fallback's, waits in no tier. */
struct parcel {
    struct rp_passage passage;
    struct rp_bytes key, value;
};

RP_NODISCARD int parcel_put(struct hold *hold, const struct parcel *parcel, uint64_t *out_handle,
                            struct rp_error *err);
/* The parcel in `bytes`, which hold_get gave; borrows from them. */
void parcel_read(struct rp_bytes bytes, struct parcel *out);

#endif
