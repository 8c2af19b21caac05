/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_FINGERPRINT_H
#define REPRISE_FINGERPRINT_H

#include "reprise/bytes.h"

/* Which errors are alike: task type, error class, and the message without what varies from one
 * occurrence to the next. So that 40,000 dead letters become 6 groups. */

/* Raised when any message may be masked in another way than before. Fingerprints are then other
 * ones: rows that are archived keep theirs, new ones get new ones, and what belongs together stands
 * in two groups until retention has taken the old rows. */
#define RP_FINGERPRINT_VERSION 1

/* A mask is at most so long, in bytes; what comes behind is not looked at. */
#define RP_MASK_MAX 256

/* Writes the message with `#` in place of numbers, durations, hex and random ids; <uuid>, <time>,
 * <url>, <email> and <ip> in place of these; '*' for what is quoted, (*) for a key's value as
 * PostgreSQL shows it. White space becomes one space, a list of masks one mask. What comes out is
 * UTF-8 without control characters, whatever goes in, and not terminated. Returns its length. */
size_t rp_fingerprint_mask(struct rp_bytes message, char out[RP_MASK_MAX]);

/* The hash of type, class and masked message; null differs from empty. Never 0. */
int64_t rp_fingerprint(struct rp_bytes task_type, struct rp_bytes error_class,
                       struct rp_bytes masked);

#endif
