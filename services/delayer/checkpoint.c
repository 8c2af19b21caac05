/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void checkpoint_init(struct checkpoint *c, int64_t high, int64_t reach_ms)
{
    *c = (struct checkpoint){.high = high, .settled = SETTLED_NOTHING, .n_reaches = 1};
    c->reaches[0] = (struct reach){0, reach_ms};
}

/* Passes over `word` at *p; false, where something else stands there. */
static bool skip(const char **p, const char *end, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(end - *p) < n || memcmp(*p, word, n) != 0)
        return false;
    *p += n;
    return true;
}

static bool read_number(const char **p, const char *end, int64_t *out)
{
    bool negative = skip(p, end, "-");
    const char *digits = *p;
    int64_t n = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p) {
        int digit = negative ? '0' - **p : **p - '0';
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
            return false;
    }
    *out = n;
    return *p > digits;
}

static bool read_key(const char **p, const char *end, struct settle_key *out)
{
    if (skip(p, end, "- ")) {
        *out = SETTLED_NOTHING;
        return true;
    }
    return read_number(p, end, &out->ms) && skip(p, end, ":") &&
           read_number(p, end, &out->offset) && skip(p, end, " ") && out->offset >= 0;
}

static bool read_reaches(const char **p, const char *end, struct checkpoint *out)
{
    out->n_reaches = 0;
    do {
        if (out->n_reaches == CHECKPOINT_MAX_REACHES)
            return false;
        struct reach *r = &out->reaches[out->n_reaches++];
        if (!read_number(p, end, &r->from) || !skip(p, end, ":") || !read_number(p, end, &r->ms))
            return false;
        if (r->ms < 0 || (out->n_reaches > 1 && r->from <= r[-1].from))
            return false;
    } while (skip(p, end, ","));
    return true;
}

bool checkpoint_read(struct rp_bytes text, int64_t low, struct checkpoint *out)
{
    if (text.len == 0)
        return false;
    const char *p = text.data, *end = p + text.len;
    if (!skip(&p, end, "reprise/1 high=") || !read_number(&p, end, &out->high) ||
        !skip(&p, end, " settled=") || !read_key(&p, end, &out->settled) ||
        !skip(&p, end, "reach=") || !read_reaches(&p, end, out) || p != end)
        return false;
    return low <= out->high && out->settled.offset < out->high && out->reaches[0].from <= low &&
           out->reaches[out->n_reaches - 1].from <= out->high;
}

/* The first reach that still counts at `low` or above. */
static size_t first_reach(const struct checkpoint *c, int64_t low)
{
    size_t i = 0;
    while (i + 1 < c->n_reaches && c->reaches[i + 1].from <= low)
        i++;
    return i;
}

RP_PRINTF(4, 5)
static size_t put(char *out, size_t size, size_t len, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out + len, size - len, fmt, args);
    va_end(args);
    assert(n > 0 && (size_t)n < size - len);
    return len + (size_t)n;
}

void checkpoint_write(const struct checkpoint *c, int64_t low, char *out, size_t size)
{
    assert(low >= 0 && low <= c->high);
    size_t len = put(out, size, 0, "reprise/1 high=%" PRId64 " settled=", c->high);
    if (c->settled.offset < 0)
        len = put(out, size, len, "- reach=");
    else
        len =
            put(out, size, len, "%" PRId64 ":%" PRId64 " reach=", c->settled.ms, c->settled.offset);
    size_t first = first_reach(c, low);
    for (size_t i = first; i < c->n_reaches; i++)
        len = put(out, size, len, "%s%" PRId64 ":%" PRId64, i > first ? "," : "",
                  c->reaches[i].from, c->reaches[i].ms);
}

int64_t checkpoint_reach(const struct checkpoint *c, int64_t offset)
{
    return c->reaches[first_reach(c, offset)].ms;
}

void checkpoint_change_reach(struct checkpoint *c, int64_t reach_ms)
{
    struct reach *last = &c->reaches[c->n_reaches - 1];
    if (last->ms == reach_ms)
        return;
    if (last->from == c->high)
        last->ms = reach_ms; /* nothing was settled under it yet */
    else if (c->n_reaches < CHECKPOINT_MAX_REACHES)
        c->reaches[c->n_reaches++] = (struct reach){c->high, reach_ms};
}

void checkpoint_cut(struct checkpoint *c, int64_t end)
{
    if (end >= c->high)
        return;
    c->high = end;
    if (end == 0)
        c->settled = SETTLED_NOTHING;
    else if (c->settled.offset >= end)
        c->settled.offset = end - 1; /* among the records below `end` this is the same place */
    int64_t now = c->reaches[c->n_reaches - 1].ms;
    while (c->n_reaches > 1 && c->reaches[c->n_reaches - 1].from >= end)
        c->n_reaches--;
    checkpoint_change_reach(c, now);
}
