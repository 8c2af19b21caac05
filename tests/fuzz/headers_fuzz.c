/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "reinvoke.h"

#define MOST 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input, handed out piece by piece. */
struct input {
    const uint8_t *p;
    size_t left;
};

static uint8_t take_byte(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->p++;
}

/* A length, then as many bytes; 255 is null. */
static struct rp_bytes take_bytes(struct input *in)
{
    size_t n = take_byte(in);
    if (n == 255)
        return RP_NULL_BYTES;
    n = n < in->left ? n : in->left;
    struct rp_bytes bytes = {in->p, n};
    in->p += n;
    in->left -= n;
    return bytes;
}

/* One of ours, or any. */
static struct rp_bytes take_name(struct input *in)
{
    static const char *const ours[] = {
        RP_HDR_TASK_ID, RP_HDR_ATTEMPT,         RP_HDR_DUE,       RP_HDR_TARGET,
        RP_HDR_POLICY,  RP_HDR_FIRST_FAILED_AT, RP_HDR_REPLAY_ID, RP_HDR_FALLBACK,
    };
    uint8_t which = take_byte(in);
    if (which < sizeof ours / sizeof *ours)
        return rp_str(ours[which]);
    struct rp_bytes name = take_bytes(in);
    return name.data == NULL ? rp_str("") : name;
}

static bool same(struct rp_bytes a, struct rp_bytes b)
{
    return (a.data == NULL) == (b.data == NULL) && rp_bytes_equal(a, b);
}

static void check(bool truth)
{
    if (!truth)
        abort();
}

static void check_numbers(int32_t attempt, int64_t due_ms, int64_t first_failed_at_ms)
{
    check(attempt >= 0);
    check(due_ms == RP_NO_TIME || due_ms >= 0);
    check(first_failed_at_ms == RP_NO_TIME || first_failed_at_ms >= 0);
}

/* What is written into a tier says the same when it is read. */
static void check_tier(const struct rp_passage *p, struct rp_arena *arena)
{
    const struct rp_header *headers;
    size_t n;
    struct rp_passage back;
    check(rp_tier_headers(p, arena, &headers, &n, NULL) == 0);
    rp_passage_read(headers, n, &back);
    check(same(back.task_id, p->task_id) && same(back.target, p->target) &&
          same(back.policy, p->policy) && same(back.replay_id, p->replay_id));
    check(back.attempt == p->attempt && back.due_ms == p->due_ms &&
          back.first_failed_at_ms == p->first_failed_at_ms);
}

/* A re-invocation says the same to the handler, carries the task's own headers as they were, and
 * none of ours twice. */
static void check_target(const struct rp_passage *p, const struct rp_failed_task *task,
                         struct rp_arena *arena)
{
    const struct rp_header *headers, *again;
    size_t n, n_again;
    struct rp_reinvocation told;
    struct rp_failed_task next;
    check(rp_target_headers(p, task, arena, &headers, &n, NULL) == 0);
    (void)!rp_reinvocation_read(headers, n, &told, NULL);
    check(same(told.task_id, p->task_id) && same(told.replay_id, p->replay_id));
    check(told.attempt == p->attempt && told.due_ms == p->due_ms &&
          told.first_failed_at_ms == p->first_failed_at_ms && told.fallback == p->fallback);
    rp_failed_task_begin(&next, rp_str("x"), headers, n);
    check(next.task_id.len > 0 && next.attempt >= 1);
    check(rp_target_headers(p, &next, arena, &again, &n_again, NULL) == 0);
    check(n_again == n);
    for (size_t i = 0; i < n; i++)
        check(same(headers[i].key, again[i].key) && same(headers[i].value, again[i].value));
}

/* Whatever headers a record has, what can be read of them goes on unchanged. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct rp_header headers[MOST];
    struct rp_arena arena = {0};
    struct rp_passage p;
    size_t n = 0;
    for (; n < MOST && in.left > 0; n++) {
        headers[n].key = take_name(&in);
        headers[n].value = take_bytes(&in);
    }
    rp_passage_read(headers, n, &p);
    check_numbers(p.attempt, p.due_ms, p.first_failed_at_ms);
    const struct rp_failed_task task = {.headers = headers, .n_headers = n};
    check_tier(&p, &arena);
    check_target(&p, &task, &arena);
    rp_arena_clear(&arena);
    return 0;
}
