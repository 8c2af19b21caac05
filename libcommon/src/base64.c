/* SPDX-License-Identifier: Apache-2.0 */
#include "base64.h"

static int sextet_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Whether what is left is padding for a last group of `n` characters. */
static bool is_padding(const char *p, size_t len, size_t n)
{
    size_t pads = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '=')
            pads++;
        else if (!is_space(p[i]))
            return false;
    }
    return pads == 0 || n + pads == 4;
}

size_t rp_base64_decode(struct rp_bytes text, uint8_t *out, size_t *bad)
{
    const char *p = text.data;
    size_t i = 0, written = 0, n = 0;
    uint32_t group = 0;
    for (; i < text.len && p[i] != '='; i++) {
        if (is_space(p[i]))
            continue;
        int sextet = sextet_of(p[i]);
        if (sextet < 0)
            goto bad;
        group = group << 6 | (uint32_t)sextet;
        if (++n < 4)
            continue;
        out[written++] = (uint8_t)(group >> 16);
        out[written++] = (uint8_t)(group >> 8);
        out[written++] = (uint8_t)group;
        n = 0;
    }
    if (n == 1 || !is_padding(p + i, text.len - i, n))
        goto bad;
    if (n >= 2)
        out[written++] = (uint8_t)(group >> (6 * n - 8));
    if (n == 3)
        out[written++] = (uint8_t)(group >> 2);
    return written;
bad:
    *bad = i;
    return SIZE_MAX;
}

int rp_base64_encode(struct rp_bytes bytes, struct rp_buf *out, struct rp_error *err)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = bytes.data;
    if (rp_buf_reserve(out, bytes.len / 3 * 4 + 4, err) != 0)
        return -1;
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t group = (uint32_t)p[i] << 16;
        group |= n > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        group |= n > 2 ? p[i + 2] : 0;
        for (size_t c = 0; c < 4; c++)
            out->data[out->len++] = c > n ? '=' : (uint8_t)alphabet[group >> (18 - 6 * c) & 63];
    }
    return 0;
}
