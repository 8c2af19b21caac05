/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

#include <stdio.h>

#include "base64.h"
#include "utf8.h"

/* Behind so many pairs of spaces nobody reads any more, and a short text that is deep would be laid
 * out over gigabytes. */
#define MAX_INDENT 64

int rp_json_put(struct rp_buf *out, const char *text, struct rp_error *err)
{
    return rp_buf_append(out, text, strlen(text), err);
}

/* The escape of a character that cannot stand in a string as it is; NULL: it can. */
static const char *escape_of(uint8_t c, char room[8])
{
    static const char short_ones[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = c == '\0' ? NULL : strchr(short_ones, c);
    if (at == NULL && c >= 0x20 && c != 0x7f)
        return NULL;
    if (at != NULL)
        (void)snprintf(room, 8, "\\%c", letters[at - short_ones]);
    else
        (void)snprintf(room, 8, "\\u%04x", c);
    return room;
}

int rp_json_put_string(struct rp_buf *out, struct rp_bytes text, struct rp_error *err)
{
    const uint8_t *p = text.data;
    char room[8];
    size_t plain = 0;
    if (rp_json_put(out, "\"", err) != 0)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        const char *escape = escape_of(p[i], room);
        if (escape == NULL)
            continue;
        if (rp_buf_append(out, p + plain, i - plain, err) != 0 ||
            rp_json_put(out, escape, err) != 0)
            return -1;
        plain = i + 1;
    }
    if (text.len > plain && rp_buf_append(out, p + plain, text.len - plain, err) != 0)
        return -1;
    return rp_json_put(out, "\"", err);
}

int rp_json_put_base64(struct rp_buf *out, struct rp_bytes bytes, struct rp_error *err)
{
    if (rp_json_put(out, "{\"base64\": \"", err) != 0 || rp_base64_encode(bytes, out, err) != 0)
        return -1;
    return rp_json_put(out, "\"}", err);
}

int rp_json_put_bytes(struct rp_buf *out, struct rp_bytes bytes, struct rp_error *err)
{
    if (bytes.data == NULL)
        return rp_json_put(out, "null", err);
    return rp_utf8_valid(bytes) ? rp_json_put_string(out, bytes, err)
                                : rp_json_put_base64(out, bytes, err);
}

static int put_newline(struct rp_buf *out, const char *indent, int depth, struct rp_error *err)
{
    int rc = rp_json_put(out, "\n", err);
    if (rc == 0)
        rc = rp_json_put(out, indent, err);
    for (int i = 0; rc == 0 && i < depth && i < MAX_INDENT; i++)
        rc = rp_json_put(out, "  ", err);
    return rc;
}

/* From one quote to the other. */
static size_t string_length(const char *p, const char *end)
{
    const char *q = p + 1;
    while (q < end && *q != '"')
        q += *q == '\\' && end - q > 1 ? 2 : 1;
    return (size_t)(q - p) + (q < end);
}

int rp_json_pretty(struct rp_buf *out, struct rp_bytes json, const char *indent,
                   struct rp_error *err)
{
    const char *p = json.data, *end = p + json.len;
    bool opened = false;
    int depth = 0, rc = 0;
    for (size_t n; rc == 0 && p < end; p += n) {
        bool closes = *p == '}' || *p == ']';
        n = *p == '"' ? string_length(p, end) : 1;
        if (memchr(" \t\r\n", *p, 4) != NULL)
            continue;
        depth -= closes;
        if (opened != closes)
            rc = put_newline(out, indent, depth, err);
        opened = *p == '{' || *p == '[';
        depth += opened;
        if (rc == 0)
            rc = rp_buf_append(out, p, n, err);
        if (rc == 0 && *p == ':')
            rc = rp_json_put(out, " ", err);
        else if (rc == 0 && *p == ',')
            rc = put_newline(out, indent, depth, err);
    }
    return rc;
}

int rp_json_compact(struct rp_buf *out, struct rp_bytes json, struct rp_error *err)
{
    const char *p = json.data, *end = p + json.len;
    int rc = 0;
    for (size_t n; rc == 0 && p < end; p += n) {
        n = *p == '"' ? string_length(p, end) : 1;
        if (memchr(" \t\r\n", *p, 4) == NULL)
            rc = rp_buf_append(out, p, n, err);
    }
    return rc;
}
