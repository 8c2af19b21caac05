/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arena.h"
#include "reprise/bytes.h"

static int requests, refused;

void memory_fail_at(int n)
{
    requests = 0;
    refused = n;
}

bool memory_failed(void)
{
    return refused > 0 && requests >= refused;
}

static bool fails(void)
{
    return ++requests == refused;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__real_rp_arena_alloc(struct rp_arena *a, size_t n);
void *__real_rp_arena_copy(struct rp_arena *a, const void *data, size_t n);
int __real_rp_buf_reserve(struct rp_buf *b, size_t n, struct rp_error *err);
int __real_rp_buf_append(struct rp_buf *b, const void *data, size_t n, struct rp_error *err);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
void *__wrap_rp_arena_alloc(struct rp_arena *a, size_t n);
void *__wrap_rp_arena_copy(struct rp_arena *a, const void *data, size_t n);
int __wrap_rp_buf_reserve(struct rp_buf *b, size_t n, struct rp_error *err);
int __wrap_rp_buf_append(struct rp_buf *b, const void *data, size_t n, struct rp_error *err);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, n);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    return fails() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails() ? NULL : __real_strndup(s, n);
}

void *__wrap_rp_arena_alloc(struct rp_arena *a, size_t n)
{
    return fails() ? NULL : __real_rp_arena_alloc(a, n);
}

void *__wrap_rp_arena_copy(struct rp_arena *a, const void *data, size_t n)
{
    return fails() ? NULL : __real_rp_arena_copy(a, data, n);
}

static int no_room(struct rp_error *err)
{
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory");
}

int __wrap_rp_buf_reserve(struct rp_buf *b, size_t n, struct rp_error *err)
{
    return fails() ? no_room(err) : __real_rp_buf_reserve(b, n, err);
}

int __wrap_rp_buf_append(struct rp_buf *b, const void *data, size_t n, struct rp_error *err)
{
    return fails() ? no_room(err) : __real_rp_buf_append(b, data, n, err);
}

int starve(int (*step)(struct rp_error *err))
{
    for (int n = 1;; n++) {
        struct rp_error err = {0};
        memory_fail_at(n);
        int rc = step(&err);
        bool done = !memory_failed();
        memory_fail_at(0);
        if (rc != (done ? 0 : -1) || (!done && (err.code != RP_E_NOMEM || err.cls == RP_POISON)))
            fail_msg("request %d: %d, code %d, class %d: %s", n, rc, (int)err.code, (int)err.cls,
                     err.text);
        if (done)
            return n - 1;
    }
}
