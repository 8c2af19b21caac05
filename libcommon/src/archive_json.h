/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARCHIVE_JSON_H
#define REPRISE_ARCHIVE_JSON_H

/* Dead letters as JSON, written and read by the database. All columns are in it, exactly. */

/* A dead letter `d` of the view archive as one JSON object, in SQL. `task` is the FailedTask as its
 * plain JSON framing has it, bytes in base64. */
extern const char rp_archive_json[];

/* Inserts what such objects say, in SQL: $1 is an array of them, as text. The answer is one row:
 * how many there are, how many were added, and how many of those have another id than before,
 * because there is a dead letter of theirs already. One that is there already, by its record, is
 * passed over. What was being replayed is dead again. */
extern const char rp_archive_json_insert[];

#endif
