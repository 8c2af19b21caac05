/* SPDX-License-Identifier: Apache-2.0 */
#include "units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    int64_t factor;
};

/* Ascending. */
static const struct unit durations[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0},
};
static const struct unit sizes[] = {
    {"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0},
};

/* Reads digits; returns what follows them, NULL when there are none or they overflow. */
static const char *read_digits(const char *text, int64_t *n)
{
    const char *p = text;
    *n = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, *p - '0', n))
            return NULL;
    return p == text ? NULL : p;
}

static bool read_with_unit(const char *text, const struct unit *units, int64_t *out)
{
    int64_t n;
    const char *rest = read_digits(text, &n);
    if (rest == NULL)
        return false;
    for (const struct unit *u = units; u->name != NULL; u++)
        if (strcmp(rest, u->name) == 0)
            return !__builtin_mul_overflow(n, u->factor, out);
    *out = 0;
    return n == 0 && *rest == '\0'; /* nothing is nothing in any unit */
}

bool rp_parse_int(const char *text, int64_t *n)
{
    bool negative = *text == '-';
    const char *rest = read_digits(text + negative, n);
    if (rest == NULL || *rest != '\0')
        return false;
    if (negative)
        *n = -*n;
    return true;
}

bool rp_parse_bool(const char *text, int64_t *truth)
{
    *truth = strcmp(text, "true") == 0;
    return *truth || strcmp(text, "false") == 0;
}

bool rp_parse_duration(const char *text, int64_t *ms)
{
    return read_with_unit(text, durations, ms);
}

bool rp_parse_size(const char *text, int64_t *bytes)
{
    return read_with_unit(text, sizes, bytes);
}

bool rp_parse_percent(const char *text, int64_t *percent)
{
    static const struct unit units[] = {{"%", 1}, {NULL, 0}};
    return read_with_unit(text, units, percent);
}

bool rp_parse_ratio(const char *text, int64_t *thousandths)
{
    const char *rest = read_digits(text, thousandths);
    if (rest == NULL || __builtin_mul_overflow(*thousandths, 1000, thousandths))
        return false;
    if (*rest == '\0')
        return true;
    int64_t part, scale = 1000;
    size_t places = strlen(rest + 1);
    if (*rest != '.' || places > 3 || (rest = read_digits(rest + 1, &part)) == NULL)
        return false;
    while (places-- > 0)
        scale /= 10;
    return *rest == '\0' && !__builtin_add_overflow(*thousandths, part * scale, thousandths);
}

bool rp_parse_time_of_day(const char *text, int64_t *minute)
{
    if (strlen(text) != 5 || text[2] != ':')
        return false;
    int64_t h, m;
    if (read_digits(text, &h) != text + 2 || read_digits(text + 3, &m) != text + 5)
        return false;
    *minute = 60 * h + m;
    return h < 24 && m < 60;
}

static char *format_with_unit(int64_t n, const struct unit *units, char out[RP_UNIT_TEXT])
{
    const struct unit *best = units;
    for (const struct unit *u = units; u->name != NULL; u++)
        if (n != 0 && n % u->factor == 0)
            best = u;
    (void)snprintf(out, RP_UNIT_TEXT, "%" PRId64 "%s", n / best->factor, n == 0 ? "" : best->name);
    return out;
}

/* Runs several times a record, so it does without printf, and takes two digits at a time. */
char *rp_format_int(int64_t n, char out[RP_UNIT_TEXT])
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char text[RP_UNIT_TEXT], *end = text + sizeof text, *at = end;
    uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
    *--at = '\0';
    do
        at = memcpy(at - 2, pairs + 2 * (left % 100), 2);
    while ((left /= 100) > 0);
    if (at[0] == '0' && at[1] != '\0')
        at++;
    if (n < 0)
        *--at = '-';
    return memcpy(out, at, (size_t)(end - at));
}

char *rp_format_duration(int64_t ms, char out[RP_UNIT_TEXT])
{
    return format_with_unit(ms, durations, out);
}

char *rp_format_size(int64_t bytes, char out[RP_UNIT_TEXT])
{
    return format_with_unit(bytes, sizes, out);
}

char *rp_format_percent(int64_t percent, char out[RP_UNIT_TEXT])
{
    (void)snprintf(out, RP_UNIT_TEXT, "%" PRId64 "%%", percent);
    return out;
}

char *rp_format_ratio(int64_t thousandths, char out[RP_UNIT_TEXT])
{
    (void)snprintf(out, RP_UNIT_TEXT, "%.10g", (double)thousandths / 1000);
    return out;
}
