/* SPDX-License-Identifier: Apache-2.0 */
#include "term.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "utf8.h"

#define ELLIPSIS "\xe2\x80\xa6"

/* The longest escape: \U0010FFFF. */
#define MAX_ESCAPE 12

static bool is_safe(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } unsafe[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200f},   {0x2028, 0x202e},
        {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        if (code >= unsafe[i].first && code <= unsafe[i].last)
            return false;
    return true;
}

/* The first character of `p` as it may be shown: itself, or an escape in `escape`. */
static struct rp_bytes shown(const uint8_t *p, size_t n, char escape[MAX_ESCAPE], size_t *step)
{
    uint32_t code;
    *step = rp_utf8_next(p, n, &code);
    if (*step > 0 && is_safe(code))
        return (struct rp_bytes){p, *step};
    if (*step == 0 || code < 0x80)
        (void)snprintf(escape, MAX_ESCAPE, "\\x%02x", *p);
    else if (code < 0x10000)
        (void)snprintf(escape, MAX_ESCAPE, "\\u%04" PRIx32, code);
    else
        (void)snprintf(escape, MAX_ESCAPE, "\\U%08" PRIx32, code);
    if (*step == 0)
        *step = 1;
    if (*p == '\n' || *p == '\t' || *p == '\r')
        (void)snprintf(escape, MAX_ESCAPE, "\\%c", *p == '\n' ? 'n' : *p == '\t' ? 't' : 'r');
    return rp_str(escape);
}

size_t term_line(struct rp_buf *out, struct rp_bytes text, size_t max)
{
    const uint8_t *p = text.data;
    size_t used = 0;
    for (size_t at = 0, step; at < text.len; at += step) {
        char escape[MAX_ESCAPE];
        struct rp_bytes s = shown(p + at, text.len - at, escape, &step);
        size_t width = s.data == escape ? s.len : 1;
        bool last = at + step == text.len;
        if (used + width > max - (last || max == 0 ? 0 : 1)) {
            if (max > used && rp_buf_append(out, ELLIPSIS, 3, NULL) == 0)
                used++;
            return used;
        }
        if (rp_buf_append(out, s.data, s.len, NULL) != 0)
            return used;
        used += width;
    }
    return used;
}

void term_put(FILE *out, const struct rp_buf *line)
{
    if (line->len > 0)
        (void)fwrite(line->data, 1, line->len, out);
}

void term_print(FILE *out, struct rp_bytes text, size_t max)
{
    struct rp_buf line = {0};
    (void)term_line(&line, text, max);
    term_put(out, &line);
    rp_buf_clear(&line);
}

void term_text(FILE *out, struct rp_bytes text, const char *indent)
{
    const uint8_t *p = text.data;
    bool begin = true;
    for (size_t at = 0, step; at < text.len; at += step) {
        char escape[MAX_ESCAPE];
        struct rp_bytes s = shown(p + at, text.len - at, escape, &step);
        if (begin)
            (void)fputs(indent, out);
        begin = p[at] == '\n';
        if (begin || p[at] == '\t')
            (void)fputc(p[at], out);
        else
            (void)fwrite(s.data, 1, s.len, out);
    }
    if (!begin || text.len == 0)
        (void)fputc('\n', out);
}

static void put_code_unit(FILE *out, uint32_t unit)
{
    (void)fprintf(out, "\\u%04" PRIx32, unit);
}

void term_json(FILE *out, struct rp_bytes json)
{
    const uint8_t *p = json.data;
    for (size_t at = 0, step; at < json.len; at += step) {
        uint32_t code;
        step = rp_utf8_next(p + at, json.len - at, &code);
        if (step == 0 || code == '\n' || is_safe(code)) {
            step = step == 0 ? 1 : step;
            (void)fwrite(p + at, 1, step, out);
        } else if (code < 0x10000) {
            put_code_unit(out, code);
        } else {
            put_code_unit(out, 0xd800 + ((code - 0x10000) >> 10));
            put_code_unit(out, 0xdc00 + ((code - 0x10000) & 0x3ff));
        }
    }
}

void term_hex(FILE *out, struct rp_bytes bytes, const char *indent)
{
    const uint8_t *p = bytes.data;
    for (size_t at = 0; at < bytes.len; at += 16) {
        (void)fprintf(out, "%s%08zx ", indent, at);
        for (size_t i = 0; i < 16; i++)
            if (at + i < bytes.len)
                (void)fprintf(out, " %02x", p[at + i]);
            else
                (void)fputs("   ", out);
        (void)fputs("  ", out);
        for (size_t i = 0; i < 16 && at + i < bytes.len; i++)
            (void)fputc(p[at + i] >= 0x20 && p[at + i] < 0x7f ? p[at + i] : '.', out);
        (void)fputc('\n', out);
    }
}

bool term_readable(struct rp_bytes bytes)
{
    const uint8_t *p = bytes.data;
    for (size_t at = 0, step; at < bytes.len; at += step) {
        uint32_t code;
        step = rp_utf8_next(p + at, bytes.len - at, &code);
        if (step == 0 || (!is_safe(code) && code != '\n' && code != '\t' && code != '\r'))
            return false;
    }
    return true;
}

size_t term_width(FILE *out)
{
    struct winsize size;
    if (!isatty(fileno(out)))
        return 0;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool term_colours(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return (no == NULL || *no == '\0') && (term == NULL || strcmp(term, "dumb") != 0) &&
           isatty(STDOUT_FILENO);
}

const char *term_status_colour(const char *status)
{
    static const struct {
        const char *status, *colour;
    } colours[] = {{"dead", "\x1b[31m"},
                   {"replaying", "\x1b[33m"},
                   {"replayed", "\x1b[32m"},
                   {"discarded", "\x1b[2m"}};
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strcmp(status, colours[i].status) == 0)
            return colours[i].colour;
    return "";
}
