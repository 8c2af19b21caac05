/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ISO8601_H
#define REPRISE_ISO8601_H

#include <stdbool.h>

#include "reprise/bytes.h"

/* Reads a date and time as ISO 8601 and RFC 3339 write them, and programs print them:
 *
 *     2026-11-21T03:34Z   2026-11-21 03:34:33.123456+01:00   2026-11-21T03:34:33,123456789+0100
 *
 * A time without a zone is UTC. Parts of a millisecond are cut. Years 0001 to 9999; a leap second
 * is the next one. */
bool rp_iso8601_parse(struct rp_bytes text, int64_t *out_ms);

#endif
