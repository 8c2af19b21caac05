/* SPDX-License-Identifier: Apache-2.0 */
#include "json_skeleton.h"

#include <math.h>
#include <stdlib.h>

#include "json_number.h"
#include "json_span.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && is_digit(*p))
        p++;
    return p;
}

size_t rp_json_number_length(const char *begin, const char *end)
{
    const char *p = begin;
    p += p < end && *p == '-';
    if (p == end || !is_digit(*p))
        return 0;
    p = *p == '0' ? p + 1 : skip_digits(p, end);
    if (end - p > 1 && p[0] == '.' && is_digit(p[1]))
        p = skip_digits(p + 1, end);
    if (end - p > 1 && (p[0] == 'e' || p[0] == 'E')) {
        const char *digits = p + 1 + (p[1] == '+' || p[1] == '-');
        if (digits < end && is_digit(*digits))
            p = skip_digits(digits, end);
    }
    return (size_t)(p - begin);
}

/* Changes each number in place; returns whether one was. */
static bool change_numbers(char *text, size_t len, bool (*change)(char *number, size_t n))
{
    bool quoted = false, changed = false;
    for (size_t i = 0; i < len; i++) {
        if (quoted) {
            quoted = text[i] != '"';
            i += text[i] == '\\';
            continue;
        }
        quoted = text[i] == '"';
        size_t n = rp_json_number_length(text + i, text + len);
        if (n == 0)
            continue;
        changed |= change(text + i, n);
        i += n - 1;
    }
    return changed;
}

/* The sign stays: without it, what is no number (--5, 1e--5) would become one. */
static bool blank(char *number, size_t n)
{
    const size_t sign = *number == '-';
    memset(number + sign, ' ', n - sign);
    number[sign] = '0';
    return true;
}

static bool tame(char *number, size_t n)
{
    static const char tamed[] = "1e300"; /* none that is too large is shorter */
    const size_t sign = *number == '-', room = n - sign;
    if (room < sizeof tamed - 1 || isfinite(rp_number_value((struct rp_bytes){number, n})))
        return false;
    memset(number + sign, ' ', room);
    memcpy(number + sign, tamed, sizeof tamed - 1);
    return true;
}

bool rp_json_tame_numbers(char *text, size_t len)
{
    return change_numbers(text, len, tame);
}

/* Of each character outside of strings, as measured of jansson 2.14 on 64 bits, and rounded up. */
static const uint16_t tree_bytes_of[256] = {
    ['{'] = 240, ['['] = 140, [','] = 60, [':'] = 50, ['"'] = 40};
#define TREE_BYTES_MOST 240

/* About how many bytes the tree takes, at most; of no more than is needed to tell that it is above
 * RP_JSON_TREE_MOST. */
static size_t tree_bytes(struct rp_bytes text)
{
    const uint8_t *c = text.data;
    bool quoted = false;
    size_t sum = 0;
    if (text.len <= RP_JSON_TREE_MOST / TREE_BYTES_MOST)
        return text.len * TREE_BYTES_MOST;
    for (size_t i = 0; i < text.len && sum <= RP_JSON_TREE_MOST; i++) {
        sum += quoted ? 1 : tree_bytes_of[c[i]];
        if (quoted && c[i] == '\\')
            i++;
        else if (c[i] == '"')
            quoted = !quoted;
    }
    return sum;
}

int rp_json_check_tree(struct rp_bytes text, struct rp_error *err)
{
    if (tree_bytes(text) <= RP_JSON_TREE_MOST)
        return 0;
    return rp_fail(err, RP_E_DECODE, RP_POISON,
                   "it has so many values that to read it takes more than %zu MiB",
                   RP_JSON_TREE_MOST >> 20);
}

static void say(struct rp_error *why, const json_error_t *e)
{
    (void)rp_fail(why, RP_E_DECODE, RP_POISON, "line %d, column %d: %s", e->line, e->column,
                  e->text);
}

json_t *rp_json_skeleton(struct rp_bytes text, bool *fragile, struct rp_error *why)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t e;
    if (rp_json_check_tree(text, why) != 0)
        return NULL;
    /* jansson passes over it behind a number. */
    if (text.len > 0 && memchr(text.data, '\0', text.len) != NULL) {
        (void)rp_fail(why, RP_E_DECODE, RP_POISON, "it holds a NUL byte");
        return NULL;
    }
    char *copy = malloc(text.len + 1);
    if (copy == NULL) {
        (void)rp_fail(why, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu bytes", text.len);
        return NULL;
    }
    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    (void)change_numbers(copy, text.len, blank);
    bool mended = rp_json_mend(copy, text.len);
    json_t *json = json_loadb(copy, text.len, flags, &e);
    if (json == NULL)
        say(why, &e);
    if (json != NULL && fragile != NULL) {
        json_t *strict = json_loadb(copy, text.len, flags | JSON_REJECT_DUPLICATES, NULL);
        *fragile = mended || strict == NULL;
        json_decref(strict);
    }
    free(copy);
    return json;
}
