/* SPDX-License-Identifier: Apache-2.0 */
#include "row.h"

#include <assert.h>

#include "fingerprint.h"
#include "pgtext.h"
#include "reprise/task.h"

#define COLUMNS(X)                                                                                 \
    X(dead_at)                                                                                     \
    X(record_topic)                                                                                \
    X(record_partition)                                                                            \
    X(record_offset) X(record_key) X(reason) X(detail) X(category) X(policy) X(attempts)           \
        X(decided_at) X(source_topic) X(source_partition) X(source_offset) X(task_id) X(task_type) \
            X(target) X(task_key) X(payload) X(header_keys) X(header_values) X(attempt)            \
                X(error_class) X(error_message) X(error_category) X(cause_classes)                 \
                    X(cause_messages) X(source) X(first_failed_at) X(failed_at) X(raw) X(altered)  \
                        X(record) X(fingerprint) X(replay_job)

#define AS_ENUM(name) C_##name,
#define AS_NAME(name) #name,
enum column { COLUMNS(AS_ENUM) N_COLUMNS };
const char *const row_columns[] = {COLUMNS(AS_NAME)};
const size_t row_n_columns = N_COLUMNS;

/* 0001-01-01 and the end of 9999-12-31: what every client of PostgreSQL can read. */
#define FIRST_MS INT64_C(-62135596800000)
#define LAST_MS  INT64_C(253402300799999)

/* A row that is being written. Each call names its column, so that order and list stay one. */
struct row {
    struct copy *c;
    enum column next;
    uint64_t altered; /* a bit a column */
};

_Static_assert(N_COLUMNS <= 64, "a bit for each column");

static struct copy *column(struct row *r, enum column column)
{
    assert(column == r->next);
    (void)column;
    r->next++;
    return r->c;
}

static void put_text(struct row *r, enum column column, struct rp_bytes text, size_t max)
{
    if (pgtext_copy(r->c, text, max))
        r->altered |= UINT64_C(1) << column;
}

static void text(struct row *r, enum column name, struct rp_bytes value)
{
    (void)column(r, name);
    put_text(r, name, value, ROW_TEXT_MAX);
}

/* One of an array's texts, which begins there. */
static void element(struct row *r, enum column name, size_t begin, struct rp_bytes value)
{
    size_t used = r->c->buf.len - begin;
    put_text(r, name, value, used < ROW_TEXT_MAX ? ROW_TEXT_MAX - used : 0);
}

/* A text that is, or may yet be, in an index. */
static void name(struct row *r, enum column which, struct rp_bytes value)
{
    (void)column(r, which);
    put_text(r, which, value, ROW_NAME_MAX);
}

static void bytes(struct row *r, enum column name, struct rp_bytes value)
{
    copy_bytes(column(r, name), value);
}

static void time_ms(struct row *r, enum column name, int64_t ms)
{
    int64_t sane = ms < FIRST_MS ? FIRST_MS : ms > LAST_MS ? LAST_MS : ms;
    if (sane != ms)
        r->altered |= UINT64_C(1) << name;
    copy_time(column(r, name), sane);
}

static void nulls(struct row *r, enum column end)
{
    while (r->next < end)
        copy_null(column(r, r->next));
}

static void headers(struct row *r, const struct rp_failed_task *t)
{
    size_t begin = copy_array(column(r, C_header_keys), COPY_TEXT, t->n_headers);
    for (size_t i = 0; i < t->n_headers; i++)
        element(r, C_header_keys, begin, t->headers[i].key);
    copy_array_end(r->c, begin);
    begin = copy_array(column(r, C_header_values), COPY_BYTEA, t->n_headers);
    for (size_t i = 0; i < t->n_headers; i++)
        copy_bytes(r->c, t->headers[i].value);
    copy_array_end(r->c, begin);
}

static void causes(struct row *r, const struct rp_failed_task *t)
{
    size_t begin = copy_array(column(r, C_cause_classes), COPY_TEXT, t->n_causes);
    for (size_t i = 0; i < t->n_causes; i++)
        element(r, C_cause_classes, begin, t->causes[i].class_name);
    copy_array_end(r->c, begin);
    begin = copy_array(column(r, C_cause_messages), COPY_TEXT, t->n_causes);
    for (size_t i = 0; i < t->n_causes; i++)
        element(r, C_cause_messages, begin, t->causes[i].message);
    copy_array_end(r->c, begin);
}

static void task(struct row *r, const struct rp_failed_task *t)
{
    name(r, C_task_id, t->task_id);
    name(r, C_task_type, t->task_type);
    name(r, C_target, t->target);
    bytes(r, C_task_key, t->key);
    bytes(r, C_payload, t->payload);
    headers(r, t);
    copy_int32(column(r, C_attempt), t->attempt);
    name(r, C_error_class, t->error_class);
    text(r, C_error_message, t->error_message);
    name(r, C_error_category, t->error_category);
    causes(r, t);
    name(r, C_source, t->source);
    if (t->first_failed_at_ms == RP_NO_TIME)
        copy_null(column(r, C_first_failed_at));
    else
        time_ms(r, C_first_failed_at, t->first_failed_at_ms);
    time_ms(r, C_failed_at, t->failed_at_ms);
}

/* A row of error_group. */
static void group(struct groups *g, int64_t fingerprint, struct rp_bytes type,
                  struct rp_bytes class_name, struct rp_bytes masked)
{
    struct row r = {.c = &g->rows};
    copy_row(r.c, 4);
    copy_int64(r.c, fingerprint);
    put_text(&r, C_task_type, type, ROW_NAME_MAX);
    put_text(&r, C_error_class, class_name, ROW_NAME_MAX);
    put_text(&r, C_error_message, masked, ROW_TEXT_MAX);
}

/* What it is grouped by, which is returned, and which replay it comes from: the row's end. */
static int64_t origin(struct row *r, struct groups *g, struct rp_bytes type,
                      struct rp_bytes class_name, struct rp_bytes message,
                      struct rp_bytes replay_job)
{
    char mask[RP_MASK_MAX];
    struct rp_bytes masked = {mask, rp_fingerprint_mask(message, mask)};
    int64_t fingerprint = rp_fingerprint(type, class_name, masked);
    if (groups_add(g, fingerprint))
        group(g, fingerprint, type, class_name, masked);
    copy_int64(column(r, C_fingerprint), fingerprint);
    name(r, C_replay_job, replay_job);
    return fingerprint;
}

/* Jobs are named by us; what is no such name is some handler's. */
static struct rp_bytes job_name(struct rp_bytes text)
{
    const char *c = text.data;
    for (size_t i = 0; i < text.len; i++)
        if (!(c[i] == '-' || (c[i] >= '0' && c[i] <= '9') || (c[i] >= 'a' && c[i] <= 'z')))
            return RP_NULL_BYTES;
    return text.len > 0 && text.len <= 64 ? text : RP_NULL_BYTES;
}

/* A handler hands back the header of the replay that sent the task. */
static struct rp_bytes replay_job_of(const struct row_record *record,
                                     const struct rp_failed_task *task)
{
    struct rp_reinvocation own;
    struct rp_error err;
    int failed = rp_reinvocation_read(task->headers, task->n_headers, &own, &err);
    (void)failed; /* a number that cannot be read, which is none of ours */
    bool same = own.task_id.data == NULL || rp_bytes_equal(own.task_id, task->task_id);
    struct rp_bytes job = same ? job_name(own.replay_id) : RP_NULL_BYTES;
    return job.data != NULL ? job : job_name(record->replay_job);
}

/* As much of the record as there is room for. */
static struct rp_bytes beginning(struct row *r, enum column name, struct rp_bytes value)
{
    if (value.len <= ROW_RECORD_MAX)
        return value;
    r->altered |= UINT64_C(1) << name;
    return (struct rp_bytes){value.data, ROW_RECORD_MAX};
}

static void begin(struct row *r, const struct row_record *record, enum rp_reason reason,
                  int64_t dead_at_ms)
{
    copy_row(r->c, N_COLUMNS);
    copy_time(column(r, C_dead_at), dead_at_ms);
    text(r, C_record_topic, record->topic);
    copy_int32(column(r, C_record_partition), record->partition);
    copy_int64(column(r, C_record_offset), record->offset);
    bytes(r, C_record_key, beginning(r, C_record_key, record->key));
    text(r, C_reason, rp_str(rp_reason_name(reason)));
}

static void altered(struct row *r)
{
    struct copy *c = column(r, C_altered);
    if (r->altered == 0) {
        copy_null(c);
        return;
    }
    size_t at = copy_array(c, COPY_TEXT, (size_t)__builtin_popcountll(r->altered));
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (r->altered & UINT64_C(1) << i)
            copy_bytes(c, rp_str(row_columns[i]));
    copy_array_end(c, at);
}

/* Takes back what was appended of a row that found no memory. */
static int finish(struct row *r, struct groups *groups, size_t start, struct rp_error *err)
{
    assert(r->next == N_COLUMNS);
    if (!r->c->failed && !groups->rows.failed)
        return 0;
    r->c->failed = groups->rows.failed = false;
    r->c->buf.len = start;
    groups_drop(groups);
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a row");
}

int row_write(struct copy *c, const struct row_record *record, const struct rp_dead_letter *letter,
              int64_t dead_at_ms, struct groups *groups, struct row_facts *out,
              struct rp_error *err)
{
    const struct rp_failed_task *t = &letter->task;
    size_t start = c->buf.len;
    struct row r = {.c = c};
    begin(&r, record, letter->reason, dead_at_ms);
    text(&r, C_detail, letter->detail);
    name(&r, C_category, letter->category);
    name(&r, C_policy, letter->policy);
    copy_int32(column(&r, C_attempts), letter->attempts);
    time_ms(&r, C_decided_at, letter->decided_at_ms);
    text(&r, C_source_topic, letter->topic);
    copy_int32(column(&r, C_source_partition), letter->partition);
    copy_int64(column(&r, C_source_offset), letter->offset);
    if (letter->has_task)
        task(&r, t);
    else
        nulls(&r, C_raw);
    bytes(&r, C_raw, letter->raw);
    altered(&r);
    bytes(&r, C_record, r.altered != 0 ? record->value : RP_NULL_BYTES);
    struct rp_bytes job =
        letter->has_task ? replay_job_of(record, t) : job_name(record->replay_job);
    *out = (struct row_facts){.altered = r.altered != 0, .replayed = job.data != NULL};
    out->fingerprint = letter->has_task
                           ? origin(&r, groups, t->task_type, t->error_class, t->error_message, job)
                           : origin(&r, groups, RP_NULL_BYTES, RP_NULL_BYTES, letter->detail, job);
    return finish(&r, groups, start, err);
}

int row_write_bare(struct copy *c, const struct row_record *record, enum rp_reason reason,
                   const char *detail, int64_t dead_at_ms, struct groups *groups,
                   struct row_facts *out, struct rp_error *err)
{
    size_t start = c->buf.len;
    struct row r = {.c = c};
    begin(&r, record, reason, dead_at_ms);
    text(&r, C_detail, rp_str(detail));
    nulls(&r, C_altered);
    struct rp_bytes value = beginning(&r, C_record, record->value);
    altered(&r);
    bytes(&r, C_record, value);
    *out = (struct row_facts){.altered = r.altered != 0};
    out->fingerprint = origin(&r, groups, RP_NULL_BYTES, RP_NULL_BYTES, rp_str(detail),
                              job_name(record->replay_job));
    return finish(&r, groups, start, err);
}

void row_redate(struct copy *c, size_t begin, int64_t dead_at_ms)
{
    size_t end = c->buf.len;
    c->buf.len = begin;
    copy_row(c, N_COLUMNS);
    copy_time(c, dead_at_ms);
    c->buf.len = end;
}
