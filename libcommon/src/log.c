/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "utf8.h"

/* No longer than PIPE_BUF, so that the lines of several processes on one pipe do not mix. */
#define LINE_MAX_BYTES 4096u
/* Kept free for the mark that fields are missing, the closing brace and the newline. */
#define TAIL_BYTES 32u
/* What is shown of one value. */
#define VALUE_MAX 512u

static struct {
    atomic_int level;
    bool json;
    char service[32];
} setup = {.level = RP_LOG_INFO, .service = "reprise"};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

struct line {
    size_t len;
    bool full; /* something did not fit; nothing more is taken */
    char text[LINE_MAX_BYTES];
};

void rp_log_setup(enum rp_log_level level, bool json, const char *service)
{
    setup.level = (int)level;
    setup.json = json;
    (void)snprintf(setup.service, sizeof setup.service, "%s", service);
}

static void put(struct line *l, const char *text, size_t n)
{
    if (l->full || n > LINE_MAX_BYTES - TAIL_BYTES - l->len) {
        l->full = true;
        return;
    }
    memcpy(l->text + l->len, text, n);
    l->len += n;
}

static void RP_PRINTF(2, 3) putf(struct line *l, const char *fmt, ...)
{
    char piece[128];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(piece, sizeof piece, fmt, args);
    va_end(args);
    if (n > 0)
        put(l, piece, (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1);
}

/* A terminal acts on these, or shows the rest of the line in another order. */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

static void put_character(struct line *l, const uint8_t *p, size_t n, uint32_t c)
{
    if (c == '"' || c == '\\')
        putf(l, "\\%c", (char)c);
    else if (c == '\n')
        put(l, "\\n", 2);
    else if (is_control(c))
        putf(l, "\\u%04" PRIx32, c);
    else
        put(l, (const char *)p, n);
}

/* A JSON string, in both formats. What is not UTF-8 becomes U+FFFD. */
static void put_quoted(struct line *l, struct rp_bytes b)
{
    const uint8_t *p = b.data;
    size_t at = 0;
    put(l, "\"", 1);
    while (at < b.len && at < VALUE_MAX) {
        uint32_t c;
        size_t n = rp_utf8_next(p + at, b.len - at, &c);
        if (n == 0)
            put(l, RP_UTF8_REPLACEMENT, sizeof RP_UTF8_REPLACEMENT - 1);
        else
            put_character(l, p + at, n, c);
        at += n == 0 ? 1 : n;
    }
    if (at < b.len)
        put(l, "...", 3);
    put(l, "\"", 1);
}

static bool is_plain(struct rp_bytes b)
{
    const uint8_t *p = b.data;
    if (b.len == 0 || b.len > VALUE_MAX)
        return false;
    for (size_t i = 0; i < b.len; i++)
        if (p[i] <= ' ' || p[i] >= 0x7f || p[i] == '"' || p[i] == '\\' || p[i] == '=')
            return false;
    return true;
}

static void put_value(struct line *l, const struct rp_field *f)
{
    if (f->type == RP_FIELD_INT)
        putf(l, "%" PRId64, f->number);
    else if (f->bytes.data == NULL)
        put(l, "null", 4);
    else if (!setup.json && is_plain(f->bytes))
        put(l, f->bytes.data, f->bytes.len);
    else
        put_quoted(l, f->bytes);
}

/* All of a field or nothing of it, so that a full line is still well formed. */
static void put_field(struct line *l, const struct rp_field *f)
{
    size_t before = l->len;
    putf(l, setup.json ? ",\"%s\":" : " %s=", f->key);
    put_value(l, f);
    if (l->full)
        l->len = before;
}

static void put_head(struct line *l, enum rp_log_level level, const char *event)
{
    int64_t now_ms = rp_wall_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm t;
    char stamp[32];
    if (gmtime_r(&seconds, &t) == NULL || strftime(stamp, sizeof stamp, "%FT%T", &t) == 0)
        stamp[0] = '\0';
    putf(l, setup.json ? "{\"time\":\"%s.%03dZ\"" : "%s.%03dZ", stamp, (int)(now_ms % 1000));
    putf(l, setup.json ? ",\"level\":\"%s\",\"service\":\"%s\"" : " %-5s %s", level_names[level],
         setup.service);
    putf(l, setup.json ? ",\"event\":\"%s\"" : " %s", event);
}

/* Into the bytes that put() keeps free. */
static void put_tail(struct line *l)
{
    const char *cut = !l->full ? "" : setup.json ? ",\"truncated\":true" : " truncated=true";
    int n = snprintf(l->text + l->len, TAIL_BYTES, "%s%s\n", cut, setup.json ? "}" : "");
    l->len += (size_t)n;
}

bool rp_log_shows(enum rp_log_level level)
{
    return (int)level >= atomic_load_explicit(&setup.level, memory_order_relaxed);
}

void rp_log_fields(enum rp_log_level level, const char *event, const struct rp_field *fields)
{
    struct line l;
    if (!rp_log_shows(level))
        return;
    l.len = 0;
    l.full = false;
    put_head(&l, level, event);
    for (; fields->key != NULL && !l.full; fields++)
        put_field(&l, fields);
    put_tail(&l);
    /* There is nowhere to report a log that cannot be written. */
    while (write(STDERR_FILENO, l.text, l.len) < 0 && errno == EINTR)
        continue;
}
