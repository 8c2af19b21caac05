/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_DAY_H
#define REPRISE_DAY_H

#include <stdint.h>

/* Days as the archive's partitions count them: UTC, day 0 is 1970-01-01. */

#define DAY_MS INT64_C(86400000)

int64_t day_of(int64_t ms);

/* "2026-11-21". Needs a day of the years 1 to 9999. */
#define DAY_TEXT_SIZE 16
void day_text(int64_t day, char out[DAY_TEXT_SIZE]);

/* When a dead letter counts as dead, which decides its partition and how long it is kept: the time
 * of the decision, if it makes sense, else that of its record, else now.
 *
 * What makes sense is younger than `keep_ms`, else retention would drop it before anybody has seen
 * it, and not in the future, but for a day of skew between clocks: a day far ahead would be kept
 * for as long. So a clock that is wrong, or a record that was forged, neither hides a dead letter
 * nor makes partitions in the year 9999, and there is no need for a default partition (which would
 * stand in the way of dropping and adding days). Within those bounds the time depends on the record
 * alone: read again after its offset was lost, it meets its own primary key. */
int64_t day_dead_at(int64_t decided_at_ms, int64_t recorded_at_ms, int64_t now_ms, int64_t keep_ms);

/* The last moment at or before `now_ms` that the schedule names (a minute of the day). */
int64_t day_scheduled(int64_t now_ms, int minute);

/* Days before this one are to go: all that is in them is older than `keep_ms` at the last scheduled
 * moment. It depends on nothing that a restart forgets, so a run that was missed is made up for and
 * a second one finds nothing. */
int64_t day_keep_from(int64_t now_ms, int minute, int64_t keep_ms);

#endif
