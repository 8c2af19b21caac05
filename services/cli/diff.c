/* SPDX-License-Identifier: Apache-2.0 */
#include "diff.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_text.h"
#include "term.h"

/* Unchanged lines that are shown around what changed. */
#define CONTEXT 3
/* Pairs of lines that are compared at most; what differs in more is shown as exchanged whole. */
#define MAX_PAIRS 4000000u

struct lines {
    struct rp_bytes *items;
    size_t n;
};

struct diff {
    FILE *out;
    bool coloured;
    struct lines old, new;
    size_t head, tail; /* lines that both begin and end with */
};

static bool split(struct rp_bytes text, struct lines *out)
{
    const char *p = text.data, *end = p == NULL ? p : p + text.len;
    size_t room = 1;
    for (const char *q = p; q < end; q++)
        room += *q == '\n';
    *out = (struct lines){calloc(room, sizeof *out->items), 0};
    while (out->items != NULL && p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop == NULL ? end : stop;
        out->items[out->n++] = (struct rp_bytes){p, (size_t)(stop - p)};
        p = stop == end ? end : stop + 1;
    }
    return out->items != NULL;
}

static void print_line(const struct diff *d, char sign, struct rp_bytes line)
{
    const char *colour = sign == '-' ? "\033[31m" : sign == '+' ? "\033[32m" : "";
    const bool coloured = d->coloured && colour[0] != '\0';
    (void)fprintf(d->out, "%s%c ", coloured ? colour : "", sign);
    term_print(d->out, line, SIZE_MAX);
    (void)fprintf(d->out, "%s\n", coloured ? "\033[0m" : "");
}

static void measure(struct diff *d)
{
    const struct lines *a = &d->old, *b = &d->new;
    size_t least = a->n < b->n ? a->n : b->n;
    while (d->head < least && rp_bytes_equal(a->items[d->head], b->items[d->head]))
        d->head++;
    while (d->tail < least - d->head &&
           rp_bytes_equal(a->items[a->n - 1 - d->tail], b->items[b->n - 1 - d->tail]))
        d->tail++;
}

/* The lengths of the longest common subsequences of what is left from (i, j) on, in rows of
 * `width`; NULL: too many, or no memory. */
static unsigned *common_lengths(const struct diff *d, size_t n, size_t width)
{
    if (n > MAX_PAIRS / width)
        return NULL;
    unsigned *lengths = calloc((n + 1) * width, sizeof *lengths);
    if (lengths == NULL)
        return NULL;
    for (size_t i = n; i-- > 0;)
        for (size_t j = width - 1; j-- > 0;) {
            const unsigned *below = &lengths[(i + 1) * width + j];
            const unsigned right = lengths[i * width + j + 1];
            lengths[i * width + j] =
                rp_bytes_equal(d->old.items[d->head + i], d->new.items[d->head + j]) ? below[1] + 1
                : *below > right                                                     ? *below
                                                                                     : right;
        }
    return lengths;
}

/* Which lines of the middle are common: marked in `old` and `new`. */
static void mark_common(const struct diff *d, bool *old, bool *new)
{
    const size_t n = d->old.n - d->head - d->tail, m = d->new.n - d->head - d->tail;
    unsigned *lengths = common_lengths(d, n, m + 1);
    for (size_t i = 0, j = 0; lengths != NULL && i < n && j < m;) {
        if (rp_bytes_equal(d->old.items[d->head + i], d->new.items[d->head + j]))
            old[d->head + i++] = new[d->head + j++] = true;
        else if (lengths[(i + 1) * (m + 1) + j] >= lengths[i * (m + 1) + j + 1])
            i++;
        else
            j++;
    }
    free(lengths);
}

/* Whether line `i`, which is common, stands near one that is not. */
static bool is_near(const bool *common, size_t n, size_t i)
{
    for (size_t k = i < CONTEXT ? 0 : i - CONTEXT; k < n && k <= i + CONTEXT; k++)
        if (!common[k])
            return true;
    return false;
}

static void print_all(const struct diff *d, const bool *old, const bool *new)
{
    bool skipped = false;
    for (size_t i = 0, j = 0; i < d->old.n || j < d->new.n;) {
        if (i < d->old.n && !old[i]) {
            print_line(d, '-', d->old.items[i++]);
        } else if (j < d->new.n && !new[j]) {
            print_line(d, '+', d->new.items[j++]);
        } else {
            bool near = is_near(old, d->old.n, i) || is_near(new, d->new.n, j);
            if (near)
                print_line(d, ' ', d->old.items[i]);
            else if (!skipped)
                (void)fputs("  ...\n", d->out);
            skipped = !near;
            i++;
            j++;
        }
    }
}

static void print_diff(struct diff *d)
{
    bool *old = calloc(d->old.n + 1, 1), *new = calloc(d->new.n + 1, 1);
    measure(d);
    if (old != NULL && new != NULL) {
        memset(old, 1, d->head);
        memset(new, 1, d->head);
        memset(old + d->old.n - d->tail, 1, d->tail);
        memset(new + d->new.n - d->tail, 1, d->tail);
        mark_common(d, old, new);
        print_all(d, old, new);
    }
    free(old);
    free(new);
}

bool cli_diff_text(FILE *out, struct rp_bytes before, struct rp_bytes after)
{
    struct diff d = {
        .out = out,
        .coloured = isatty(fileno(out)) && getenv("NO_COLOR") == NULL,
    };
    if (before.len == after.len &&
        (after.len == 0 || memcmp(before.data, after.data, after.len) == 0))
        return false;
    if (split(before, &d.old) && split(after, &d.new))
        print_diff(&d);
    free(d.old.items);
    free(d.new.items);
    return true;
}

static int write_pretty(struct rp_message_reader *reader, const struct rp_message *m,
                        struct rp_buf *out, struct rp_error *err)
{
    struct rp_document document;
    if (rp_document_write(reader, m, NULL, &document, err) != 0)
        return -1;
    int rc = rp_json_pretty(out, rp_buf_bytes(&document.text), "", err);
    rp_document_clear(&document);
    return rc;
}

int cli_diff_print(FILE *out, struct rp_message_reader *reader, const struct rp_message *before,
                   const struct rp_message *after, bool *changed, struct rp_error *err)
{
    struct rp_buf old = {0}, new = {0};
    int rc = write_pretty(reader, before, &old, err);
    if (rc == 0)
        rc = write_pretty(reader, after, &new, err);
    bool differs = rc == 0 && cli_diff_text(out, rp_buf_bytes(&old), rp_buf_bytes(&new));
    if (changed != NULL)
        *changed = differs;
    rp_buf_clear(&old);
    rp_buf_clear(&new);
    return rc;
}
