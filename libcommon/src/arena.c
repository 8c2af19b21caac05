/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CHUNK 4096u
/* What a reset keeps: a single huge record must not pin its size for ever. */
#define KEEP_MOST (1u << 20)

struct rp_arena_chunk {
    struct rp_arena_chunk *next;
    size_t size;
    alignas(max_align_t) uint8_t data[];
};

static size_t aligned(size_t n)
{
    return (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

static struct rp_arena_chunk *chunk_new(size_t size)
{
    struct rp_arena_chunk *c = malloc(sizeof *c + size);
    if (c != NULL)
        *c = (struct rp_arena_chunk){.size = size};
    return c;
}

void *rp_arena_alloc(struct rp_arena *a, size_t n)
{
    if (n > SIZE_MAX / 4)
        return NULL;
    n = aligned(n);
    if (a->head == NULL || a->head->size - a->used < n) {
        size_t size = a->head == NULL ? FIRST_CHUNK : 2 * a->head->size;
        struct rp_arena_chunk *c = chunk_new(size < n ? n : size);
        if (c == NULL)
            return NULL;
        c->next = a->head;
        a->head = c;
        a->used = 0;
    }
    void *p = a->head->data + a->used;
    a->used += n;
    return p;
}

void *rp_arena_copy(struct rp_arena *a, const void *data, size_t n)
{
    void *p = rp_arena_alloc(a, n);
    if (p != NULL && n > 0)
        memcpy(p, data, n);
    return p;
}

const char *rp_arena_text(struct rp_arena *a, const char *text)
{
    const char *copy = rp_arena_copy(a, text, strlen(text) + 1);
    return copy == NULL ? "" : copy;
}

void rp_arena_reset(struct rp_arena *a)
{
    while (a->head != NULL && (a->head->next != NULL || a->head->size > KEEP_MOST)) {
        struct rp_arena_chunk *largest = a->head, *rest = largest->next;
        if (largest->size > KEEP_MOST) {
            a->head = rest;
            free(largest);
            continue;
        }
        largest->next = NULL;
        while (rest != NULL) {
            struct rp_arena_chunk *next = rest->next;
            free(rest);
            rest = next;
        }
    }
    a->used = 0;
}

void rp_arena_clear(struct rp_arena *a)
{
    while (a->head != NULL) {
        struct rp_arena_chunk *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->used = 0;
}
