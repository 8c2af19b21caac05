/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RETENTION_DAY_H
#define RETENTION_DAY_H

#include "retention.h"

/* Drops a day ("2026-11-21", which begins at `day_ms`), exported before where there is a folder for
 * it. A day with dead letters that are being replayed is kept for another week, and sets `*held`;
 * then it goes all the same, and the audit says how many of them were in it. */
RP_NODISCARD int retention_drop_day(struct retention *r, struct rp_db *db, const char *day,
                                    int64_t day_ms, bool *held, struct rp_error *err);

#endif
