/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rp_filter *new_filter(void)
{
    struct rp_filter *f;
    if (rp_filter_new(INT64_C(1795230000000), &f, NULL) != 0)
        abort();
    return f;
}

static void terminate(struct rp_buf *b)
{
    if (rp_buf_append(b, "", 1, NULL) != 0)
        abort();
}

/* Whatever was said, the statement has nothing but words of ours. */
static void check_sql(const struct rp_filter *f, struct rp_query *q)
{
    static const char ours[] = "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "$0123456789 .,:()[]<>=~'*+-{}";
    if (rp_filter_sql(f, q, NULL) != 0 || rp_filter_count_sql(f, q, NULL) != 0 ||
        rp_filter_list_sql(f, "2026-11-21", "1", 50, q, NULL) != 0)
        abort();
    terminate(&q->sql);
    const char *sql = (const char *)q->sql.data;
    if (strspn(sql, ours) + 1 != q->sql.len || strstr(sql, "--") != NULL)
        abort();
}

static void check_text(const struct rp_filter *f, const struct rp_query *expected)
{
    struct rp_buf once = {0}, twice = {0};
    struct rp_query q = {0};
    struct rp_filter *again = new_filter();
    if (rp_filter_text(f, &once, NULL) != 0)
        abort();
    terminate(&once);
    /* What is near the bound can be longer when it is written out. */
    if (rp_filter_where(again, (const char *)once.data, NULL) == 0) {
        if (rp_filter_text(again, &twice, NULL) != 0)
            abort();
        terminate(&twice);
        check_sql(again, &q);
        if (!rp_bytes_equal(rp_buf_bytes(&once), rp_buf_bytes(&twice)) ||
            !rp_bytes_equal(rp_buf_bytes(&q.sql), rp_buf_bytes(&expected->sql)) ||
            q.n != expected->n)
            abort();
        for (int i = 0; i < q.n; i++)
            if (strcmp(q.values[i], expected->values[i]) != 0)
                abort();
    } else if (once.len < 65536) {
        abort();
    }
    rp_filter_free(again);
    rp_query_clear(&q);
    rp_buf_clear(&once);
    rp_buf_clear(&twice);
}

/* An expression; or, where there is a line feed, a flag's name and its value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_filter *f = new_filter();
    struct rp_query q = {0};
    struct rp_error err = {.code = RP_OK};
    char *text = malloc(size + 1);
    if (text == NULL)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    char *value = strchr(text, '\n');
    if (value != NULL)
        *value++ = '\0';
    int rc = value == NULL ? rp_filter_where(f, text, &err) : rp_filter_flag(f, text, value, &err);
    if ((rc == 0) == rp_filter_is_empty(f) ||
        (rc != 0 && (err.code == RP_OK || err.text[0] == '\0')))
        abort();
    check_sql(f, &q);
    check_text(f, &q);
    rp_query_clear(&q);
    rp_filter_free(f);
    free(text);
    return 0;
}
