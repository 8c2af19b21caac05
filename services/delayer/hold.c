/* SPDX-License-Identifier: Apache-2.0 */
#include "hold.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "log.h"
#include "spill.h"

#define SEGMENT_SIZE     SPILL_UNIT
#define FIRST_READ       4096 /* from the file: most records in one read */
#define SPILLS_AT_A_TIME 4
#define MOST_SPARES      4
#define NONE             UINT32_MAX

/* In front of each record. */
struct head {
    uint32_t length;
    uint32_t check; /* of its bytes, once they are in the file */
};

/* Records, each behind its head. In use when `live` > 0, or when it is the current one. */
struct segment {
    uint8_t *data; /* NULL: in the file, or not in use */
    size_t size, used;
    uint64_t place; /* in the file */
    uint32_t live;
    uint32_t prev, next; /* of the full ones in memory, oldest first; `next`: of the free ones */
};

/* A handle is the segment's index, and where in it the record begins. */
struct hold {
    size_t budget, in_memory, spilled;
    struct spill *spill;
    bool spill_fails; /* and was logged */
    struct segment *segments;
    uint32_t n, cap;
    uint32_t free;           /* segments not in use */
    uint32_t current;        /* takes what is put */
    uint32_t oldest, newest; /* full, and in memory */
    /* The memory of some segments, so that a steady flow maps and unmaps nothing. */
    uint8_t *spares[MOST_SPARES];
    size_t n_spares;
};

int hold_new(size_t memory_bytes, const char *spill_dir, struct hold **out, struct rp_error *err)
{
    struct hold *h = calloc(1, sizeof *h);
    if (h == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for held records");
    h->budget = memory_bytes;
    h->free = h->current = h->oldest = h->newest = NONE;
    if (spill_new(spill_dir, &h->spill, err) != 0) {
        free(h);
        return -1;
    }
    *out = h;
    return 0;
}

static void unmap(struct hold *h, uint8_t *data, size_t size)
{
    size_t most = h->in_memory <= h->budget ? MOST_SPARES : 1;
    if (size == SEGMENT_SIZE && h->n_spares < most) {
        h->spares[h->n_spares++] = data;
        return;
    }
    (void)munmap(data, size);
    h->in_memory -= size;
}

static void drop_spare(struct hold *h)
{
    (void)munmap(h->spares[--h->n_spares], SEGMENT_SIZE);
    h->in_memory -= SEGMENT_SIZE;
}

/* Straight from the kernel: what is given back then leaves the process at once. */
static uint8_t *map(struct hold *h, size_t size)
{
    if (size == SEGMENT_SIZE && h->n_spares > 0)
        return h->spares[--h->n_spares];
    while (h->n_spares > 0 && h->in_memory + size > h->budget)
        drop_spare(h);
    uint8_t *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return NULL;
    h->in_memory += size;
    return data;
}

void hold_free(struct hold *h)
{
    if (h == NULL)
        return;
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->segments[i].data != NULL)
            (void)munmap(h->segments[i].data, h->segments[i].size);
    }
    while (h->n_spares > 0)
        drop_spare(h);
    spill_free(h->spill);
    free(h->segments);
    free(h);
}

static void queue_in(struct hold *h, uint32_t i)
{
    h->segments[i].prev = h->newest;
    h->segments[i].next = NONE;
    if (h->newest == NONE)
        h->oldest = i;
    else
        h->segments[h->newest].next = i;
    h->newest = i;
}

static void queue_out(struct hold *h, uint32_t i)
{
    struct segment *s = &h->segments[i];
    if (s->prev == NONE)
        h->oldest = s->next;
    else
        h->segments[s->prev].next = s->next;
    if (s->next == NONE)
        h->newest = s->prev;
    else
        h->segments[s->next].prev = s->prev;
}

static uint32_t check_of(const uint8_t *record, uint32_t length)
{
    return (uint32_t)XXH3_64bits(record, length);
}

static void seal(const struct segment *s)
{
    struct head head;
    for (size_t at = 0; at < s->used; at += sizeof head + head.length) {
        memcpy(&head, s->data + at, sizeof head);
        head.check = check_of(s->data + at + sizeof head, head.length);
        memcpy(s->data + at, &head, sizeof head);
    }
}

static int spill_oldest(struct hold *h, struct rp_error *err)
{
    struct segment *s = &h->segments[h->oldest];
    seal(s);
    if (spill_write(h->spill, s->data, s->used, &s->place, err) != 0)
        return -1;
    queue_out(h, h->oldest);
    unmap(h, s->data, s->size);
    s->data = NULL;
    h->spilled += s->used;
    return 0;
}

/* Brings the memory back into its budget, as far as that can be done now. What cannot be written
 * stays in memory. */
static void keep_budget(struct hold *h, size_t more)
{
    struct rp_error err;
    for (int i = 0; i < SPILLS_AT_A_TIME && h->oldest != NONE; i++) {
        if (h->in_memory - h->n_spares * SEGMENT_SIZE + more <= h->budget)
            return;
        if (spill_oldest(h, &err) != 0) {
            if (!h->spill_fails)
                rp_log(RP_LOG_ERROR, "spill-failed", rp_f_str("error", err.text),
                       rp_f_int("memory_bytes", (int64_t)h->in_memory));
            h->spill_fails = true;
            return;
        }
        if (h->spill_fails)
            rp_log(RP_LOG_INFO, "spill-works-again",
                   rp_f_int("memory_bytes", (int64_t)h->in_memory));
        h->spill_fails = false;
    }
}

static int segment_open(struct hold *h, size_t size, uint32_t *out, struct rp_error *err)
{
    keep_budget(h, size);
    if (h->free == NONE && h->n == h->cap) {
        uint32_t cap = h->cap == 0 ? 64 : 2 * h->cap;
        struct segment *more = reallocarray(h->segments, cap, sizeof *more);
        if (more == NULL)
            return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for held records");
        h->segments = more;
        h->cap = cap;
    }
    uint8_t *data = map(h, size);
    if (data == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for held records");
    if (h->free != NONE) {
        *out = h->free;
        h->free = h->segments[*out].next;
    } else {
        *out = h->n++;
    }
    h->segments[*out] = (struct segment){.data = data, .size = size};
    return 0;
}

static void segment_close(struct hold *h, uint32_t i)
{
    struct segment *s = &h->segments[i];
    if (s->data != NULL) {
        queue_out(h, i);
        unmap(h, s->data, s->size);
        s->data = NULL;
    } else {
        spill_drop(h->spill, s->place, s->used);
        h->spilled -= s->used;
    }
    s->next = h->free;
    h->free = i;
}

/* The segment that takes a record of `need` bytes: the current one, the next one, or, where it is
 * too large for any, one of its own. */
static int segment_for(struct hold *h, size_t need, uint32_t *out, struct rp_error *err)
{
    if (need > SEGMENT_SIZE) {
        if (segment_open(h, need, out, err) != 0)
            return -1;
        queue_in(h, *out);
        return 0;
    }
    if (h->current == NONE || h->segments[h->current].used + need > SEGMENT_SIZE) {
        uint32_t next;
        if (segment_open(h, SEGMENT_SIZE, &next, err) != 0)
            return -1;
        if (h->current != NONE)
            queue_in(h, h->current);
        h->current = next;
    }
    *out = h->current;
    return 0;
}

int hold_put(struct hold *h, const struct rp_bytes *parts, size_t n, uint64_t *out_handle,
             struct rp_error *err)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].len > INT32_MAX - len)
            return rp_fail(err, RP_E_RANGE, RP_POISON, "a record of over 2 GiB");
        len += parts[i].len;
    }
    uint32_t i;
    if (segment_for(h, sizeof(struct head) + len, &i, err) != 0)
        return -1;
    struct segment *s = &h->segments[i];
    *out_handle = (uint64_t)i << 32 | s->used;
    const struct head head = {.length = (uint32_t)len};
    memcpy(s->data + s->used, &head, sizeof head);
    s->used += sizeof head;
    for (size_t k = 0; k < n; k++) {
        if (parts[k].len > 0)
            memcpy(s->data + s->used, parts[k].data, parts[k].len);
        s->used += parts[k].len;
    }
    s->live++;
    return 0;
}

static int altered(struct rp_error *err)
{
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "spill file: not what was written");
}

static int get_spilled(struct hold *h, const struct segment *s, size_t at, struct rp_buf *scratch,
                       struct rp_bytes *out, struct rp_error *err)
{
    size_t left = s->used - at, first = left < FIRST_READ ? left : FIRST_READ;
    scratch->len = 0;
    if (rp_buf_reserve(scratch, first, err) != 0 ||
        spill_read(h->spill, s->place, at, scratch->data, first, err) != 0)
        return -1;
    struct head head;
    memcpy(&head, scratch->data, sizeof head);
    size_t all = sizeof head + head.length;
    if (all > left)
        return altered(err);
    scratch->len = first;
    if (all > first) {
        if (rp_buf_reserve(scratch, all - first, err) != 0 ||
            spill_read(h->spill, s->place, at + first, scratch->data + first, all - first, err))
            return -1;
        scratch->len = all;
    }
    *out = (struct rp_bytes){scratch->data + sizeof head, head.length};
    return check_of(out->data, head.length) == head.check ? 0 : altered(err);
}

int hold_get(struct hold *h, uint64_t handle, struct rp_buf *scratch, struct rp_bytes *out,
             struct rp_error *err)
{
    const struct segment *s = &h->segments[handle >> 32];
    size_t at = (uint32_t)handle;
    assert(handle >> 32 < h->n && s->live > 0 && at + sizeof(struct head) <= s->used);
    if (s->data == NULL)
        return get_spilled(h, s, at, scratch, out, err);
    struct head head;
    memcpy(&head, s->data + at, sizeof head);
    *out = (struct rp_bytes){s->data + at + sizeof head, head.length};
    return 0;
}

void hold_drop(struct hold *h, uint64_t handle)
{
    uint32_t i = (uint32_t)(handle >> 32);
    struct segment *s = &h->segments[i];
    assert(i < h->n && s->live > 0);
    if (--s->live > 0)
        return;
    if (i == h->current)
        s->used = 0;
    else
        segment_close(h, i);
}

bool hold_is_over(const struct hold *h)
{
    return h->spill_fails && h->in_memory / 2 > h->budget;
}

size_t hold_memory_bytes(const struct hold *h)
{
    return h->in_memory - h->n_spares * SEGMENT_SIZE;
}

size_t hold_spilled_bytes(const struct hold *h)
{
    return h->spilled;
}
