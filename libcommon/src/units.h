/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_UNITS_H
#define REPRISE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Scalars as people write them. A parser takes the whole text or nothing: no signs but a leading
 * minus of a plain number, no spaces, one number and one unit. False: it cannot be read, or does
 * not fit in 64 bits. */
bool rp_parse_int(const char *text, int64_t *n);
bool rp_parse_bool(const char *text, int64_t *truth);      /* "true", "false" */
bool rp_parse_duration(const char *text, int64_t *ms);     /* "500ms" "1s" "15m" "12h" "30d" "0" */
bool rp_parse_size(const char *text, int64_t *bytes);      /* "4096" "64KiB" "1MiB" "2GiB" */
bool rp_parse_percent(const char *text, int64_t *percent); /* "10%" "0" */
bool rp_parse_ratio(const char *text, int64_t *thousandths);  /* "2" "1.75": three places at most */
bool rp_parse_time_of_day(const char *text, int64_t *minute); /* "03:00": minute of the day */

/* The same, backwards; each returns `out`. A duration and a size take the largest unit that divides
 * them: 90000 is "90s". */
#define RP_UNIT_TEXT 32
char *rp_format_int(int64_t n, char out[RP_UNIT_TEXT]);
char *rp_format_duration(int64_t ms, char out[RP_UNIT_TEXT]);
char *rp_format_size(int64_t bytes, char out[RP_UNIT_TEXT]);
char *rp_format_percent(int64_t percent, char out[RP_UNIT_TEXT]);
char *rp_format_ratio(int64_t thousandths, char out[RP_UNIT_TEXT]);

#endif
