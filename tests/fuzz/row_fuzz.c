/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "pgtext.h"
#include "row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input, handed out piece by piece. */
struct input {
    const uint8_t *p;
    size_t left;
};

static struct rp_bytes take(struct input *in, size_t n)
{
    n = n < in->left ? n : in->left;
    struct rp_bytes bytes = {in->p, n};
    in->p += n;
    in->left -= n;
    return bytes;
}

/* A length, then as many bytes; now and then a null. */
static struct rp_bytes take_bytes(struct input *in)
{
    uint8_t n = 0;
    struct rp_bytes length = take(in, 1);
    if (length.len == 1)
        n = *(const uint8_t *)length.data;
    return n == 255 ? RP_NULL_BYTES : take(in, n < 200 ? n : 20 * (size_t)n);
}

static struct rp_bytes take_text(struct input *in)
{
    struct rp_bytes text = take_bytes(in);
    return text.data == NULL ? rp_str("") : text;
}

static int64_t take_int(struct input *in)
{
    int64_t n = 0;
    struct rp_bytes bytes = take(in, sizeof n);
    memcpy(&n, bytes.data, bytes.len);
    return n;
}

/* A binary COPY row, read back as PostgreSQL would. Nothing may be left over or missing. */
static uint32_t read32(struct input *row)
{
    uint32_t n;
    if (row->left < sizeof n)
        abort();
    memcpy(&n, take(row, sizeof n).data, sizeof n);
    return be32toh(n);
}

static struct rp_bytes read_value(struct input *row)
{
    uint32_t n = read32(row);
    if (n == UINT32_MAX)
        return RP_NULL_BYTES;
    if (n > row->left)
        abort();
    return take(row, n);
}

static void check_text(struct rp_bytes text)
{
    if (text.data != NULL && !pgtext_fits(text, SIZE_MAX))
        abort();
}

static void check_array(struct rp_bytes array, bool text)
{
    struct input in = {array.data, array.len};
    uint32_t dimensions = read32(&in);
    (void)read32(&in);
    if (read32(&in) != (text ? 25 : 17) || dimensions > 1)
        abort();
    uint32_t n = dimensions == 0 ? 0 : read32(&in);
    if (dimensions == 1 && (n == 0 || read32(&in) != 1))
        abort();
    for (uint32_t i = 0; i < n; i++) {
        struct rp_bytes element = read_value(&in);
        if (text)
            check_text(element);
    }
    if (in.left != 0)
        abort();
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

static void check_column(const char *name, struct rp_bytes value)
{
    static const char *const texts[] = {"record_topic",  "reason",  "detail",
                                        "category",      "policy",  "source_topic",
                                        "error_message", "message", NULL};
    static const char *const names[] = {"task_id",        "task_type", "target",     "error_class",
                                        "error_category", "source",    "replay_job", NULL};
    static const char *const arrays[] = {"header_keys", "cause_classes", "cause_messages",
                                         "altered", NULL};
    if (value.data == NULL)
        return;
    if (is_one_of(name, texts) || is_one_of(name, names))
        check_text(value);
    if (is_one_of(name, names) && value.len > ROW_NAME_MAX)
        abort();
    if (is_one_of(name, arrays))
        check_array(value, true);
    if (strcmp(name, "header_values") == 0)
        check_array(value, false);
}

static void check_row(struct rp_bytes bytes, const char *const *columns, size_t n_columns)
{
    struct input row = {bytes.data, bytes.len};
    uint16_t n;
    memcpy(&n, take(&row, sizeof n).data, sizeof n);
    if (be16toh(n) != n_columns)
        abort();
    for (size_t i = 0; i < n_columns; i++)
        check_column(columns[i], read_value(&row));
    if (row.left != 0)
        abort();
}

/* A dead letter of the input's bytes, whatever they are, is a row that PostgreSQL can read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct rp_header headers[3];
    struct rp_cause causes[3];
    struct rp_dead_letter d = {.has_task = take_int(&in) % 4 != 0, .reason = RP_OTHER};
    struct rp_failed_task *t = &d.task;
    t->n_headers = (size_t)(take_int(&in) & 3);
    t->n_causes = (size_t)(take_int(&in) & 3);
    for (size_t i = 0; i < t->n_headers; i++)
        headers[i] = (struct rp_header){take_text(&in), take_bytes(&in)};
    for (size_t i = 0; i < t->n_causes; i++)
        causes[i] = (struct rp_cause){take_text(&in), take_text(&in)};
    t->headers = headers;
    t->causes = causes;
    t->task_id = take_text(&in);
    t->task_type = take_text(&in);
    t->target = take_bytes(&in);
    t->key = take_bytes(&in);
    t->payload = take_bytes(&in);
    t->error_class = take_text(&in);
    t->error_message = take_text(&in);
    t->error_category = take_bytes(&in);
    t->source = take_text(&in);
    t->first_failed_at_ms = take_int(&in);
    t->failed_at_ms = take_int(&in);
    d.raw = take_bytes(&in);
    d.detail = take_bytes(&in);
    d.category = take_bytes(&in);
    d.policy = take_bytes(&in);
    d.decided_at_ms = take_int(&in);
    d.topic = take_text(&in);

    const struct row_record record = {.topic = rp_str("dead-letter"), .value = {data, size}};
    struct copy rows = {0};
    struct groups groups = {0};
    struct row_facts facts;
    if (row_write(&rows, &record, &d, 0, &groups, &facts, NULL) != 0)
        abort();
    check_row(rp_buf_bytes(&rows.buf), row_columns, row_n_columns);
    static const char *const group[] = {"fingerprint", "task_type", "error_class", "message"};
    check_row(rp_buf_bytes(&groups.rows.buf), group, 4);
    rp_buf_clear(&rows.buf);
    groups_clear(&groups);
    return 0;
}
