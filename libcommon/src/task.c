/* SPDX-License-Identifier: Apache-2.0 */
#include "reprise/task.h"

#include <inttypes.h>

/* The last values of the headers that are read, by name; null where there is none. */
struct found {
    struct rp_bytes task_id, attempt, due, first_failed_at, replay_id, fallback;
};

static void find(const struct rp_header *headers, size_t n, struct found *f)
{
    const struct {
        struct rp_bytes name;
        struct rp_bytes *value;
    } wanted[] = {
        {rp_str(RP_HDR_TASK_ID), &f->task_id},
        {rp_str(RP_HDR_ATTEMPT), &f->attempt},
        {rp_str(RP_HDR_DUE), &f->due},
        {rp_str(RP_HDR_FIRST_FAILED_AT), &f->first_failed_at},
        {rp_str(RP_HDR_REPLAY_ID), &f->replay_id},
        {rp_str(RP_HDR_FALLBACK), &f->fallback},
    };
    const size_t n_wanted = sizeof wanted / sizeof wanted[0];

    for (size_t i = 0; i < n; i++) {
        struct rp_bytes key = headers[i].key;
        size_t w = 0;
        if (!rp_header_is_ours(key))
            continue;
        while (w < n_wanted && !rp_bytes_equal(key, wanted[w].name))
            w++;
        if (w < n_wanted)
            *wanted[w].value = headers[i].value;
    }
}

/* Digits and nothing else: no sign, no blank, nothing behind. */
static int parse(struct rp_bytes text, int64_t max, int64_t *out)
{
    const unsigned char *s = text.data;
    int64_t n = 0;
    if (text.len == 0)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, s[i] - '0', &n))
            return -1;
    }
    if (n > max)
        return -1;
    *out = n;
    return 0;
}

/* Leaves `*out` as it is when the header is not there, and when it cannot be read. */
static int read_number(const char *name, struct rp_bytes text, int64_t min, int64_t max,
                       int64_t *out, struct rp_error *err)
{
    int64_t n;
    if (text.data == NULL)
        return 0;
    if (parse(text, max, &n) != 0 || n < min)
        return rp_fail(err, RP_E_DECODE, RP_POISON,
                       "header %s is not a whole number from %" PRId64 " to %" PRId64, name, min,
                       max);
    *out = n;
    return 0;
}

int rp_reinvocation_read(const struct rp_header *headers, size_t n, struct rp_reinvocation *out,
                         struct rp_error *err)
{
    struct found f = {0};
    int64_t attempt = 0;
    int rc = 0;

    *out = (struct rp_reinvocation){.due_ms = RP_NO_TIME, .first_failed_at_ms = RP_NO_TIME};
    if (n == 0)
        return 0;
    find(headers, n, &f);
    if (f.task_id.len > 0)
        out->task_id = f.task_id;
    out->replay_id = f.replay_id;
    out->fallback = rp_bytes_equal(f.fallback, rp_str("1"));
    rc |= read_number(RP_HDR_ATTEMPT, f.attempt, 1, INT32_MAX, &attempt, err);
    rc |= read_number(RP_HDR_DUE, f.due, 0, INT64_MAX, &out->due_ms, err);
    rc |= read_number(RP_HDR_FIRST_FAILED_AT, f.first_failed_at, 0, INT64_MAX,
                      &out->first_failed_at_ms, err);
    out->attempt = (int32_t)attempt;
    return rc;
}

void rp_failed_task_begin(struct rp_failed_task *task, struct rp_bytes task_id,
                          const struct rp_header *headers, size_t n)
{
    struct rp_reinvocation in;
    /* A number that cannot be read counts as not stated: a handler must be able to report its
     * failure whatever came with the record, and the router counts on from what it knows. */
    (void)!rp_reinvocation_read(headers, n, &in, NULL);
    *task = (struct rp_failed_task){
        .task_id = in.task_id.data != NULL ? in.task_id : task_id,
        .headers = headers,
        .n_headers = n,
        .attempt = in.attempt > 0 ? in.attempt : 1,
        .first_failed_at_ms = in.first_failed_at_ms,
        .failed_at_ms = RP_NO_TIME,
    };
}
