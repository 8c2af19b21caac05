/* SPDX-License-Identifier: Apache-2.0 */
#include "reinvoke.h"

#include <string.h>

#include "units.h"

#define MOST_OWN 7 /* headers of ours on one record */

struct builder {
    struct rp_header *headers;
    size_t n;
    struct rp_arena *arena;
    bool failed;
};

static void put(struct builder *b, const char *name, struct rp_bytes value)
{
    b->headers[b->n++] = (struct rp_header){rp_str(name), value};
}

static void put_number(struct builder *b, const char *name, int64_t value)
{
    char *text = rp_arena_alloc(b->arena, RP_UNIT_TEXT);
    b->failed = b->failed || text == NULL;
    put(b, name, text == NULL ? RP_NULL_BYTES : rp_str(rp_format_int(value, text)));
}

static int begin(struct builder *b, struct rp_arena *arena, size_t most, struct rp_error *err)
{
    *b = (struct builder){.arena = arena};
    b->headers = rp_arena_alloc(arena, most * sizeof *b->headers);
    if (b->headers == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu headers", most);
    return 0;
}

static int end(const struct builder *b, const struct rp_header **out, size_t *out_n,
               struct rp_error *err)
{
    if (b->failed)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for headers");
    *out = b->headers;
    *out_n = b->n;
    return 0;
}

static bool is_ours(struct rp_bytes name)
{
    size_t len = sizeof RP_HDR_PREFIX - 1;
    return name.len >= len && memcmp(name.data, RP_HDR_PREFIX, len) == 0;
}

int rp_target_headers(const struct rp_passage *passage, const struct rp_failed_task *task,
                      struct rp_arena *arena, const struct rp_header **out, size_t *out_n,
                      struct rp_error *err)
{
    struct builder b;
    if (begin(&b, arena, task->n_headers + MOST_OWN, err) != 0)
        return -1;
    for (size_t i = 0; i < task->n_headers; i++)
        if (!is_ours(task->headers[i].key))
            b.headers[b.n++] = task->headers[i];
    put(&b, RP_HDR_TASK_ID, passage->task_id);
    put_number(&b, RP_HDR_ATTEMPT, passage->attempt);
    put_number(&b, RP_HDR_DUE, passage->due_ms);
    put_number(&b, RP_HDR_FIRST_FAILED_AT, passage->first_failed_at_ms);
    if (passage->replay_id.data != NULL)
        put(&b, RP_HDR_REPLAY_ID, passage->replay_id);
    if (passage->fallback)
        put(&b, RP_HDR_FALLBACK, rp_str("1"));
    return end(&b, out, out_n, err);
}

int rp_tier_headers(const struct rp_passage *passage, struct rp_arena *arena,
                    const struct rp_header **out, size_t *out_n, struct rp_error *err)
{
    struct builder b;
    if (begin(&b, arena, MOST_OWN, err) != 0)
        return -1;
    put(&b, RP_HDR_TASK_ID, passage->task_id);
    put_number(&b, RP_HDR_ATTEMPT, passage->attempt);
    put_number(&b, RP_HDR_DUE, passage->due_ms);
    put(&b, RP_HDR_TARGET, passage->target);
    put(&b, RP_HDR_POLICY, passage->policy);
    put_number(&b, RP_HDR_FIRST_FAILED_AT, passage->first_failed_at_ms);
    if (passage->replay_id.data != NULL)
        put(&b, RP_HDR_REPLAY_ID, passage->replay_id);
    return end(&b, out, out_n, err);
}

static struct rp_bytes last_value(const struct rp_header *headers, size_t n, const char *name)
{
    struct rp_bytes wanted = rp_str(name);
    while (n-- > 0)
        if (rp_bytes_equal(headers[n].key, wanted))
            return headers[n].value;
    return RP_NULL_BYTES;
}

void rp_passage_read(const struct rp_header *headers, size_t n, struct rp_passage *out)
{
    struct rp_reinvocation r;
    struct rp_error err;
    (void)!rp_reinvocation_read(headers, n, &r, &err); /* it gives what can be read */
    *out = (struct rp_passage){
        .task_id = r.task_id,
        .attempt = r.attempt,
        .due_ms = r.due_ms,
        .first_failed_at_ms = r.first_failed_at_ms,
        .target = last_value(headers, n, RP_HDR_TARGET),
        .policy = last_value(headers, n, RP_HDR_POLICY),
        .replay_id = r.replay_id,
        .fallback = r.fallback,
    };
}
