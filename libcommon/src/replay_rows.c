/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_rows.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"

/* A window: were it smaller, whoever reads the target would wait for PostgreSQL. */
#define WINDOW_ROWS  "8000"
#define WINDOW_BYTES "8388608"
/* So often the socket is read meanwhile: PostgreSQL stands still while it is full. */
#define TAKE_ROWS  64
#define TIMEOUT_MS 60000
/* 2000-01-01, from where PostgreSQL counts. */
#define EPOCH_MS INT64_C(946684800000)

#define ITEM_COLUMNS(X) X(n) X(refused) X(edited)
#define COLUMNS(X)                                                                                 \
    X(id)                                                                                          \
    X(reason)                                                                                      \
    X(detail)                                                                                      \
    X(category)                                                                                    \
    X(policy)                                                                                      \
    X(attempts)                                                                                    \
    X(task_id) X(task_type) X(target) X(task_key) X(payload) X(header_keys) X(header_values)       \
        X(attempt) X(error_class) X(error_message) X(error_category) X(cause_classes)              \
            X(cause_messages) X(source) X(first_failed_at) X(failed_at) X(raw) X(record)           \
                X(record_key)

#define AS_ENUM(name)   C_##name,
#define AS_COLUMN(name) ", d." #name

enum column { ITEM_COLUMNS(AS_ENUM) C_about, COLUMNS(AS_ENUM) };

/* OFFSET 0 keeps the subquery what it is: a look at one row by its key. Joined freely, the planner
 * may read whole days for it. */
static const char window_sql[] =
    "SELECT i.n, i.refused, i.edited::text, CASE WHEN $3::boolean THEN json_build_object('id', "
    "d.task_id, 'type', d.task_type,"
    " 'attempts', coalesce(d.attempts, d.attempt), 'reason', d.reason, 'category', d.category,"
    " 'error', json_build_object('class', d.error_class, 'message', d.error_message,"
    "  'category', d.error_category))::text END" COLUMNS(
        AS_COLUMN) " FROM (SELECT *, sum(size) OVER (ORDER BY n) - size AS before FROM replay_item"
                   "  WHERE job = $1 AND n >= $2 AND n < $2::bigint + " WINDOW_ROWS ") AS i"
                   " LEFT JOIN LATERAL (SELECT * FROM dead_letter AS l WHERE l.dead_at = i.dead_at "
                   "AND l.id = i.id"
                   "  OFFSET 0) AS d ON true"
                   " WHERE i.before < " WINDOW_BYTES " ORDER BY i.n";

struct rp_replay_rows {
    char *dsn, *job;
    bool about;
    struct rp_db *db;
    PGresult *window; /* rows from `first` on */
    int64_t first;
    int64_t asked; /* the window on its way begins there; -1: none */
    struct rp_arena arena;
};

int rp_replay_rows_new(const char *dsn, const char *job, bool about, struct rp_replay_rows **out,
                       struct rp_error *err)
{
    struct rp_replay_rows *r = calloc(1, sizeof *r);
    if (r == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a job's rows");
    *r = (struct rp_replay_rows){
        .dsn = strdup(dsn), .job = strdup(job), .about = about, .asked = -1};
    *out = r;
    if (r->dsn != NULL && r->job != NULL)
        return 0;
    rp_replay_rows_free(r);
    *out = NULL;
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a job's rows");
}

static void disconnect(struct rp_replay_rows *r)
{
    rp_db_close(r->db);
    r->db = NULL;
    r->asked = -1;
}

void rp_replay_rows_free(struct rp_replay_rows *r)
{
    if (r == NULL)
        return;
    disconnect(r);
    PQclear(r->window);
    rp_arena_clear(&r->arena);
    free(r->dsn);
    free(r->job);
    free(r);
}

void rp_replay_rows_forget(struct rp_replay_rows *r)
{
    PGresult *late;
    if (r->asked >= 0 && rp_db_receive(r->db, &late, NULL) == 0)
        PQclear(late);
    else if (r->asked >= 0)
        disconnect(r);
    r->asked = -1;
    PQclear(r->window);
    r->window = NULL;
}

static int ask(struct rp_replay_rows *r, int64_t n, struct rp_error *err)
{
    char number[RP_UNIT_TEXT];
    const char *values[] = {r->job, rp_format_int(n, number), r->about ? "true" : "false"};
    if (r->db == NULL && rp_db_open(r->dsn, "reprise replay rows", TIMEOUT_MS, &r->db, err) != 0)
        return -1;
    if (rp_db_send(r->db, window_sql, 3, values, true, err) != 0)
        return -1;
    r->asked = n;
    return 0;
}

static int64_t window_end(const struct rp_replay_rows *r)
{
    return r->window == NULL ? r->first : r->first + PQntuples(r->window);
}

/* Gets the window that begins with `n`, and asks for the one behind it. */
static int fetch(struct rp_replay_rows *r, int64_t n, struct rp_error *err)
{
    PQclear(r->window);
    r->window = NULL;
    r->first = n;
    if (r->asked != n) {
        rp_replay_rows_forget(r);
        if (ask(r, n, err) != 0)
            return -1;
    }
    r->asked = -1;
    if (rp_db_receive(r->db, &r->window, err) != 0)
        return -1;
    return PQntuples(r->window) == 0 ? 0 : ask(r, window_end(r), err);
}

struct field {
    const PGresult *window;
    int row;
};

static struct rp_bytes bytes_of(const struct field *f, enum column c)
{
    if (PQgetisnull(f->window, f->row, (int)c))
        return RP_NULL_BYTES;
    return (struct rp_bytes){PQgetvalue(f->window, f->row, (int)c),
                             (size_t)PQgetlength(f->window, f->row, (int)c)};
}

static uint32_t be32(const void *at)
{
    uint32_t n;
    memcpy(&n, at, sizeof n);
    return be32toh(n);
}

static int32_t int_of(const struct field *f, enum column c)
{
    struct rp_bytes b = bytes_of(f, c);
    return b.len == 4 ? (int32_t)be32(b.data) : 0;
}

static int64_t long_of(const struct field *f, enum column c, int64_t fallback)
{
    uint64_t n;
    struct rp_bytes b = bytes_of(f, c);
    if (b.len != sizeof n)
        return fallback;
    memcpy(&n, b.data, sizeof n);
    return (int64_t)be64toh(n);
}

static int64_t time_of(const struct field *f, enum column c)
{
    int64_t us = long_of(f, c, RP_NO_TIME);
    return us == RP_NO_TIME ? RP_NO_TIME : us / 1000 + EPOCH_MS - (us % 1000 < 0);
}

static enum rp_reason reason_of(const struct field *f)
{
    struct rp_bytes name = bytes_of(f, C_reason);
    for (int i = 0; i < RP_N_REASONS; i++)
        if (rp_bytes_equal(name, rp_str(rp_reason_name((enum rp_reason)i))))
            return (enum rp_reason)i;
    return RP_OTHER;
}

/* The elements of a one-dimensional array: dimensions, flags, type, (length, base), then each with
 * its length in front, -1 for null. What is cut short ends early. */
struct elements {
    const uint8_t *at, *end;
    size_t n;
};

static struct elements elements_of(struct rp_bytes array)
{
    const uint8_t *at = array.data;
    if (array.len < 20 || be32(at) != 1)
        return (struct elements){0};
    return (struct elements){at + 20, at + array.len, be32(at + 12)};
}

static struct rp_bytes next_element(struct elements *e)
{
    if (e->end - e->at < 4)
        return RP_NULL_BYTES;
    uint32_t len = be32(e->at);
    const uint8_t *data = e->at + 4;
    e->at = data;
    if (len > (size_t)(e->end - data)) /* -1 too */
        return RP_NULL_BYTES;
    e->at += len;
    return (struct rp_bytes){data, len};
}

/* Pairs of two arrays, which lie side by side; causes and headers are both such pairs of bytes. */
_Static_assert(sizeof(struct rp_header) == sizeof(struct rp_cause), "two pairs of bytes");

static int read_pairs(struct rp_replay_rows *r, const struct field *f, enum column first,
                      enum column second, struct rp_header **out, size_t *out_n,
                      struct rp_error *err)
{
    struct elements a = elements_of(bytes_of(f, first)), b = elements_of(bytes_of(f, second));
    *out_n = a.n;
    *out = a.n == 0 ? NULL : rp_arena_alloc(&r->arena, a.n * sizeof **out);
    if (a.n > 0 && *out == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a row");
    for (size_t i = 0; i < a.n; i++)
        (*out)[i] = (struct rp_header){next_element(&a), next_element(&b)};
    return 0;
}

static int read_causes(struct rp_replay_rows *r, const struct field *f, struct rp_failed_task *task,
                       struct rp_error *err)
{
    struct rp_header *pairs;
    if (read_pairs(r, f, C_cause_classes, C_cause_messages, &pairs, &task->n_causes, err) != 0)
        return -1;
    struct rp_cause *causes = rp_arena_alloc(&r->arena, (task->n_causes + 1) * sizeof *causes);
    if (causes == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a row");
    for (size_t i = 0; i < task->n_causes; i++)
        causes[i] = (struct rp_cause){pairs[i].key, pairs[i].value};
    task->causes = causes;
    return 0;
}

static int read_task(struct rp_replay_rows *r, const struct field *f, struct rp_failed_task *task,
                     struct rp_error *err)
{
    struct rp_header *headers;
    size_t n_headers;
    if (read_pairs(r, f, C_header_keys, C_header_values, &headers, &n_headers, err) != 0)
        return -1;
    *task = (struct rp_failed_task){
        .task_id = bytes_of(f, C_task_id),
        .task_type = bytes_of(f, C_task_type),
        .target = bytes_of(f, C_target),
        .key = bytes_of(f, C_task_key),
        .payload = bytes_of(f, C_payload),
        .headers = headers,
        .n_headers = n_headers,
        .attempt = int_of(f, C_attempt),
        .error_class = bytes_of(f, C_error_class),
        .error_message = bytes_of(f, C_error_message),
        .error_category = bytes_of(f, C_error_category),
        .source = bytes_of(f, C_source),
        .first_failed_at_ms = time_of(f, C_first_failed_at),
        .failed_at_ms = time_of(f, C_failed_at),
    };
    return read_causes(r, f, task, err);
}

static int read_row(struct rp_replay_rows *r, const struct field *f, struct rp_replay_row *out,
                    struct rp_error *err)
{
    rp_arena_reset(&r->arena);
    *out = (struct rp_replay_row){
        .n = long_of(f, C_n, -1),
        .gone = PQgetisnull(f->window, f->row, C_id) == 1,
        .refused = bytes_of(f, C_refused),
        .edited = bytes_of(f, C_edited),
        .about = bytes_of(f, C_about),
        .record = bytes_of(f, C_record),
        .key = bytes_of(f, C_record_key),
        .letter =
            {
                .has_task = PQgetisnull(f->window, f->row, C_task_id) == 0,
                .raw = bytes_of(f, C_raw),
                .reason = reason_of(f),
                .detail = bytes_of(f, C_detail),
                .category = bytes_of(f, C_category),
                .policy = bytes_of(f, C_policy),
                .attempts = int_of(f, C_attempts),
            },
    };
    return out->letter.has_task ? read_task(r, f, &out->letter.task, err) : 0;
}

static bool is_in_window(const struct rp_replay_rows *r, int64_t n)
{
    return r->window != NULL && n >= r->first && n < window_end(r);
}

bool rp_replay_rows_come_by(struct rp_replay_rows *r, int64_t n, int64_t until_mono_ms)
{
    return is_in_window(r, n) || (r->asked == n && rp_db_answers_by(r->db, until_mono_ms));
}

void rp_replay_rows_read_ahead(struct rp_replay_rows *r, int64_t until_mono_ms)
{
    if (r->asked >= 0)
        (void)rp_db_answers_by(r->db, until_mono_ms);
}

int rp_replay_rows_at(struct rp_replay_rows *r, int64_t n, struct rp_replay_row *out,
                      struct rp_error *err)
{
    if (!is_in_window(r, n) && fetch(r, n, err) != 0) {
        if (r->db != NULL)
            (void)rp_db_needs_mending(r->db, err);
        disconnect(r);
        return -1;
    }
    if (PQntuples(r->window) == 0)
        return rp_fail(err, RP_E_NOT_FOUND, RP_FATAL, "the job has no item %" PRId64, n);
    if (r->asked >= 0 && n % TAKE_ROWS == 0)
        (void)rp_db_answered(r->db); /* where the connection is lost, fetch says so */
    struct field f = {r->window, (int)(n - r->first)};
    return read_row(r, &f, out, err);
}
