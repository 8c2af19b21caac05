/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_node.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "dead_letter.h"
#include "iso8601.h"
#include "suggest.h"
#include "units.h"

#define GROUP_DIGITS     16
#define MIN_GROUP_DIGITS 4
/* The year 1, before which iso8601 and PostgreSQL's own texts have nothing, less the millisecond
 * that a count looks further back. */
#define FIRST_MS (INT64_C(-62135596800) * 1000 + 1)

static const char *const statuses[] = {"dead", "replaying", "replayed", "discarded"};

bool rp_filter_op_fits(enum rp_filter_kind kind, enum rp_filter_op op)
{
    switch (kind) {
    case RP_FILTER_NAME:
    case RP_FILTER_TEXT:
        return op == RP_OP_EQ || op == RP_OP_MATCH || op == RP_OP_CONTAINS;
    case RP_FILTER_TIME:
    case RP_FILTER_INT:
        return op != RP_OP_MATCH && op != RP_OP_CONTAINS;
    case RP_FILTER_REASON:
    case RP_FILTER_STATUS:
    case RP_FILTER_GROUP:
    case RP_FILTER_BOOL:
        return op == RP_OP_EQ;
    }
    return false;
}

char *rp_filter_time_text(int64_t ms, char out[RP_FILTER_TIME_TEXT])
{
    int64_t part = ms % 1000 < 0 ? ms % 1000 + 1000 : ms % 1000;
    time_t seconds = (time_t)((ms - part) / 1000);
    struct tm tm;
    (void)gmtime_r(&seconds, &tm);
    (void)snprintf(out, RP_FILTER_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
                   (unsigned)(tm.tm_year + 1900) % 100000, (unsigned)(tm.tm_mon + 1) % 100,
                   (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
                   (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100, (unsigned)part);
    return out;
}

/* How long ago; a time; a day, which begins at midnight, UTC. */
static bool read_time(const char *text, int64_t now_ms, int64_t *out)
{
    char day[] = "0000-00-00T00:00Z";
    int64_t ago_ms;
    *out = now_ms;
    if (strcasecmp(text, "now") == 0)
        return true;
    if (rp_parse_duration(text, &ago_ms))
        return !__builtin_sub_overflow(now_ms, ago_ms, out) && *out >= FIRST_MS;
    if (strlen(text) == 10) {
        memcpy(day, text, 10);
        text = day;
    }
    return rp_iso8601_parse(rp_str(text), out) && *out >= FIRST_MS;
}

static int word_of(const char *text, const char *name(int), int n, const char **out,
                   struct rp_error *err)
{
    struct rp_suggestion s = {.wrong = text};
    char hint[RP_HINT_TEXT];
    for (int i = 0; i < n; i++) {
        if (strcasecmp(text, name(i)) == 0) {
            *out = name(i);
            return 0;
        }
        rp_suggest(&s, name(i));
    }
    (void)rp_suggestion_hint(&s, hint);
    (void)rp_fail(err, RP_E_INVALID, RP_POISON, "there is no '%.40s'%s; there is", text, hint);
    for (int i = 0; err != NULL && i < n; i++) {
        size_t len = strlen(err->text);
        (void)snprintf(err->text + len, sizeof err->text - len, "%s %s", i == 0 ? "" : ",",
                       name(i));
    }
    return -1;
}

static const char *reason_name(int i)
{
    return rp_reason_name((enum rp_reason)i);
}

static const char *status_name(int i)
{
    return statuses[i];
}

/* The first digits of a fingerprint are a range of them, and of the signed numbers that stand for
 * them in the database. */
static bool read_group(const char *text, struct rp_filter_value *out)
{
    uint64_t low = 0;
    size_t n = strlen(text);
    if (n < MIN_GROUP_DIGITS || n > GROUP_DIGITS || strspn(text, "0123456789abcdefABCDEF") != n)
        return false;
    for (size_t i = 0; i < GROUP_DIGITS; i++) {
        int c = i < n ? tolower((unsigned char)text[i]) : '0';
        low = low << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    uint64_t high = n == GROUP_DIGITS ? low : low | (UINT64_MAX >> (4 * n));
    out->low = (int64_t)low;
    out->high = (int64_t)high;
    return true;
}

static int bad(struct rp_error *err, const char *text, const char *expected)
{
    return rp_fail(err, RP_E_INVALID, RP_POISON, "'%.40s' is no %s", text, expected);
}

int rp_filter_value(const struct rp_filter *f, enum rp_filter_field field, enum rp_filter_op op,
                    const char *text, bool bare, struct rp_filter_value *out, struct rp_error *err)
{
    enum rp_filter_kind kind = rp_filter_fields[field].kind;
    *out = (struct rp_filter_value){.text = text};
    out->none = bare && op == RP_OP_EQ && kind != RP_FILTER_BOOL && strcasecmp(text, "none") == 0;
    if (out->none)
        return 0;
    switch (kind) {
    case RP_FILTER_NAME:
    case RP_FILTER_TEXT:
        /* An unset variable in a script must not mean all. */
        if (op != RP_OP_EQ && *text == '\0')
            return rp_fail(err, RP_E_INVALID, RP_POISON, "an empty text is in all of them");
        return 0;
    case RP_FILTER_REASON:
        return word_of(text, reason_name, RP_N_REASONS, &out->text, err);
    case RP_FILTER_STATUS:
        return word_of(text, status_name, (int)(sizeof statuses / sizeof *statuses), &out->text,
                       err);
    case RP_FILTER_GROUP:
        return read_group(text, out) ? 0 : bad(err, text, "group: 4 to 16 hex digits are");
    case RP_FILTER_TIME:
        return read_time(text, f->now_ms, &out->low)
                   ? 0
                   : bad(err, text, "time: 2h, 7d, 2026-11-21 and 2026-11-21T03:00Z are");
    case RP_FILTER_INT:
        return rp_parse_int(text, &out->low) ? 0 : bad(err, text, "number");
    case RP_FILTER_BOOL:
        return rp_parse_bool(text, &out->low) ? 0 : bad(err, text, "truth: true and false are");
    }
    return -1;
}
