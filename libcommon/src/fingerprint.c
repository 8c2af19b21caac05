/* SPDX-License-Identifier: Apache-2.0 */
#include "fingerprint.h"

#include <xxhash.h>

#include "utf8.h"

/* How far a pattern looks ahead, so that the time stays linear in the message's length. */
#define LOOK_AHEAD 1024
#define EMAIL_MAX  254

/* A random id: so long, and so often from a letter to a digit or back. */
#define ID_MIN     8
#define ID_CHANGES 3
#define BASE64_MIN 32
#define HEX_MIN    8

/* The end of a run of base64's characters: from byte `from` to `end`, and what is in it. The run
 * may have many words, each of which may begin some base64. */
struct tail {
    size_t from, end;
    size_t changes;
    size_t upper, lower; /* behind the last of them; 0: none */
};

struct scan {
    const uint8_t *start, *p, *end;
    struct tail *tail;
    char *out;
    size_t n;
    bool full;
};

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(uint8_t c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static bool is_hex(uint8_t c)
{
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool is_alnum(uint8_t c)
{
    return is_digit(c) || is_letter(c);
}

/* The byte `i` from here, 0 behind the end. */
static uint8_t at(const struct scan *s, size_t i)
{
    return i < (size_t)(s->end - s->p) ? s->p[i] : 0;
}

static uint8_t before(const struct scan *s)
{
    return s->p == s->start ? ' ' : s->p[-1];
}

/* Whole characters only: what does not fit ends the mask. */
static void put(struct scan *s, const void *text, size_t n)
{
    if (n > RP_MASK_MAX - s->n) {
        s->full = true;
        return;
    }
    memcpy(s->out + s->n, text, n);
    s->n += n;
}

static bool put_before(const struct scan *s, size_t end, const char *mask, size_t n)
{
    return end >= n && memcmp(s->out + end - n, mask, n) == 0;
}

/* Puts a mask for the next `n` bytes, none behind "mask," or "mask, ": so lists of any length are
 * alike. */
static bool mask(struct scan *s, size_t n, const char *text)
{
    size_t len = strlen(text), end = s->n;
    s->p += n;
    if (end > 0 && s->out[end - 1] == ' ')
        end--;
    if (end > 0 && s->out[end - 1] == ',' && put_before(s, end - 1, text, len))
        s->n = end - 1;
    else
        put(s, text, len);
    return true;
}

static size_t digits(const struct scan *s, size_t i)
{
    size_t n = 0;
    while (is_digit(at(s, i + n)))
        n++;
    return n;
}

static size_t hex_digits(const struct scan *s, size_t i)
{
    size_t n = 0;
    while (is_hex(at(s, i + n)))
        n++;
    return n;
}

/* A number from i on: 12, 3.14, 1,000,000.5, 1e-9. */
static size_t number(const struct scan *s, size_t i)
{
    size_t n = digits(s, i), more;
    if (n == 0)
        return 0;
    while ((at(s, i + n) == '.' || at(s, i + n) == ',') && (more = digits(s, i + n + 1)) > 0)
        n += 1 + more;
    if ((at(s, i + n) | 0x20) == 'e') {
        size_t sign = at(s, i + n + 1) == '-' || at(s, i + n + 1) == '+' ? 1 : 0;
        more = digits(s, i + n + 1 + sign);
        if (more > 0 && !is_alnum(at(s, i + n + 1 + sign + more)))
            n += 1 + sign + more;
    }
    return n;
}

/* Any of them tells how many bytes from here it takes; 0: it is something else. */
typedef size_t pattern_fn(const struct scan *s);

static size_t url(const struct scan *s)
{
    size_t n = 0;
    while (n < 32 && (is_alnum(at(s, n)) || at(s, n) == '+'))
        n++;
    if (n < 2 || !is_letter(at(s, 0)) || at(s, n) != ':' || at(s, n + 1) != '/' ||
        at(s, n + 2) != '/')
        return 0;
    for (n += 3; at(s, n) > ' ' && strchr("\"'<>`{}|\\^", at(s, n)) == NULL;)
        n++;
    while (strchr(".,;:!?)]", at(s, n - 1)) != NULL)
        n--;
    return n;
}

static bool in_email(uint8_t c)
{
    return is_alnum(c) || (c != 0 && strchr("._%+-", c) != NULL);
}

static size_t email(const struct scan *s)
{
    size_t n = 0, dot = 0;
    while (n < EMAIL_MAX && in_email(at(s, n)))
        n++;
    if (n == 0 || at(s, n) != '@')
        return 0;
    for (n++; n < EMAIL_MAX && (is_alnum(at(s, n)) || at(s, n) == '-' || at(s, n) == '.'); n++)
        if (at(s, n) == '.' && is_letter(at(s, n + 1)))
            dot = n;
    while (at(s, n - 1) == '.' || at(s, n - 1) == '-')
        n--;
    return dot > 0 && dot < n ? n : 0;
}

static size_t uuid(const struct scan *s)
{
    static const size_t groups[] = {8, 4, 4, 4, 12};
    size_t n = 0;
    for (size_t i = 0; i < 5; i++) {
        if (hex_digits(s, n) != groups[i] || (i < 4 && at(s, n + groups[i]) != '-'))
            return 0;
        n += groups[i] + 1;
    }
    return is_alnum(at(s, n - 1)) ? 0 : n - 1;
}

/* 3:34:33, 03:34, 03:34:33,123; what follows a date may lack the seconds. */
static size_t clock_time(const struct scan *s, size_t i, bool seconds)
{
    size_t n = digits(s, i);
    if (n < 1 || n > 2 || at(s, i + n) != ':' || digits(s, i + n + 1) != 2)
        return 0;
    n += 3;
    if (at(s, i + n) != ':' || digits(s, i + n + 1) != 2)
        return seconds ? 0 : n;
    n += 3;
    if ((at(s, i + n) == '.' || at(s, i + n) == ',') && digits(s, i + n + 1) > 0)
        n += 1 + digits(s, i + n + 1);
    return n;
}

static size_t zone(const struct scan *s, size_t i)
{
    if (at(s, i) == 'Z' && !is_alnum(at(s, i + 1)))
        return 1;
    if (at(s, i) != '+' && at(s, i) != '-')
        return 0;
    size_t n = digits(s, i + 1);
    if (n == 4)
        return 5;
    if (n != 2)
        return 0;
    return at(s, i + 3) == ':' && digits(s, i + 4) == 2 ? 6 : 3;
}

/* ISO 8601 and its kin, or a time of the day. */
static size_t timestamp(const struct scan *s)
{
    size_t n = 0, time;
    if (digits(s, 0) == 4 && (at(s, 4) == '-' || at(s, 4) == '/') && digits(s, 5) == 2 &&
        at(s, 7) == at(s, 4) && digits(s, 8) == 2) {
        n = 10;
        uint8_t c = at(s, n);
        time = c == 'T' || c == ' ' || c == '_' ? clock_time(s, n + 1, false) : 0;
        n += time > 0 ? 1 + time : 0;
    } else {
        n = time = clock_time(s, 0, true);
    }
    if (time > 0)
        n += zone(s, n);
    return n > 0 && is_alnum(at(s, n)) ? 0 : n;
}

/* Of three letters each. */
static size_t named(const struct scan *s, size_t i, const char *names)
{
    for (; *names != '\0'; names += 3)
        if (at(s, i) == (uint8_t)names[0] && at(s, i + 1) == (uint8_t)names[1] &&
            at(s, i + 2) == (uint8_t)names[2])
            return is_letter(at(s, i + 3)) ? 0 : 3;
    return 0;
}

/* Sat, 21 Nov 2026 03:34:33 GMT; Sat Nov 21 03:34:33 UTC 2026; Nov 21 03:34:33. */
static size_t date(const struct scan *s)
{
    static const char days[] = "MonTueWedThuFriSatSun";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    size_t n = 0, end = 0, n_months = 0, n_numbers = 0, word;
    while (n < 48) {
        if ((word = digits(s, n)) > 0 && word <= 4) {
            size_t time = clock_time(s, n, false);
            n_numbers++;
            n += time > 0 ? time : word;
            n += zone(s, n);
        } else if ((word = named(s, n, months)) > 0) {
            n_months++;
            n += word;
        } else if ((word = named(s, n, days)) > 0 ||
                   (end > 0 && (word = named(s, n, "GMTUTC")) > 0)) {
            n += word;
        } else {
            break;
        }
        end = n;
        while (at(s, n) == ' ' || at(s, n) == ',' || at(s, n) == '-' || at(s, n) == '/')
            n++;
        if (n > end + 2)
            break;
    }
    return n_months == 1 && n_numbers >= 2 && !is_alnum(at(s, end)) ? end : 0;
}

static size_t date_in_words(const struct scan *s)
{
    return is_letter(at(s, 0)) ? date(s) : 0;
}

static size_t port(const struct scan *s, size_t i)
{
    size_t n = at(s, i) == ':' ? digits(s, i + 1) : 0;
    return n > 0 && n <= 5 ? n + 1 : 0;
}

static size_t ipv4(const struct scan *s)
{
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        size_t group = digits(s, n);
        if (group < 1 || group > 3 || (i < 3 && at(s, n + group) != '.'))
            return 0;
        n += group + 1;
    }
    n--;
    n += port(s, n);
    return is_alnum(at(s, n)) || (at(s, n) == '.' && is_digit(at(s, n + 1))) ? 0 : n;
}

/* IPv6, and hardware addresses. */
static size_t ipv6(const struct scan *s)
{
    size_t n = 0, colons = 0, pairs = 0, group;
    bool gap = false;
    while (n < 46) {
        group = hex_digits(s, n);
        if (group > 4)
            return 0;
        pairs += group == 2;
        n += group;
        if (at(s, n) != ':' || (!is_hex(at(s, n + 1)) && at(s, n + 1) != ':'))
            break;
        gap = gap || at(s, n + 1) == ':';
        colons++;
        n++;
    }
    bool known = (gap && colons >= 2) || colons == 7 || (colons == 5 && pairs == 6);
    return known && !is_alnum(at(s, n)) ? n : 0;
}

/* Go's 1m30.5s, and 500ms. */
static size_t duration(const struct scan *s)
{
    static const char *const units[] = {"ns", "us", "\xc2\xb5s", "ms", "s", "m", "h", "d"};
    size_t n = 0, amount;
    while ((amount = number(s, n)) > 0) {
        size_t unit = 0;
        for (size_t i = 0; i < sizeof units / sizeof *units && unit == 0; i++) {
            size_t len = strlen(units[i]);
            if ((size_t)(s->end - s->p) >= n + amount + len &&
                memcmp(s->p + n + amount, units[i], len) == 0 &&
                !is_letter(at(s, n + amount + len)))
                unit = len;
        }
        if (unit == 0)
            return 0;
        n += amount + unit;
    }
    return is_alnum(at(s, n)) ? 0 : n;
}

static size_t prefixed_hex(const struct scan *s)
{
    if (at(s, 0) != '0' || (at(s, 1) | 0x20) != 'x')
        return 0;
    size_t n = hex_digits(s, 2);
    return n == 0 || is_alnum(at(s, 2 + n)) ? 0 : 2 + n;
}

/* What is known of a run of letters and digits. */
struct run {
    size_t len, n_digits, changes;
    bool hex;
};

static bool is_change(uint8_t c, uint8_t last)
{
    return (is_digit(c) && is_letter(last)) || (is_letter(c) && is_digit(last));
}

static void add_to_run(struct run *r, uint8_t c, uint8_t last)
{
    r->len++;
    r->n_digits += is_digit(c);
    r->hex = r->hex && is_hex(c);
    r->changes += is_change(c, last);
}

static void find_tail(const struct scan *s, struct tail *t)
{
    uint8_t c, last = 0;
    t->from = t->end = (size_t)(s->p - s->start);
    t->changes = t->upper = t->lower = 0;
    for (; (c = at(s, t->end - t->from)) != 0 && (is_alnum(c) || strchr("+/_=", c) != NULL);
         last = c) {
        t->end++;
        t->changes += is_change(c, last);
        if (is_letter(c))
            *(c >= 'a' ? &t->lower : &t->upper) = t->end;
    }
}

/* What is known of a run is not counted again for each word in it, so that the time stays linear.
 */
static size_t base64(const struct scan *s)
{
    struct tail *t = s->tail;
    size_t p = (size_t)(s->p - s->start), len;
    if (p >= t->end)
        find_tail(s, t);
    for (; t->from < p; t->from++)
        t->changes -= is_change(s->start[t->from + 1], s->start[t->from]);
    len = t->end - p;
    return len >= BASE64_MIN && t->upper > p && t->lower > p && t->changes >= len / 8 ? len : 0;
}

/* A random id, and what is joined to it: 7d9f8b6c5d-x2x4z. */
static size_t id(const struct scan *s)
{
    struct run r = {.hex = true};
    uint8_t c, last = 0;
    for (; is_alnum(c = at(s, r.len)); last = c)
        add_to_run(&r, c, last);
    bool hex = r.hex && r.n_digits > 0 && r.n_digits < r.len && r.len >= HEX_MIN;
    bool object = r.hex && r.len >= 4 && before(s) == '@';
    bool mixed = r.len >= ID_MIN && (r.changes >= ID_CHANGES ||
                                     (r.changes == ID_CHANGES - 1 && r.n_digits >= r.len / 3));
    if (!hex && !object && !mixed)
        return 0;
    size_t n = r.len;
    while (is_alnum(c = at(s, n)) || (c != 0 && strchr("_+=-", c) != NULL))
        n++;
    while (at(s, n - 1) == '-' || at(s, n - 1) == '_')
        n--;
    return n;
}

static const struct {
    pattern_fn *find;
    const char *mask;
} patterns[] = {
    {url, "<url>"},
    {email, "<email>"},
    {uuid, "<uuid>"},
    {timestamp, "<time>"},
    {date_in_words, "<time>"},
    {ipv4, "<ip>"},
    {ipv6, "<ip>"},
    {prefixed_hex, "#"},
    {duration, "#"},
    {base64, "#"},
    {id, "#"},
};

static bool mask_word(struct scan *s)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        size_t n = patterns[i].find(s);
        if (n > 0)
            return mask(s, n, patterns[i].mask);
    }
    return false;
}

/* Opening quotes, what closes them, and the mask. */
static const struct {
    const char *open, *close, *mask;
} quotes[] = {
    {"'", "'", "'*'"},
    {"\"", "\"", "\"*\""},
    {"`", "`", "`*`"},
    {"\xe2\x80\x98", "\xe2\x80\x99", "'*'"},   /* ‘ ’ */
    {"\xe2\x80\x9c", "\xe2\x80\x9d", "\"*\""}, /* “ ” */
    {"\xc2\xab", "\xc2\xbb", "\"*\""},         /* « » */
    {"=(", ")", "=(*)"},
};

static bool begins(const struct scan *s, size_t i, const char *text)
{
    if (at(s, i) != (uint8_t)*text)
        return false;
    size_t n = strlen(text);
    return (size_t)(s->end - s->p) >= i + n && memcmp(s->p + i, text, n) == 0;
}

/* A quote behind a letter is an apostrophe, and so is one in front of it. */
static bool mask_quoted(struct scan *s, size_t kind)
{
    const char *close = quotes[kind].close;
    size_t len = strlen(close);
    for (size_t i = strlen(quotes[kind].open); i < LOOK_AHEAD && at(s, i) != 0; i++) {
        if (at(s, i) == '\\')
            i++;
        else if (begins(s, i, close) && !is_alnum(at(s, i + len)))
            return mask(s, i + len, quotes[kind].mask);
    }
    return false;
}

static bool mask_quotes(struct scan *s)
{
    uint8_t c = at(s, 0);
    if (c != '\'' && c != '"' && c != '`' && c != '=' && c < 0x80)
        return false;
    for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++)
        if (begins(s, 0, quotes[i].open) && (c == '=' || !is_alnum(before(s))) && mask_quoted(s, i))
            return true;
    return false;
}

static bool mask_number(struct scan *s)
{
    uint8_t c = at(s, 0), last = before(s);
    bool sign = (c == '-' || c == '+') && (last <= ' ' || strchr("=(,:[<>", last) != NULL);
    size_t n = number(s, sign ? 1 : 0);
    return n > 0 && mask(s, n + sign, "#");
}

static void copy_character(struct scan *s)
{
    uint32_t point;
    size_t n = rp_utf8_next(s->p, (size_t)(s->end - s->p), &point);
    if (n == 0)
        put(s, RP_UTF8_REPLACEMENT, 3);
    else if (point > ' ' && point != 0x7f && (point < 0x80 || point > 0x9f))
        put(s, s->p, n);
    else if (s->n > 0 && s->out[s->n - 1] != ' ')
        put(s, " ", 1);
    s->p += n == 0 ? 1 : n;
}

size_t rp_fingerprint_mask(struct rp_bytes message, char out[RP_MASK_MAX])
{
    const uint8_t *data = message.data == NULL ? (const uint8_t *)"" : message.data;
    struct tail tail = {0};
    struct scan s = {
        .start = data, .p = data, .end = data + message.len, .tail = &tail, .out = out};
    while (s.p < s.end && !s.full) {
        uint8_t c = *s.p;
        bool begins_word = (is_alnum(c) || c == ':') && !is_alnum(before(&s));
        if (mask_quotes(&s) || (begins_word && mask_word(&s)) || mask_number(&s))
            continue;
        copy_character(&s);
    }
    while (s.n > 0 && out[s.n - 1] == ' ')
        s.n--;
    return s.n;
}

/* Each field's hash is the seed of the next, so that where one ends makes a difference. */
static uint64_t hash(struct rp_bytes field, uint64_t seed)
{
    return field.data == NULL ? ~seed : XXH3_64bits_withSeed(field.data, field.len, seed);
}

int64_t rp_fingerprint(struct rp_bytes task_type, struct rp_bytes error_class,
                       struct rp_bytes masked)
{
    uint64_t h = hash(masked, hash(error_class, hash(task_type, RP_FINGERPRINT_VERSION)));
    return h == 0 ? 1 : (int64_t)h;
}
