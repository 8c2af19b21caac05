/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "dead_letter.h"
#include "plan_ops.h"

struct run {
    const struct rp_plan *plan;
    const uint8_t *start, *p, *end; /* of the value, the next byte, behind the last */
    struct rp_arena *arena;
    struct rp_error *err;
    int depth;
};

/* "byte 17: error.class: ..." */
static int fail_at(const struct run *r, const uint8_t *where, const struct rp_op *op,
                   const char *fmt, ...) RP_PRINTF(4, 5);

static int fail_at(const struct run *r, const uint8_t *where, const struct rp_op *op,
                   const char *fmt, ...)
{
    char what[160];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return rp_fail(r->err, RP_E_DECODE, RP_POISON, "byte %td: %s: %s", where - r->start,
                   (const char *)r->plan->names.data + op->name, what);
}

static size_t bytes_left(const struct run *r)
{
    return (size_t)(r->end - r->p);
}

static int read_longer(struct run *r, const struct rp_op *op, int64_t *out)
{
    const uint8_t *begin = r->p;
    uint64_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
        if (r->p == r->end)
            return fail_at(r, begin, op, "the bytes end within a number");
        uint8_t b = *r->p++;
        if (shift == 63 && b > 1)
            return fail_at(r, begin, op, "a number of more than 64 bits");
        n |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            break;
    }
    *out = (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
    return 0;
}

static inline int read_long(struct run *r, const struct rp_op *op, int64_t *out)
{
    if (r->p == r->end || *r->p >= 0x80)
        return read_longer(r, op, out);
    uint8_t n = *r->p++;
    *out = (n >> 1) ^ -(n & 1);
    return 0;
}

static int read_int(struct run *r, const struct rp_op *op, int64_t *out)
{
    const uint8_t *begin = r->p;
    if (read_long(r, op, out) != 0)
        return -1;
    if (*out < INT32_MIN || *out > INT32_MAX)
        return fail_at(r, begin, op, "%" PRId64 " is no 32-bit number", *out);
    return 0;
}

static inline int read_bytes(struct run *r, const struct rp_op *op, struct rp_bytes *out)
{
    const uint8_t *begin = r->p;
    int64_t len;
    if (read_long(r, op, &len) != 0)
        return -1;
    if (len < 0 || (uint64_t)len > bytes_left(r))
        return fail_at(r, begin, op, "a length of %" PRId64 ", with %zu bytes left", len,
                       bytes_left(r));
    *out = (struct rp_bytes){r->p, (size_t)len};
    r->p += len;
    return 0;
}

/* An index into a table of `op`: an enum's symbol or a union's branch. */
static inline int read_choice(struct run *r, const struct rp_op *op, const char *what,
                              uint32_t *out)
{
    const uint8_t *begin = r->p;
    int64_t i;
    if (read_long(r, op, &i) != 0)
        return -1;
    if (i < 0 || i >= op->n)
        return fail_at(r, begin, op, "%s %" PRId64 " of %u", what, i, (unsigned)op->n);
    *out = r->plan->tables[op->arg + (uint32_t)i];
    return 0;
}

/* The head of an array's or map's block: how many items, and where it ends if it says so. A count
 * of 0 ends the array. */
static int read_block(struct run *r, const struct rp_op *op, uint64_t *count, const uint8_t **end)
{
    const uint8_t *begin = r->p;
    int64_t n, size;
    *end = NULL;
    if (read_long(r, op, &n) != 0)
        return -1;
    *count = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    if (n >= 0)
        return 0;
    if (read_long(r, op, &size) != 0)
        return -1;
    if (size < 0 || (uint64_t)size > bytes_left(r))
        return fail_at(r, begin, op, "a block of %" PRId64 " bytes, with %zu left", size,
                       bytes_left(r));
    *end = r->p + size;
    return 0;
}

static int run(struct run *r, uint32_t pc, uint8_t *base);

static int skip_items(struct run *r, const struct rp_op *op, uint32_t body)
{
    for (;;) {
        const uint8_t *begin = r->p, *end;
        uint64_t count;
        if (read_block(r, op, &count, &end) != 0)
            return -1;
        if (count == 0)
            return 0;
        if (end != NULL) {
            r->p = end;
            continue;
        }
        if (op->n == 0)
            continue;
        if (count > bytes_left(r))
            return fail_at(r, begin, op, "%" PRIu64 " items, with %zu bytes left", count,
                           bytes_left(r));
        for (; count > 0; count--)
            if (run(r, body, NULL) != 0)
                return -1;
    }
}

static int grow_items(struct run *r, size_t size, uint8_t **items, size_t n, size_t *cap,
                      size_t need)
{
    size_t more = 2 * *cap > need ? 2 * *cap : need;
    uint8_t *grown = rp_arena_alloc(r->arena, more * size);
    if (grown == NULL)
        return rp_fail(r->err, RP_E_NOMEM, RP_RETRIABLE, "no memory for %zu items", more);
    if (n > 0)
        memcpy(grown, *items, n * size);
    *items = grown;
    *cap = more;
    return 0;
}

static int read_array(struct run *r, const struct rp_op *op, uint32_t body, uint8_t *base)
{
    const size_t size = op->field->of->size;
    uint8_t *items = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        const uint8_t *begin = r->p, *end;
        uint64_t count;
        if (read_block(r, op, &count, &end) != 0)
            return -1;
        if (count == 0)
            break;
        /* An item of ours has a field without a default, so it takes a byte at least. */
        if (count > bytes_left(r) || count > RP_PLAN_MAX_ITEMS - n)
            return fail_at(r, begin, op, "%" PRIu64 " items, with %zu bytes left, at most %d",
                           count, bytes_left(r), RP_PLAN_MAX_ITEMS);
        if (n + count > cap && grow_items(r, size, &items, n, &cap, n + count) != 0)
            return -1;
        memset(items + n * size, 0, count * size);
        for (; count > 0; count--)
            if (run(r, body, items + n++ * size) != 0)
                return -1;
        if (end != NULL && r->p != end)
            return fail_at(r, begin, op, "a block that is not as long as it says");
    }
    memcpy(base + op->at + op->field->at, &items, sizeof items);
    memcpy(base + op->at + op->field->count_at, &n, sizeof n);
    return 0;
}

static int skip_bytes(struct run *r, const struct rp_op *op, size_t n)
{
    if (n > bytes_left(r))
        return fail_at(r, r->p, op, "%zu bytes, with %zu left", n, bytes_left(r));
    r->p += n;
    return 0;
}

/* The ops that read one value; the ones that change the flow are in run(). */
static inline int step(struct run *r, const struct rp_op *op, uint32_t pc, uint8_t *base)
{
    struct rp_bytes bytes;
    int64_t n;
    uint32_t choice = 0;
    switch (op->code) {
    case RP_OP_BYTES:
        return read_bytes(r, op, (struct rp_bytes *)(void *)(base + op->at));
    case RP_OP_INT:
        if (read_int(r, op, &n) != 0)
            return -1;
        *(int32_t *)(void *)(base + op->at) = (int32_t)n;
        return 0;
    case RP_OP_LONG:
        return read_long(r, op, (int64_t *)(void *)(base + op->at));
    case RP_OP_TIME:
        if (read_long(r, op, &n) != 0)
            return -1;
        *(int64_t *)(void *)(base + op->at) = n == RP_NO_TIME ? n + 1 : n; /* not null: too early */
        return 0;
    case RP_OP_INT_TO_LONG:
        return read_int(r, op, (int64_t *)(void *)(base + op->at));
    case RP_OP_REASON:
        if (read_choice(r, op, "symbol", &choice) != 0)
            return -1;
        *(enum rp_reason *)(void *)(base + op->at) = (enum rp_reason)choice;
        return 0;
    case RP_OP_NO_TIME:
        *(int64_t *)(void *)(base + op->at) = RP_NO_TIME;
        return 0;
    case RP_OP_FLAG:
        *(bool *)(base + op->at) = true;
        return 0;
    case RP_OP_ARRAY:
        return read_array(r, op, pc + 1, base);
    case RP_OP_REFUSE:
        return fail_at(r, r->p, op, "a branch of the union that has no place here");
    case RP_OP_SKIP_FIXED:
        return skip_bytes(r, op, op->arg);
    case RP_OP_SKIP_LONG:
        return read_long(r, op, &n);
    case RP_OP_SKIP_BYTES:
        return read_bytes(r, op, &bytes);
    case RP_OP_SKIP_ITEMS:
        return skip_items(r, op, pc + 1);
    default:
        return run(r, op->arg, NULL); /* RP_OP_CALL */
    }
}

static int run(struct run *r, uint32_t pc, uint8_t *base)
{
    const struct rp_op *ops = r->plan->ops;
    if (r->depth == RP_PLAN_MAX_DEPTH)
        return fail_at(r, r->p, &ops[pc], "nested deeper than %d", RP_PLAN_MAX_DEPTH);
    r->depth++;
    for (;;) {
        const struct rp_op *op = &ops[pc];
        switch (op->code) {
        case RP_OP_END:
            r->depth--;
            return 0;
        case RP_OP_JUMP:
            pc = op->arg;
            break;
        case RP_OP_UNION:
            if (read_choice(r, op, "union branch", &pc) != 0)
                return -1;
            break;
        default:
            if (step(r, op, pc, base) != 0)
                return -1;
            pc = op->code == RP_OP_ARRAY || op->code == RP_OP_SKIP_ITEMS ? op->arg : pc + 1;
        }
    }
}

int rp_plan_run(const struct rp_plan *plan, struct rp_bytes value, size_t from,
                struct rp_arena *arena, void *out, struct rp_error *err)
{
    const uint8_t *start = value.data;
    struct run r = {.plan = plan,
                    .start = start,
                    .p = start + from,
                    .end = start + value.len,
                    .arena = arena,
                    .err = err};
    memset(out, 0, plan->shape->size);
    if (run(&r, 0, out) != 0)
        return -1;
    if (r.p != r.end)
        return rp_fail(err, RP_E_DECODE, RP_POISON, "byte %td: %zu bytes follow the %s",
                       r.p - r.start, bytes_left(&r), plan->shape->name);
    return 0;
}
