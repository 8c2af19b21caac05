/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ARCHIVE_JSON_H
#define REPRISE_ARCHIVE_JSON_H

/* About how many bytes the dead letter `d` has, all of its fields that may be large together, in
 * SQL: what is read of many at once is bounded by it. */
#define RP_ARCHIVE_SIZE                                                                            \
    "least(2000000000, coalesce(octet_length(d.payload), 0)::bigint"                               \
    " + coalesce(octet_length(d.raw), 0) + coalesce(octet_length(d.record), 0)"                    \
    " + coalesce(octet_length(d.task_key), 0) + coalesce(octet_length(d.record_key), 0)"           \
    " + coalesce(octet_length(d.error_message), 0) + coalesce(octet_length(d.detail), 0)"          \
    " + coalesce(octet_length(array_send(d.header_keys)), 0)"                                      \
    " + coalesce(octet_length(array_send(d.header_values)), 0)"                                    \
    " + coalesce(octet_length(array_send(d.cause_classes)), 0)"                                    \
    " + coalesce(octet_length(array_send(d.cause_messages)), 0))::integer"

/* Dead letters as JSON, written and read by the database. All columns are in it, exactly. */

/* A dead letter `d` of the view archive as one JSON object, in SQL. `task` is the FailedTask as its
 * plain JSON framing has it, bytes in base64. */
extern const char rp_archive_json[];

/* Inserts what such objects say, in SQL: $1 is an array of them, as text. The answer is one row:
 * how many there are, how many were added, and how many of those have another id than before,
 * because that is another's, there or by an object before. One that is there already, by its
 * record, is passed over. What was being replayed is dead again. */
extern const char rp_archive_json_insert[];

#endif
