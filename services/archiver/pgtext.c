/* SPDX-License-Identifier: Apache-2.0 */
#include "pgtext.h"

#include <stdio.h>

#include "utf8.h"

/* The length of the character at `p`; 0 where there is none that PostgreSQL takes. */
static size_t character(const uint8_t *p, size_t n)
{
    uint32_t code;
    size_t len = rp_utf8_next(p, n, &code);
    return len > 0 && code != 0 ? len : 0;
}

#define BYTES(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether eight bytes are all ASCII, and none of them NUL. */
static bool is_ascii(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return (((word - BYTES(1)) | word) & BYTES(0x80)) == 0;
}

static bool is_text(struct rp_bytes text)
{
    const uint8_t *p = text.data;
    for (size_t at = 0, len; at < text.len; at += len) {
        bool plain = text.len - at >= 8 && is_ascii(p + at);
        len = plain ? 8 : character(p + at, text.len - at);
        if (len == 0)
            return false;
    }
    return true;
}

bool pgtext_fits(struct rp_bytes text, size_t max)
{
    return text.len <= max && is_text(text);
}

int pgtext_escape(struct rp_buf *out, struct rp_bytes text, size_t max, struct rp_error *err)
{
    const uint8_t *p = text.data;
    bool escape = !is_text(text);
    size_t end = max < SIZE_MAX - out->len ? out->len + max : SIZE_MAX;
    for (size_t at = 0, step; at < text.len; at += step) {
        char code[8];
        const void *from = p + at;
        size_t len = step = character(p + at, text.len - at);
        if (step == 0) {
            step = 1;
            len = (size_t)snprintf(code, sizeof code, "\\x%02X", p[at]);
            from = code;
        } else if (escape && p[at] == '\\') {
            len = 2;
            from = "\\\\";
        }
        if (len > end - out->len)
            return 0;
        if (rp_buf_append(out, from, len, err) != 0)
            return -1;
    }
    return 0;
}

bool pgtext_copy(struct copy *c, struct rp_bytes text, size_t max)
{
    struct rp_buf escaped = {0};
    if (text.data == NULL || pgtext_fits(text, max)) {
        copy_bytes(c, text);
        return false;
    }
    if (pgtext_escape(&escaped, text, max, NULL) != 0)
        c->failed = true;
    else
        copy_bytes(c, escaped.data == NULL ? rp_str("") : rp_buf_bytes(&escaped));
    rp_buf_clear(&escaped);
    return true;
}
