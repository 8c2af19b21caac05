/* SPDX-License-Identifier: Apache-2.0 */
#include "json_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* 0.00123 is the digits "123" and the point -2: 0.123 * 10^-2. Zero has no digits. */
struct decimal {
    bool negative;
    const char *digits; /* from the first that is not 0; the point may stand among them */
    size_t n;           /* up to the last that is not 0, without the point */
    long point;
};

/* Exponents beyond this are equal enough. */
#define MAX_EXPONENT 1000000000L

static long read_exponent(const char *p, const char *end)
{
    bool negative = p < end && *p == '-';
    long value = 0;
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    for (; p < end && value < MAX_EXPONENT; p++)
        value = value * 10 + (*p - '0');
    return negative ? -value : value;
}

static struct decimal decimal_of(struct rp_bytes literal)
{
    const char *p = literal.data, *end = p + literal.len;
    struct decimal d = {.negative = p < end && *p == '-'};
    bool fraction = false;
    size_t n = 0;
    for (p += d.negative; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (d.digits == NULL && *p != '0')
            d.digits = p;
        if (d.digits == NULL) {
            d.point -= fraction;
            continue;
        }
        d.point += !fraction;
        n++;
        if (*p != '0')
            d.n = n;
    }
    if (d.n == 0)
        return (struct decimal){0};
    if (p < end)
        d.point += read_exponent(p + 1, end);
    return d;
}

static int compare_size(struct decimal a, struct decimal b)
{
    if (a.n == 0 || b.n == 0)
        return (a.n > 0) - (b.n > 0);
    if (a.point != b.point)
        return a.point < b.point ? -1 : 1;
    for (size_t i = 0; i < a.n && i < b.n; i++) {
        a.digits += *a.digits == '.';
        b.digits += *b.digits == '.';
        if (*a.digits != *b.digits)
            return *a.digits < *b.digits ? -1 : 1;
        a.digits++;
        b.digits++;
    }
    return (a.n > b.n) - (a.n < b.n);
}

static int compare(struct decimal a, struct decimal b)
{
    if (a.negative != b.negative)
        return a.negative ? -1 : 1;
    return a.negative ? compare_size(b, a) : compare_size(a, b);
}

int rp_number_compare(struct rp_bytes a, struct rp_bytes b)
{
    return compare(decimal_of(a), decimal_of(b));
}

char *rp_number_text(double value, char out[RP_NUMBER_TEXT])
{
    /* A whole number is written as one: readers of integers refuse 1e+15. */
    if (fabs(value) < RP_SAFE_INTEGER && value == trunc(value)) {
        (void)snprintf(out, RP_NUMBER_TEXT, value == 0 && signbit(value) ? "-0.0" : "%.0f", value);
        return out;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, RP_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

char *rp_float_text(float value, char out[RP_NUMBER_TEXT])
{
    if (value == 0)
        return rp_number_text((double)value, out);
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(out, RP_NUMBER_TEXT, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value && (float)strtod(out, NULL) == value)
            break;
    }
    return out;
}

double rp_number_value(struct rp_bytes literal)
{
    char room[64], *text = literal.len < sizeof room ? room : malloc(literal.len + 1);
    if (text == NULL)
        return INFINITY; /* as for one that is too large: it is not computed with */
    memcpy(text, literal.data, literal.len);
    text[literal.len] = '\0';
    double value = strtod(text, NULL);
    if (text != room)
        free(text);
    return value;
}

bool rp_number_is_safe(struct rp_bytes literal)
{
    char text[RP_NUMBER_TEXT];
    double value = rp_number_value(literal);
    if (!isfinite(value) || fabs(value) >= RP_SAFE_INTEGER)
        return false;
    return rp_number_compare(rp_str(rp_number_text(value, text)), literal) == 0;
}
