/* SPDX-License-Identifier: Apache-2.0 */
#include "batch.h"

#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "counts.h"
#include "day.h"
#include "kafka.h"
#include "log.h"
#include "row.h"

/* Large records fill a batch before their number does. */
#define MAX_BYTES ((size_t)16 << 20)
/* PostgreSQL is given the rows of a large batch while it grows, in portions. */
#define SEND_ROWS  256
#define SEND_BYTES ((size_t)64 << 10)
/* How many days, from today on, a row is tried on whose own day has no room. */
#define OTHER_DAYS 4

struct entry {
    rd_kafka_message_t *message;
    int64_t dead_at_ms;
    size_t end; /* of its row in `rows` */
    enum rp_reason reason;
    struct row_facts facts;
};

struct batch {
    struct batch_options options;
    struct rp_codec *codec;
    struct rp_arena arena;
    struct copy rows;
    struct entry *entries; /* max_rows of them */
    size_t n;
    size_t n_sent; /* the first ones, which the store has been given */
    bool held;     /* the rest is not sent before it is written */
    struct groups groups;
    struct counts counts;
    int64_t day;                /* of all rows, or STORE_DAYS */
    struct store_claim *claims; /* of the rows that are being written */
    size_t claims_cap;
};

int batch_new(const struct batch_options *options, struct batch **out, struct rp_error *err)
{
    struct batch *b = calloc(1, sizeof *b);
    if (b == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a batch");
    b->options = *options;
    b->entries = calloc(options->max_rows, sizeof *b->entries);
    if (b->entries == NULL) {
        batch_free(b);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a batch");
    }
    /* Dead letters are reprise's own, in single-object encoding: no registry knows them. */
    if (rp_codec_new(NULL, &b->codec, err) != 0) {
        batch_free(b);
        return -1;
    }
    *out = b;
    return 0;
}

void batch_drop(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        rd_kafka_message_destroy(b->entries[i].message);
    b->n = b->n_sent = 0;
    b->held = false;
    rp_buf_reset(&b->rows.buf, 2 * MAX_BYTES);
    groups_drop(&b->groups);
    counts_drop(&b->counts);
}

void batch_free(struct batch *b)
{
    if (b == NULL)
        return;
    batch_drop(b);
    rp_codec_free(b->codec);
    rp_arena_clear(&b->arena);
    rp_buf_clear(&b->rows.buf);
    groups_clear(&b->groups);
    counts_clear(&b->counts);
    free(b->entries);
    free(b->claims);
    free(b);
}

size_t batch_rows(const struct batch *b)
{
    return b->n;
}

bool batch_full(const struct batch *b)
{
    return b->n == b->options.max_rows || b->rows.buf.len >= MAX_BYTES;
}

static struct rp_bytes replay_job_of(const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers;
    struct rp_bytes job = RP_NULL_BYTES;
    if (rd_kafka_message_headers(m, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
        (void)rd_kafka_header_get_last(headers, RP_HDR_REPLAY_ID, &job.data, &job.len);
    return job;
}

static struct row_record record_of(const rd_kafka_message_t *m)
{
    return (struct row_record){.topic = rp_str(rd_kafka_topic_name(m->rkt)),
                               .partition = m->partition,
                               .offset = m->offset,
                               .key = {m->key, m->key_len},
                               .value = {m->payload, m->len},
                               .replay_job = replay_job_of(m)};
}

static void log_row(const char *event, const rd_kafka_message_t *m, const char *error)
{
    rp_log(RP_LOG_WARN, event, rp_f_str("topic", rd_kafka_topic_name(m->rkt)),
           rp_f_int("partition", m->partition), rp_f_int("offset", m->offset),
           rp_f_str("error", error));
}

static size_t begin_of(const struct batch *b, size_t i)
{
    return i == 0 ? 0 : b->entries[i - 1].end;
}

/* Counts the row that was just written, the next entry's, or takes it back. */
static int count_row(struct batch *b, const struct entry *e, struct rp_bytes task_type,
                     struct rp_bytes category, struct rp_error *err)
{
    const struct count_of of = {task_type, category, e->reason, e->facts.fingerprint};
    if (counts_add(&b->counts, &of, e->dead_at_ms, err) == 0)
        return 0;
    b->rows.buf.len = begin_of(b, b->n);
    return -1;
}

static int add_bare(struct batch *b, struct entry *e, int64_t recorded_ms, int64_t now_ms,
                    enum rp_reason reason, const char *detail, struct rp_error *err)
{
    struct row_record record = record_of(e->message);
    e->reason = reason;
    e->dead_at_ms = day_dead_at(recorded_ms, recorded_ms, now_ms, b->options.keep_ms);
    if (row_write_bare(&b->rows, &record, e->reason, detail, e->dead_at_ms, &b->groups, &e->facts,
                       err) != 0)
        return -1;
    return count_row(b, e, RP_NULL_BYTES, RP_NULL_BYTES, err);
}

static int add_undecodable(struct batch *b, struct entry *e, int64_t recorded_ms, int64_t now_ms,
                           const char *why, struct rp_error *err)
{
    char detail[400];
    (void)snprintf(detail, sizeof detail, "the dead letter itself cannot be decoded: %s", why);
    log_row("dead-letter-undecodable", e->message, why);
    return add_bare(b, e, recorded_ms, now_ms, RP_UNDECODABLE, detail, err);
}

static int add_oversized(struct batch *b, struct entry *e, int64_t recorded_ms, int64_t now_ms,
                         struct rp_error *err)
{
    char detail[120];
    (void)snprintf(detail, sizeof detail,
                   "the dead letter itself is too large: a key of %zu bytes, a value of %zu",
                   e->message->key_len, e->message->len);
    log_row("dead-letter-oversized", e->message, detail);
    return add_bare(b, e, recorded_ms, now_ms, RP_OVERSIZED, detail, err);
}

static int add_row(struct batch *b, struct entry *e, int64_t now_ms, struct rp_error *err)
{
    struct row_record record = record_of(e->message);
    struct rp_dead_letter letter;
    struct rp_error why;
    int64_t recorded_ms = rp_kafka_append_ms(e->message);
    if (record.key.len > ROW_RECORD_MAX || record.value.len > ROW_RECORD_MAX - record.key.len)
        return add_oversized(b, e, recorded_ms, now_ms, err);
    if (rp_codec_decode_dead_letter(b->codec, record.value, &b->arena, &letter, &why) != 0) {
        if (why.cls == RP_POISON)
            return add_undecodable(b, e, recorded_ms, now_ms, why.text, err);
        return rp_fail_as(err, &why); /* no memory: the letter is not to blame */
    }
    e->reason = letter.reason;
    e->dead_at_ms = day_dead_at(letter.decided_at_ms, recorded_ms, now_ms, b->options.keep_ms);
    if (row_write(&b->rows, &record, &letter, e->dead_at_ms, &b->groups, &e->facts, err) != 0)
        return -1;
    return count_row(b, e, letter.has_task ? letter.task.task_type : RP_NULL_BYTES, letter.category,
                     err);
}

int batch_add(struct batch *b, rd_kafka_message_t *message, int64_t now_ms, struct rp_error *err)
{
    struct entry *e = &b->entries[b->n];
    *e = (struct entry){.message = message};
    int failed = add_row(b, e, now_ms, err);
    rp_arena_reset(&b->arena);
    if (failed != 0) {
        rd_kafka_message_destroy(message);
        return -1;
    }
    int64_t day = day_of(e->dead_at_ms);
    b->day = b->n == 0 || b->day == day ? day : STORE_DAYS;
    e->end = b->rows.buf.len;
    b->n++;
    b->held = b->held || e->facts.replayed;
    return 0;
}

static int claims_reserve(struct batch *b, size_t n, struct rp_error *err)
{
    if (n <= b->claims_cap)
        return 0;
    struct store_claim *claims = realloc(b->claims, n * sizeof *claims);
    if (claims == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for claims");
    b->claims = claims;
    b->claims_cap = n;
    return 0;
}

/* The claims that these rows are written under, each with the offset behind its last row. Rows of
 * partitions that are not ours any more have none, and so are left out: then not `*out_all`. */
static size_t claims_of(struct batch *b, size_t first, size_t n, const struct parts *parts,
                        bool *out_all)
{
    size_t n_claims = 0;
    *out_all = true;
    for (size_t i = first; i < first + n; i++) {
        const rd_kafka_message_t *m = b->entries[i].message;
        const struct part *part = parts_find(parts, m->partition);
        size_t at = 0;
        if (part == NULL || part->claim.epoch == 0) {
            *out_all = false;
            continue;
        }
        while (at < n_claims && b->claims[at].partition != m->partition)
            at++;
        if (at == n_claims)
            b->claims[n_claims++] = part->claim;
        b->claims[at].next_offset = m->offset + 1;
    }
    return n_claims;
}

/* The row counts from now, or from the first day behind it that has room. The counts were made for
 * another hour, so the trigger of dead_letter is to make them. */
static int move_row(struct batch *b, size_t i, struct store *store, struct rp_error *err)
{
    int64_t at_ms;
    if (store_now_ms(store, &at_ms, err) != 0)
        return -1;
    for (int n = 0; n < OTHER_DAYS; n++, at_ms += DAY_MS) {
        if (store_add_day(store, day_of(at_ms), err) == 0) {
            b->entries[i].dead_at_ms = at_ms;
            b->day = STORE_DAYS;
            row_redate(&b->rows, begin_of(b, i), at_ms);
            return 0;
        }
        if (err->cls != RP_POISON)
            return -1;
    }
    err->cls = RP_RETRIABLE;
    return -1;
}

static int add_days(struct batch *b, size_t first, size_t n, struct store *store,
                    struct rp_error *err)
{
    for (size_t i = first; i < first + n; i++) {
        if (store_add_day(store, day_of(b->entries[i].dead_at_ms), err) == 0)
            continue;
        if (err->cls != RP_POISON)
            return -1;
        log_row("day-has-no-room", b->entries[i].message, err->text);
        if (move_row(b, i, store, err) != 0)
            return -1;
    }
    return 0;
}

/* Rows of any partition that is ours may follow those that are sent first. */
static size_t claims_of_all(struct batch *b, const struct parts *parts)
{
    size_t n_claims = 0;
    for (size_t i = 0; i < parts->n; i++)
        if (parts->items[i].live)
            b->claims[n_claims++] = parts->items[i].claim;
    return n_claims;
}

static int send_rows(struct batch *b, struct store *store, const struct parts *parts,
                     struct rp_error *err)
{
    if (claims_reserve(b, parts->n, err) != 0 ||
        add_days(b, b->n_sent, b->n - b->n_sent, store, err) != 0)
        return -1;
    return store_send(store, b->day, rp_buf_bytes(&b->rows.buf), b->claims, claims_of_all(b, parts),
                      err);
}

int batch_send(struct batch *b, struct store *store, const struct parts *parts,
               struct rp_error *err)
{
    if (b->held || b->n < SEND_ROWS || b->rows.buf.len - begin_of(b, b->n_sent) < SEND_BYTES)
        return 0;
    b->held = send_rows(b, store, parts, err) != 0;
    b->n_sent = b->n;
    return store_connected(store) ? 0 : -1;
}

bool batch_sent(const struct batch *b)
{
    return b->n_sent > 0;
}

void batch_recall(struct batch *b, struct store *store)
{
    if (b->n_sent == 0)
        return;
    store_recall(store);
    b->n_sent = 0;
    b->held = true;
}

/* What was committed, in the claims, the metrics and the log. */
static void settle(struct batch *b, size_t first, size_t n, size_t n_claims, int64_t added,
                   struct parts *parts)
{
    int64_t committed = 0;
    for (size_t i = 0; i < n_claims; i++)
        parts_find(parts, b->claims[i].partition)->claim = b->claims[i];
    for (size_t i = first; i < first + n; i++) {
        const struct entry *e = &b->entries[i];
        const struct part *part = parts_find(parts, e->message->partition);
        if (part == NULL || part->claim.epoch == 0)
            continue;
        committed++;
        rp_series_add(b->options.metrics->archived[e->reason], 1);
        if (e->facts.altered)
            rp_series_add(b->options.metrics->altered, 1);
    }
    if (committed == added)
        return;
    rp_series_add(b->options.metrics->known, (double)(committed - added));
    rp_log(RP_LOG_WARN, "rows-known-already", rp_f_int("rows", committed - added));
}

/* One transaction. */
static int write_rows(struct batch *b, struct rp_bytes rows, size_t first, size_t n,
                      struct store *store, struct parts *parts, struct rp_error *err)
{
    bool all;
    size_t n_claims = claims_of(b, first, n, parts, &all);
    struct store_rows batch = {
        .groups = rp_buf_bytes(&b->groups.rows.buf), .letters = rows, .n = n, .day = b->day};
    int64_t added, began_us = rp_mono_us();
    if (n_claims == 0) {
        store_recall(store); /* what was sent ahead is nobody's any more */
        return 0;
    }
    for (size_t i = first; i < first + n; i++)
        batch.replayed = batch.replayed || b->entries[i].facts.replayed;
    batch.straight =
        all && n == b->n && !batch.replayed && counts_rows(&b->counts, &batch.counts, err) == 0;
    if (store_write(store, &batch, b->claims, n_claims, &added, err) != 0)
        return -1;
    rp_series_observe(b->options.metrics->batch_seconds, (double)(rp_mono_us() - began_us) / 1e6);
    settle(b, first, n, n_claims, added, parts);
    return 0;
}

static int write_bare(struct batch *b, size_t i, const char *why, struct store *store,
                      struct parts *parts, struct rp_error *err)
{
    struct entry *e = &b->entries[i];
    struct row_record record = record_of(e->message);
    struct copy row = {0};
    struct row_facts facts;
    log_row("row-refused", e->message, why);
    e->facts.altered = true;
    int failed =
        row_write_bare(&row, &record, e->reason, why, e->dead_at_ms, &b->groups, &facts, err);
    if (failed == 0)
        failed = write_rows(b, rp_buf_bytes(&row.buf), i, 1, store, parts, err);
    rp_buf_clear(&row.buf);
    return failed;
}

static int try_range(struct batch *b, size_t first, size_t n, struct store *store,
                     struct parts *parts, struct rp_error *err)
{
    size_t begin = begin_of(b, first), end = b->entries[first + n - 1].end;
    struct rp_bytes rows = {b->rows.buf.data + begin, end - begin};
    if (add_days(b, first, n, store, err) != 0)
        return -1;
    return write_rows(b, rows, first, n, store, parts, err);
}

static int write_range(struct batch *b, size_t first, size_t n, struct store *store,
                       struct parts *parts, struct rp_error *err)
{
    int failed = try_range(b, first, n, store, parts, err);
    if (failed != 0 && store_day_missing(store)) {
        store_forget_days(store);
        failed = try_range(b, first, n, store, parts, err);
    }
    if (failed == 0 || err->cls != RP_POISON)
        return failed;
    if (n == 1)
        return write_bare(b, first, err->text, store, parts, err);
    if (write_range(b, first, n / 2, store, parts, err) != 0)
        return -1;
    return write_range(b, first + n / 2, n - n / 2, store, parts, err);
}

int batch_write(struct batch *b, struct store *store, struct parts *parts, struct rp_error *err)
{
    if (b->n == 0)
        return 0;
    if (claims_reserve(b, parts->n, err) != 0 || write_range(b, 0, b->n, store, parts, err) != 0)
        return -1;
    batch_drop(b);
    return 0;
}
