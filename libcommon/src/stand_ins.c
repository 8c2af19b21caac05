/* SPDX-License-Identifier: Apache-2.0 */
#include "stand_ins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "array.h"
#include "json_number.h"
#include "json_skeleton.h"

/* 2^42: half a thousandth is not lost in doubles of this size, and few of the numbers that a
 * program compares with are larger: times in ms are not. */
#define COARSE 4398046511104.0

/* A number in the text, in order. False: there is none any more. */
static bool next_number(struct rp_bytes json, size_t *at, struct rp_bytes *out)
{
    const char *p = json.data, *end = p + json.len;
    for (p += *at; p < end; p++) {
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                p += *p == '\\';
            continue;
        }
        size_t n = rp_json_number_length(p, end);
        if (n == 0)
            continue;
        *out = (struct rp_bytes){p, n};
        *at = (size_t)(p - (const char *)json.data) + n;
        return true;
    }
    return false;
}

/* By value, and where two texts mean the same, by text: each text has a stand-in of its own. */
static int compare_literals(const void *left, const void *right)
{
    const struct rp_bytes *a = left, *b = right;
    int order = rp_number_compare(*a, *b);
    if (order != 0)
        return order;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return memcmp(a->data, b->data, a->len);
}

static int compare_doubles(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static int no_memory(struct rp_error *err)
{
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for the numbers of a text");
}

static int add(struct rp_stand_ins *s, struct rp_bytes literal, struct rp_error *err)
{
    if (rp_number_is_safe(literal)) {
        double *safe = rp_array_grow(s->safe, s->n_safe, &s->cap_safe, sizeof *safe);
        if (safe == NULL)
            return no_memory(err);
        s->safe = safe;
        s->safe[s->n_safe++] = rp_number_value(literal);
        return 0;
    }
    struct rp_stand_in *items = rp_array_grow(s->items, s->n, &s->cap, sizeof *items);
    if (items == NULL)
        return no_memory(err);
    s->items = items;
    s->items[s->n++] = (struct rp_stand_in){.literal = literal};
    return 0;
}

static void drop_twins(struct rp_stand_ins *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++)
        if (kept == 0 || compare_literals(&s->items[kept - 1].literal, &s->items[i].literal) != 0)
            s->items[kept++] = s->items[i];
    s->n = kept;
}

static bool is_taken(const struct rp_stand_ins *s, double value)
{
    return s->n_safe > 0 &&
           bsearch(&value, s->safe, s->n_safe, sizeof value, compare_doubles) != NULL;
}

/* As near as can be, then the next one. The largest doubles are left as room. */
static void choose_near(struct rp_stand_ins *s, int run)
{
    double last = -INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        struct rp_stand_in *item = &s->items[i];
        double value = fmin(fmax(rp_number_value(item->literal), -1e308), 1e308);
        if (run > 0)
            value = nextafter(item->values[run - 1], INFINITY);
        if (value <= last)
            value = nextafter(last, INFINITY);
        while (is_taken(s, value))
            value = nextafter(value, INFINITY);
        item->values[run] = last = value;
    }
}

/* Another number of the text, or what stands for this one in another run. */
static bool is_used(const struct rp_stand_ins *s, const struct rp_stand_in *item, int run,
                    double value)
{
    for (int other = 0; other < run; other++)
        if (value == item->values[other])
            return true;
    return is_taken(s, value);
}

/* The first one from `value` on that is odd, as `value` is, and free. */
static double next_odd(const struct rp_stand_ins *s, const struct rp_stand_in *item, int run,
                       double value, double step)
{
    while (is_used(s, item, run, value))
        value += step;
    return value;
}

/* The first one behind `value`, towards 0, that is free. */
static double next_within(const struct rp_stand_ins *s, const struct rp_stand_in *item, int run,
                          double value)
{
    do
        value = nextafter(value, 0);
    while (is_used(s, item, run, value));
    return value;
}

/* From the outermost numbers inwards, over those that lie beyond 2^53 (sign 1) or -2^53 (-1). What
 * these would pass by, just within, makes room for them. */
static void choose_odd_beyond(struct rp_stand_ins *s, int run, double sign)
{
    double odd = sign * (RP_SAFE_INTEGER - 1), last = sign * (double)INFINITY;
    for (size_t n = 0; n < s->n; n++) {
        struct rp_stand_in *item = &s->items[sign > 0 ? s->n - 1 - n : n];
        if (sign * item->values[0] >= RP_SAFE_INTEGER) {
            last = next_odd(s, item, run, odd, -2 * sign);
            odd = last - 2 * sign;
        } else if (sign * item->values[run] >= sign * last) {
            last = next_within(s, item, run, last);
        } else {
            break;
        }
        item->values[run] = last;
    }
}

static void choose_odd(struct rp_stand_ins *s, int run)
{
    choose_near(s, run);
    choose_odd_beyond(s, run, 1);
    choose_odd_beyond(s, run, -1);
}

/* The largest of the other numbers, from number `*at` on, that is no larger than `size`, all of one
 * sign; or 0. */
static double largest_within(const struct rp_stand_ins *s, double sign, double size, size_t *at)
{
    double largest = 0;
    for (; *at < s->n_safe; ++*at) {
        double other = sign * s->safe[sign > 0 ? *at : s->n_safe - 1 - *at];
        if (other > size)
            break;
        largest = fmax(largest, other);
    }
    return largest;
}

/* Below 2^52 such a double is no whole number. */
static bool is_odd_in_its_last_place(double size)
{
    return fmod(size, 2 * (nextafter(size, INFINITY) - size)) != 0;
}

/* Some places, and then on to a fraction that is free. */
static double next_fraction(const struct rp_stand_ins *s, const struct rp_stand_in *item, int run,
                            double sign, double size, size_t places)
{
    size += (double)places * (nextafter(size, INFINITY) - size);
    while (!is_odd_in_its_last_place(size) || is_used(s, item, run, sign * size))
        size = nextafter(size, INFINITY);
    return size;
}

/* From the innermost numbers outwards, over those from 0 on (sign 1) or below it (-1). Neighbours
 * move by different numbers of places, so that their distances change. */
static void choose_apart_of(struct rp_stand_ins *s, int run, double sign)
{
    double last = 0, inner = 0;
    size_t at = 0;
    for (size_t n = 0; n < s->n; n++) {
        struct rp_stand_in *item = &s->items[sign > 0 ? n : s->n - 1 - n];
        double size = sign * item->values[0];
        if (sign > 0 ? size < 0 : size <= 0)
            continue;
        inner = fmax(inner, largest_within(s, sign, size, &at));
        if (size > COARSE)
            size = fmax(inner, COARSE);
        last = next_fraction(s, item, run, sign, fmax(size, last), 2 * (n % 8) + 3);
        item->values[run] = sign * last;
    }
}

static void choose_apart(struct rp_stand_ins *s, int run)
{
    choose_apart_of(s, run, 1);
    choose_apart_of(s, run, -1);
}

int rp_stand_ins_find(struct rp_bytes json, struct rp_stand_ins *out, struct rp_error *err)
{
    struct rp_bytes literal;
    *out = (struct rp_stand_ins){0};
    for (size_t at = 0; next_number(json, &at, &literal);)
        if (add(out, literal, err) != 0)
            return -1;
    if (out->n == 0)
        return 0;
    /* The literal is a stand-in's first member. */
    qsort(out->items, out->n, sizeof *out->items, compare_literals);
    drop_twins(out);
    if (out->n_safe > 0)
        qsort(out->safe, out->n_safe, sizeof *out->safe, compare_doubles);
    choose_near(out, 0);
    choose_near(out, 1);
    choose_odd(out, 2);
    choose_apart(out, 3);
    return 0;
}

void rp_stand_ins_clear(struct rp_stand_ins *s)
{
    free(s->items);
    free(s->safe);
    *s = (struct rp_stand_ins){0};
}

int rp_stand_ins_put(const struct rp_stand_ins *s, struct rp_bytes json, int run,
                     struct rp_buf *out, struct rp_error *err)
{
    const char *text = json.data;
    struct rp_bytes literal;
    size_t done = 0;
    for (size_t at = 0; s->n > 0 && next_number(json, &at, &literal);) {
        char value[RP_NUMBER_TEXT];
        const struct rp_stand_in *item =
            bsearch(&literal, s->items, s->n, sizeof *s->items, compare_literals);
        if (item == NULL)
            continue;
        (void)snprintf(value, sizeof value, "%.17g", item->values[run]);
        if (rp_buf_append(out, text + done, at - literal.len - done, err) != 0 ||
            rp_buf_append(out, value, strlen(value), err) != 0)
            return -1;
        done = at;
    }
    return rp_buf_append(out, text + done, json.len - done, err);
}

struct rp_bytes rp_stand_ins_literal(const struct rp_stand_ins *s, double value, int run)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->items[middle].values[run] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n && s->items[low].values[run] == value ? s->items[low].literal : RP_NULL_BYTES;
}
