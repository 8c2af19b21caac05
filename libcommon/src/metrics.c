/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "utf8.h"

/* What is kept of a label value. */
#define VALUE_MAX  120u
#define MAX_LABELS 8u
/* Of a label's name. */
#define NAME_MAX_BYTES 48u
/* All label values of a series as `a="x",b="y"`; an escape at most doubles a byte, and U+FFFD
 * trebles one. The last character may reach beyond the cut. */
#define LABELS_MAX (MAX_LABELS * (3 * VALUE_MAX + NAME_MAX_BYTES + 16))

const double rp_seconds_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.045, 0.06, 0.1,
                                    0.15,  0.25,   0.5,   1,    2.5,   5,    10,   30,    60};
const size_t rp_n_seconds_bounds = sizeof rp_seconds_bounds / sizeof *rp_seconds_bounds;

struct rp_series {
    struct rp_family *family;
    char *labels;         /* `type="x",reason="y"`, escaped; "" for none */
    atomic_bool shown;    /* false: the series of the rest, and nothing was counted there yet */
    _Atomic double value; /* a histogram's sum */
    _Atomic uint64_t buckets[]; /* a histogram's, not cumulative; the last is +Inf */
};

struct rp_family {
    struct rp_family *next;
    enum rp_metric_type type;
    char *name, *help, *labels;
    const char *label_names[MAX_LABELS]; /* into `labels`, which is cut at its commas */
    size_t n_labels;
    double *bounds;
    size_t n_bounds;
    size_t max_series;
    struct rp_series *rest; /* the values beyond max_series, or the only one where no labels are */
    pthread_mutex_t lock;   /* guards what follows */
    struct rp_series **slots; /* hash table with linear probing; more than max_series of them */
    size_t n_slots, n_series;
};

struct rp_metrics {
    /* Stands in where there was no memory for a family: counts, and is not shown. */
    struct rp_family *sink;
    pthread_mutex_t lock; /* guards the list */
    struct rp_family *first, **end;
};

static struct rp_series *series_new(struct rp_family *f, const char *labels)
{
    struct rp_series *s = calloc(1, sizeof *s + (f->n_bounds + 1) * sizeof *s->buckets);
    if (s == NULL)
        return NULL;
    s->family = f;
    s->labels = strdup(labels);
    if (s->labels == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

static void series_free(struct rp_series *s)
{
    if (s != NULL)
        free(s->labels);
    free(s);
}

static void family_free(struct rp_family *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; f->slots != NULL && i < f->n_slots; i++)
        series_free(f->slots[i]);
    series_free(f->rest);
    free(f->slots);
    free(f->bounds);
    free(f->labels);
    free(f->help);
    free(f->name);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
}

static void split_labels(struct rp_family *f)
{
    char *save, *name = strtok_r(f->labels, ",", &save);
    for (; name != NULL; name = strtok_r(NULL, ",", &save)) {
        assert(f->n_labels < MAX_LABELS && strlen(name) < NAME_MAX_BYTES);
        f->label_names[f->n_labels++] = name;
    }
}

static char *put(char *at, const void *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

static bool is_plain(uint8_t c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Writes one character, escaped; returns the end, and moves `i` past it. */
static char *put_character(char *at, struct rp_bytes value, size_t *i)
{
    const uint8_t *p = (const uint8_t *)value.data + *i;
    uint32_t c;
    size_t n = rp_utf8_next(p, value.len - *i, &c);
    *i += n == 0 ? 1 : n;
    if (n == 0 || c == '\0') /* which would end the text */
        return put(at, RP_UTF8_REPLACEMENT, sizeof RP_UTF8_REPLACEMENT - 1);
    if (c == '\n')
        return put(at, "\\n", 2);
    if (c == '"' || c == '\\')
        *at++ = '\\';
    return put(at, p, n);
}

/* Writes a label's value, escaped, and cut; returns its end. */
static char *put_value(char *at, struct rp_bytes value)
{
    const uint8_t *p = value.data;
    for (size_t i = 0; i < value.len && i < VALUE_MAX;) {
        if (is_plain(p[i]))
            *at++ = (char)p[i++];
        else
            at = put_character(at, value, &i);
    }
    return at;
}

/* Runs for each event that is counted, so it does without printf. */
static void format_labels(const struct rp_family *f, const struct rp_bytes *values,
                          char out[LABELS_MAX])
{
    char *at = out;
    for (size_t i = 0; i < f->n_labels; i++) {
        if (i > 0)
            *at++ = ',';
        at = put(at, f->label_names[i], strlen(f->label_names[i]));
        at = put(at, "=\"", 2);
        at = put_value(at, values[i]);
        *at++ = '"';
    }
    *at = '\0';
}

static int family_init_series(struct rp_family *f)
{
    char labels[LABELS_MAX];
    struct rp_bytes other[MAX_LABELS];
    for (size_t i = 0; i < MAX_LABELS; i++)
        other[i] = rp_str("other");
    format_labels(f, other, labels);
    f->rest = series_new(f, labels);
    for (f->n_slots = 8; f->n_slots < 2 * f->max_series; f->n_slots *= 2)
        continue;
    f->slots = calloc(f->n_slots, sizeof *f->slots);
    if (f->rest == NULL || f->slots == NULL)
        return -1;
    atomic_store(&f->rest->shown, f->n_labels == 0);
    return 0;
}

static struct rp_family *family_new(enum rp_metric_type type, const char *name, const char *help,
                                    const char *labels, size_t max_series, const double *bounds,
                                    size_t n_bounds)
{
    struct rp_family *f = calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    (void)pthread_mutex_init(&f->lock, NULL); /* cannot fail with default attributes on Linux */
    f->type = type;
    f->name = strdup(name);
    f->help = strdup(help);
    f->labels = strdup(labels);
    f->max_series = max_series;
    f->n_bounds = n_bounds;
    f->bounds = malloc((n_bounds + 1) * sizeof *f->bounds);
    if (f->name == NULL || f->help == NULL || f->labels == NULL || f->bounds == NULL) {
        family_free(f);
        return NULL;
    }
    if (n_bounds > 0)
        memcpy(f->bounds, bounds, n_bounds * sizeof *f->bounds);
    split_labels(f);
    if (family_init_series(f) != 0) {
        family_free(f);
        return NULL;
    }
    return f;
}

struct rp_metrics *rp_metrics_new(void)
{
    struct rp_metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->end = &m->first;
    m->sink = family_new(RP_GAUGE, "sink", "", "", 0, NULL, 0);
    if (m->sink == NULL) {
        free(m);
        return NULL;
    }
    (void)pthread_mutex_init(&m->lock, NULL);
    return m;
}

void rp_metrics_free(struct rp_metrics *m)
{
    if (m == NULL)
        return;
    while (m->first != NULL) {
        struct rp_family *next = m->first->next;
        family_free(m->first);
        m->first = next;
    }
    family_free(m->sink);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

static struct rp_family *find_family(struct rp_metrics *m, const char *name)
{
    struct rp_family *f = m->first;
    while (f != NULL && strcmp(f->name, name) != 0)
        f = f->next;
    return f;
}

struct rp_family *rp_metrics_family(struct rp_metrics *m, enum rp_metric_type type,
                                    const char *name, const char *help, const char *labels,
                                    size_t max_series, const double *bounds, size_t n_bounds)
{
    (void)pthread_mutex_lock(&m->lock);
    struct rp_family *f = find_family(m, name);
    assert(f == NULL || f->type == type);
    if (f == NULL) {
        f = family_new(type, name, help, labels, max_series, bounds, n_bounds);
        if (f != NULL) {
            *m->end = f;
            m->end = &f->next;
        }
    }
    (void)pthread_mutex_unlock(&m->lock);
    return f == NULL ? m->sink : f;
}

/* The slot of these labels, or the empty one where they belong. There is always an empty one. */
static struct rp_series **find_slot(struct rp_family *f, const char *labels)
{
    size_t i = XXH3_64bits(labels, strlen(labels)) & (f->n_slots - 1);
    while (f->slots[i] != NULL && strcmp(f->slots[i]->labels, labels) != 0)
        i = (i + 1) & (f->n_slots - 1);
    return &f->slots[i];
}

struct rp_series *rp_family_series(struct rp_family *f, const struct rp_bytes *values)
{
    if (f->n_labels == 0)
        return f->rest;
    char labels[LABELS_MAX];
    format_labels(f, values, labels);
    (void)pthread_mutex_lock(&f->lock);
    struct rp_series **slot = find_slot(f, labels), *s = *slot;
    if (s == NULL && f->n_series < f->max_series && (s = series_new(f, labels)) != NULL) {
        *slot = s;
        f->n_series++;
    }
    (void)pthread_mutex_unlock(&f->lock);
    if (s == NULL)
        s = f->rest;
    atomic_store_explicit(&s->shown, true, memory_order_relaxed);
    return s;
}

static void add(_Atomic double *value, double n)
{
    double old = atomic_load_explicit(value, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(value, &old, old + n, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
}

void rp_series_add(struct rp_series *s, double n)
{
    add(&s->value, n);
}

void rp_series_set(struct rp_series *s, double n)
{
    atomic_store_explicit(&s->value, n, memory_order_relaxed);
}

void rp_series_observe(struct rp_series *s, double value)
{
    size_t i = 0;
    while (i < s->family->n_bounds && !(value <= s->family->bounds[i]))
        i++;
    (void)atomic_fetch_add_explicit(&s->buckets[i], 1, memory_order_relaxed);
    add(&s->value, value);
}

double rp_series_value(struct rp_series *s)
{
    if (s->family->type != RP_HISTOGRAM)
        return atomic_load_explicit(&s->value, memory_order_relaxed);
    uint64_t count = 0;
    for (size_t i = 0; i <= s->family->n_bounds; i++)
        count += atomic_load_explicit(&s->buckets[i], memory_order_relaxed);
    return (double)count;
}

static RP_PRINTF(3, 4) int append(struct rp_buf *out, struct rp_error *err, const char *fmt, ...)
{
    char line[LABELS_MAX + 512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < sizeof line);
    return rp_buf_append(out, line, (size_t)n, err);
}

/* Whole numbers as such, the rest with as many digits as a double carries. */
static const char *number(double value, char out[32])
{
    if (isnan(value))
        return "NaN";
    if (isinf(value))
        return value > 0 ? "+Inf" : "-Inf";
    (void)snprintf(out, 32, "%.15g", value);
    return out;
}

static int write_simple(const struct rp_series *s, struct rp_buf *out, struct rp_error *err)
{
    char n[32];
    double value = atomic_load_explicit(&s->value, memory_order_relaxed);
    bool bare = s->labels[0] == '\0';
    return append(out, err, "%s%s%s%s %s\n", s->family->name, bare ? "" : "{", s->labels,
                  bare ? "" : "}", number(value, n));
}

static int write_bucket(const struct rp_series *s, const char *le, uint64_t count,
                        struct rp_buf *out, struct rp_error *err)
{
    return append(out, err, "%s_bucket{%s%sle=\"%s\"} %llu\n", s->family->name, s->labels,
                  s->labels[0] == '\0' ? "" : ",", le, (unsigned long long)count);
}

static int write_histogram(const struct rp_series *s, struct rp_buf *out, struct rp_error *err)
{
    const struct rp_family *f = s->family;
    uint64_t count = 0;
    char n[32];
    for (size_t i = 0; i <= f->n_bounds; i++) {
        count += atomic_load_explicit(&s->buckets[i], memory_order_relaxed);
        if (write_bucket(s, i < f->n_bounds ? number(f->bounds[i], n) : "+Inf", count, out, err) !=
            0)
            return -1;
    }
    double sum = atomic_load_explicit(&s->value, memory_order_relaxed);
    bool bare = s->labels[0] == '\0';
    const char *open = bare ? "" : "{", *close = bare ? "" : "}";
    if (append(out, err, "%s_sum%s%s%s %s\n", f->name, open, s->labels, close, number(sum, n)) != 0)
        return -1;
    return append(out, err, "%s_count%s%s%s %llu\n", f->name, open, s->labels, close,
                  (unsigned long long)count);
}

static int write_series(const struct rp_series *s, struct rp_buf *out, struct rp_error *err)
{
    if (s == NULL || !atomic_load_explicit(&s->shown, memory_order_relaxed))
        return 0;
    return s->family->type == RP_HISTOGRAM ? write_histogram(s, out, err)
                                           : write_simple(s, out, err);
}

static int write_family(struct rp_family *f, struct rp_buf *out, struct rp_error *err)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    if (append(out, err, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name,
               types[f->type]) != 0)
        return -1;
    int rc = 0;
    (void)pthread_mutex_lock(&f->lock);
    for (size_t i = 0; rc == 0 && i < f->n_slots; i++)
        rc = write_series(f->slots[i], out, err);
    (void)pthread_mutex_unlock(&f->lock);
    return rc == 0 ? write_series(f->rest, out, err) : -1;
}

int rp_metrics_write(struct rp_metrics *m, struct rp_buf *out, struct rp_error *err)
{
    int rc = 0;
    (void)pthread_mutex_lock(&m->lock);
    for (struct rp_family *f = m->first; rc == 0 && f != NULL; f = f->next)
        rc = write_family(f, out, err);
    (void)pthread_mutex_unlock(&m->lock);
    return rc;
}
