/* SPDX-License-Identifier: Apache-2.0 */
#include "utf8.h"

size_t rp_utf8_next(const uint8_t *p, size_t n, uint32_t *out)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0)
        return 0;
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    size_t len = (p[0] & 0xe0) == 0xc0   ? 2
                 : (p[0] & 0xf0) == 0xe0 ? 3
                 : (p[0] & 0xf8) == 0xf0 ? 4
                                         : 0;
    if (len == 0 || len > n)
        return 0;
    uint32_t c = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < smallest[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *out = c;
    return len;
}

size_t rp_utf8_valid_prefix(struct rp_bytes text)
{
    const uint8_t *p = text.data;
    size_t i = 0;
    while (i < text.len) {
        uint64_t word;
        uint32_t c;
        if (text.len - i >= sizeof word) {
            memcpy(&word, p + i, sizeof word);
            if ((word & 0x8080808080808080u) == 0) { /* eight of ASCII at once */
                i += sizeof word;
                continue;
            }
        }
        size_t n = rp_utf8_next(p + i, text.len - i, &c);
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

size_t rp_utf8_repair(struct rp_bytes text, uint8_t *out)
{
    const size_t mark_len = sizeof RP_UTF8_REPLACEMENT - 1;
    size_t written = 0;
    for (;;) {
        size_t n = rp_utf8_valid_prefix(text);
        if (out != NULL && n > 0)
            memcpy(out + written, text.data, n);
        written += n;
        if (n == text.len)
            return written;
        if (out != NULL)
            memcpy(out + written, RP_UTF8_REPLACEMENT, mark_len);
        written += mark_len;
        text = (struct rp_bytes){(const uint8_t *)text.data + n + 1, text.len - n - 1};
    }
}
