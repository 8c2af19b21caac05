/* SPDX-License-Identifier: Apache-2.0 */
#include "params.h"

#include <string.h>

struct comparison {
    char *out;
    size_t size, len;
};

/* What finds no room is left out, with a sign of it. */
static void add(struct comparison *c, const char *path)
{
    static const char more[] = ", ...";
    const char *sep = c->len == 0 ? "" : ", ";
    if (c->len + strlen(sep) + strlen(path) + sizeof more <= c->size)
        c->len += (size_t)snprintf(c->out + c->len, c->size - c->len, "%s%s", sep, path);
    else
        c->len = c->size = c->len + (size_t)snprintf(c->out + c->len, c->size - c->len, "%s", more);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_list(const struct rp_strings *a, const struct rp_strings *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; i < a->n && same; i++)
        same = strcmp(a->items[i], b->items[i]) == 0;
    return same;
}

static bool same(const struct rp_param *p, const void *a, const void *b)
{
    if (p->type == RP_P_SPECIAL)
        return p->same == NULL || p->same(a, b);
    if (p->type == RP_P_STRING)
        return same_text(*(char *const *)a, *(char *const *)b);
    return p->type == RP_P_LIST ? same_list(a, b) : memcmp(a, b, p->width) == 0;
}

static void compare(const struct rp_param *params, const char *prefix, const void *a, const void *b,
                    struct comparison *c)
{
    for (const struct rp_param *p = params; p->key != NULL; p++) {
        char path[128];
        const char *left = (const char *)a + p->offset, *right = (const char *)b + p->offset;
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, p->key, p->type == RP_P_MAP ? "." : "");
        if (p->type == RP_P_MAP)
            compare(p->fields, path, left, right, c);
        else if (!same(p, left, right))
            add(c, path);
    }
}

void rp_params_compare(const struct rp_param *params, const void *a, const void *b, char *out,
                       size_t size)
{
    struct comparison c = {.out = out, .size = size};
    out[0] = '\0';
    compare(params, "", a, b, &c);
}
