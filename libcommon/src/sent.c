/* SPDX-License-Identifier: Apache-2.0 */
#include "sent.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

/* A record may have a mark that is gone, and one of the next time: they differ by that alone. */
static int compare(const void *left, const void *right)
{
    const struct rp_sent_mark *a = left, *b = right;
    if (a->topic != b->topic)
        return (uintptr_t)a->topic < (uintptr_t)b->topic ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->gone - b->gone;
}

int rp_sent_add(struct rp_sent *s, const char *topic, int32_t partition, int64_t offset,
                struct rp_error *err)
{
    struct rp_sent_mark *marks = rp_array_grow(s->marks, s->n, &s->cap, sizeof *marks);
    if (marks == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for more than %zu marks", s->n);
    s->marks = marks;
    s->marks[s->n++] = (struct rp_sent_mark){topic, partition, offset, false};
    s->n_left++;
    s->sorted = false;
    return 0;
}

static struct rp_sent_mark *find(struct rp_sent *s, const char *topic, int32_t partition,
                                 int64_t offset)
{
    const struct rp_sent_mark key = {topic, partition, offset, false};
    if (s->n_left == 0)
        return NULL;
    if (!s->sorted)
        qsort(s->marks, s->n, sizeof *s->marks, compare);
    s->sorted = true;
    return bsearch(&key, s->marks, s->n, sizeof *s->marks, compare);
}

bool rp_sent_has(struct rp_sent *s, const char *topic, int32_t partition, int64_t offset)
{
    return find(s, topic, partition, offset) != NULL;
}

static void drop(struct rp_sent *s, struct rp_sent_mark *mark)
{
    mark->gone = true;
    if (--s->n_left == 0)
        s->n = 0;
}

void rp_sent_forget(struct rp_sent *s, const char *topic, int32_t partition, int64_t offset)
{
    struct rp_sent_mark *mark = find(s, topic, partition, offset);
    if (mark != NULL)
        drop(s, mark);
}

void rp_sent_forget_partition(struct rp_sent *s, const char *topic, int32_t partition)
{
    for (size_t i = s->n; i-- > 0 && s->n_left > 0;) {
        struct rp_sent_mark *mark = &s->marks[i];
        if (!mark->gone && mark->partition == partition && strcmp(mark->topic, topic) == 0)
            drop(s, mark);
    }
}

void rp_sent_clear(struct rp_sent *s)
{
    free(s->marks);
    *s = (struct rp_sent){0};
}
