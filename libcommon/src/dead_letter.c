/* SPDX-License-Identifier: Apache-2.0 */
#include "dead_letter.h"

#include "embedded.h"
#include "record_encode.h"

const char *rp_reason_name(enum rp_reason reason)
{
    static const char *const names[RP_N_REASONS] = {
        [RP_EXHAUSTED] = "EXHAUSTED",
        [RP_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [RP_NON_RETRYABLE] = "NON_RETRYABLE",
        [RP_NO_TARGET] = "NO_TARGET",
        [RP_TARGET_FORBIDDEN] = "TARGET_FORBIDDEN",
        [RP_UNDECODABLE] = "UNDECODABLE",
        [RP_OVERSIZED] = "OVERSIZED",
        [RP_CANCELLED] = "CANCELLED",
        [RP_INVALID] = "INVALID",
        [RP_OTHER] = "OTHER",
    };
    return (unsigned)reason < RP_N_REASONS ? names[reason] : names[RP_OTHER];
}

int rp_dead_letter_encode(const struct rp_dead_letter *letter, struct rp_buf *out,
                          struct rp_error *err)
{
    return rp_single_object_encode(&rp_dead_letter_shape,
                                   rp_embedded_schemas[RP_EMBEDDED_DEAD_LETTER].fingerprint, letter,
                                   out, err);
}
