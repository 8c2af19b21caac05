/* SPDX-License-Identifier: Apache-2.0 */
#include "json_span.h"

static void skip_space(struct rp_json_cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\r' || *c->p == '\t'))
        c->p++;
}

/* From one quote to behind the other. */
static void skip_string(struct rp_json_cursor *c)
{
    for (c->p++; c->p < c->end && *c->p != '"'; c->p++)
        if (*c->p == '\\' && c->end - c->p > 1)
            c->p++;
    if (c->p < c->end)
        c->p++;
}

/* Numbers, true, false and null end where punctuation or space begins. */
static void skip_scalar(struct rp_json_cursor *c)
{
    while (c->p < c->end && strchr(",]} \n\r\t", *c->p) == NULL)
        c->p++;
}

static void skip_value(struct rp_json_cursor *c)
{
    size_t depth = 0;
    do {
        if (c->p == c->end)
            return;
        if (*c->p == '"') {
            skip_string(c);
        } else if (*c->p == '{' || *c->p == '[') {
            depth++;
            c->p++;
        } else if (*c->p == '}' || *c->p == ']') {
            depth--;
            c->p++;
        } else if (depth == 0) {
            skip_scalar(c);
        } else {
            c->p++;
        }
    } while (depth > 0);
}

void rp_json_open(struct rp_bytes container, struct rp_json_cursor *out)
{
    *out = (struct rp_json_cursor){container.data, (const char *)container.data + container.len};
    skip_space(out);
}

bool rp_json_next(struct rp_json_cursor *c, struct rp_bytes *name, struct rp_bytes *value)
{
    skip_space(c);
    if (c->p == c->end || strchr("{[,", *c->p) == NULL)
        return false;
    c->p++;
    skip_space(c);
    const char *begin = c->p;
    if (c->p == c->end || *c->p == '}' || *c->p == ']')
        return false;
    skip_value(c);
    *name = RP_NULL_BYTES;
    *value = (struct rp_bytes){begin, (size_t)(c->p - begin)};
    skip_space(c);
    if (c->p == c->end || *c->p != ':')
        return true;
    c->p++;
    skip_space(c);
    begin = c->p;
    skip_value(c);
    *name = *value;
    *value = (struct rp_bytes){begin, (size_t)(c->p - begin)};
    return true;
}

struct rp_bytes rp_json_member(struct rp_bytes object, const char *name)
{
    struct rp_json_cursor c;
    struct rp_bytes found = RP_NULL_BYTES, wanted = rp_str(name), quoted, value;
    rp_json_open(object, &c);
    while (rp_json_next(&c, &quoted, &value)) {
        if (quoted.len < 2)
            continue;
        quoted = (struct rp_bytes){(const char *)quoted.data + 1, quoted.len - 2};
        if (rp_bytes_equal(quoted, wanted))
            found = value;
    }
    return found;
}

/* The code unit of an escape like \u00e4 at `p`, or -1. */
static int code_unit(const char *p, size_t left)
{
    int unit = 0;
    if (left < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

bool rp_json_mend_surrogates(char *text, size_t len)
{
    bool mended = false;
    for (size_t i = 0; i < len;) {
        int unit = code_unit(text + i, len - i);
        if (unit < 0xd800 || unit > 0xdfff) {
            i += text[i] == '\\' ? 2 : 1; /* so that the second of two backslashes begins nothing */
            continue;
        }
        int next = len - i < 12 ? -1 : code_unit(text + i + 6, 6);
        if (unit < 0xdc00 && next >= 0xdc00 && next <= 0xdfff) {
            i += 12;
            continue;
        }
        memcpy(text + i + 2, "fffd", 4);
        mended = true;
        i += 6;
    }
    return mended;
}

static bool mend_nuls(char *name, size_t len)
{
    bool mended = false;
    for (size_t i = 0; i < len;) {
        bool nul = code_unit(name + i, len - i) == 0;
        if (nul)
            memcpy(name + i + 2, "fffd", 4);
        mended = mended || nul;
        i += nul ? 6 : name[i] == '\\' ? 2 : 1;
    }
    return mended;
}

bool rp_json_mend(char *text, size_t len)
{
    bool mended = rp_json_mend_surrogates(text, len);
    struct rp_json_cursor c = {text, text + len};
    while (c.p < c.end) {
        const size_t begin = (size_t)(c.p - text);
        if (*c.p != '"') {
            c.p++;
            continue;
        }
        skip_string(&c);
        const size_t n = (size_t)(c.p - text) - begin;
        skip_space(&c);
        if (c.p < c.end && *c.p == ':' && mend_nuls(text + begin, n))
            mended = true;
    }
    return mended;
}
