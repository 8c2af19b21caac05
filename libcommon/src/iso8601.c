/* SPDX-License-Identifier: Apache-2.0 */
#include "iso8601.h"

struct cursor {
    const char *p, *end;
};

static bool take(struct cursor *c, const char *any_of)
{
    if (c->p == c->end || *c->p == '\0' || strchr(any_of, *c->p) == NULL)
        return false;
    c->p++;
    return true;
}

static bool is_digit(const struct cursor *c)
{
    return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}

/* Exactly `digits` digits, between `low` and `high`. */
static bool number(struct cursor *c, int digits, int low, int high, int *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, c->p++) {
        if (!is_digit(c))
            return false;
        *out = 10 * *out + (*c->p - '0');
    }
    return *out >= low && *out <= high;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Days since 1970-01-01. The year is counted from March, so that its last day is the one that comes
 * and goes; 719468 days lie between 0000-03-01 and 1970-01-01. */
static int64_t days_since_epoch(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t m = (month + 9) % 12;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* Any number of digits behind the point; three count. */
static bool fraction(struct cursor *c, int *out_ms)
{
    int weight = 100;
    *out_ms = 0;
    if (!is_digit(c))
        return false;
    for (; is_digit(c); c->p++, weight /= 10)
        *out_ms += weight * (*c->p - '0');
    return true;
}

/* Z, +hh, +hhmm, +hh:mm or nothing. */
static bool zone(struct cursor *c, int *out_minutes)
{
    int hours, minutes = 0;
    *out_minutes = 0;
    if (c->p == c->end || take(c, "Zz"))
        return true;
    int sign = *c->p == '-' ? -1 : 1;
    if (!take(c, "+-") || !number(c, 2, 0, 23, &hours))
        return false;
    if ((take(c, ":") || is_digit(c)) && !number(c, 2, 0, 59, &minutes))
        return false;
    *out_minutes = sign * (60 * hours + minutes);
    return true;
}

bool rp_iso8601_parse(struct rp_bytes text, int64_t *out_ms)
{
    struct cursor c = {text.data, (const char *)text.data + text.len};
    int year, month, day, hour, minute, second = 0, ms = 0, east;
    if (!number(&c, 4, 1, 9999, &year) || !take(&c, "-") || !number(&c, 2, 1, 12, &month) ||
        !take(&c, "-") || !number(&c, 2, 1, days_in(year, month), &day) || !take(&c, "Tt ") ||
        !number(&c, 2, 0, 23, &hour) || !take(&c, ":") || !number(&c, 2, 0, 59, &minute))
        return false;
    if (take(&c, ":")) {
        if (!number(&c, 2, 0, 60, &second) || (take(&c, ".,") && !fraction(&c, &ms)))
            return false;
    }
    if (!zone(&c, &east) || c.p != c.end)
        return false;
    int64_t minutes = 1440 * days_since_epoch(year, month, day) + 60 * hour + minute - east;
    *out_ms = 1000 * (60 * minutes + second) + ms;
    return true;
}
