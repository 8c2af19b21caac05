/* SPDX-License-Identifier: Apache-2.0 */
#include "reinvoke.h"

#include "units.h"

#define MOST_OWN     7 /* headers of ours on one record */
#define MOST_NUMBERS 3 /* among them */

struct builder {
    struct rp_header *headers;
    size_t n;
    char *room; /* for the next number */
};

static void put(struct builder *b, struct rp_bytes name, struct rp_bytes value)
{
    b->headers[b->n++] = (struct rp_header){name, value};
}

static void put_number(struct builder *b, struct rp_bytes name, int64_t value)
{
    put(b, name, rp_str(rp_format_int(value, b->room)));
    b->room += RP_UNIT_TEXT;
}

static int begin(struct builder *b, struct rp_arena *arena, size_t most, struct rp_error *err)
{
    size_t size = most * sizeof *b->headers;
    char *room = rp_arena_alloc(arena, size + MOST_NUMBERS * RP_UNIT_TEXT);
    *b = (struct builder){.headers = (void *)room};
    if (room == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu headers", most);
    b->room = room + size;
    return 0;
}

int rp_target_headers(const struct rp_passage *passage, const struct rp_failed_task *task,
                      struct rp_arena *arena, const struct rp_header **out, size_t *out_n,
                      struct rp_error *err)
{
    struct builder b;
    if (begin(&b, arena, task->n_headers + MOST_OWN, err) != 0)
        return -1;
    for (size_t i = 0; i < task->n_headers; i++)
        if (!rp_header_is_ours(task->headers[i].key))
            b.headers[b.n++] = task->headers[i];
    put(&b, rp_str(RP_HDR_TASK_ID), passage->task_id);
    put_number(&b, rp_str(RP_HDR_ATTEMPT), passage->attempt);
    put_number(&b, rp_str(RP_HDR_DUE), passage->due_ms);
    put_number(&b, rp_str(RP_HDR_FIRST_FAILED_AT), passage->first_failed_at_ms);
    if (passage->replay_id.data != NULL)
        put(&b, rp_str(RP_HDR_REPLAY_ID), passage->replay_id);
    if (passage->fallback)
        put(&b, rp_str(RP_HDR_FALLBACK), rp_str("1"));
    *out = b.headers;
    *out_n = b.n;
    return 0;
}

int rp_tier_headers(const struct rp_passage *passage, struct rp_arena *arena,
                    const struct rp_header **out, size_t *out_n, struct rp_error *err)
{
    struct builder b;
    if (begin(&b, arena, MOST_OWN, err) != 0)
        return -1;
    put(&b, rp_str(RP_HDR_TASK_ID), passage->task_id);
    put_number(&b, rp_str(RP_HDR_ATTEMPT), passage->attempt);
    put_number(&b, rp_str(RP_HDR_DUE), passage->due_ms);
    put(&b, rp_str(RP_HDR_TARGET), passage->target);
    put(&b, rp_str(RP_HDR_POLICY), passage->policy);
    put_number(&b, rp_str(RP_HDR_FIRST_FAILED_AT), passage->first_failed_at_ms);
    if (passage->replay_id.data != NULL)
        put(&b, rp_str(RP_HDR_REPLAY_ID), passage->replay_id);
    *out = b.headers;
    *out_n = b.n;
    return 0;
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
