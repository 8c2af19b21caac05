/* SPDX-License-Identifier: Apache-2.0 */
#include "counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#define HOUR_MS INT64_C(3600000)

static struct counts counts;
static struct rp_error err;

static int begin(void **state)
{
    (void)state;
    counts = (struct counts){0};
    return 0;
}

static int end(void **state)
{
    (void)state;
    counts_clear(&counts);
    return 0;
}

static void add(const char *type, const char *category, enum rp_reason reason, int64_t fingerprint,
                int64_t dead_at_ms)
{
    const struct count_of of = {rp_str(type), rp_str(category), reason, fingerprint};
    assert_int_equal(counts_add(&counts, &of, dead_at_ms, &err), 0);
}

static struct rp_bytes rows(void)
{
    struct rp_bytes out;
    assert_int_equal(counts_rows(&counts, &out, &err), 0);
    return out;
}

/* The row as COPY has it. */
static void expect_row(struct rp_bytes *all, int64_t hour, const char *type, const char *reason,
                       const char *category, int64_t fingerprint, int64_t n, int64_t first_ms,
                       int64_t last_ms)
{
    struct copy row = {0};
    copy_row(&row, 10);
    copy_time(&row, hour * HOUR_MS);
    copy_bytes(&row, rp_str(type));
    copy_bytes(&row, rp_str(reason));
    copy_bytes(&row, rp_str(category));
    copy_int64(&row, fingerprint);
    copy_bytes(&row, rp_str("dead"));
    copy_int64(&row, n);
    copy_int64(&row, 0);
    copy_time(&row, first_ms);
    copy_time(&row, last_ms);
    assert_true(all->len >= row.buf.len);
    assert_memory_equal(all->data, row.buf.data, row.buf.len);
    all->data = (const char *)all->data + row.buf.len;
    all->len -= row.buf.len;
    rp_buf_clear(&row.buf);
}

static void nothing_counted_makes_no_rows(void **state)
{
    (void)state;
    assert_int_equal(rows().len, 0);
}

static void what_is_alike_is_one_row_from_its_first_to_its_last(void **state)
{
    (void)state;
    add("pay", "TIMEOUT", RP_EXHAUSTED, 7, 2 * HOUR_MS + 50);
    add("pay", "TIMEOUT", RP_EXHAUSTED, 7, 2 * HOUR_MS + 20);
    add("pay", "TIMEOUT", RP_EXHAUSTED, 7, 2 * HOUR_MS + 90);
    struct rp_bytes all = rows();
    expect_row(&all, 2, "pay", "EXHAUSTED", "TIMEOUT", 7, 3, 2 * HOUR_MS + 20, 2 * HOUR_MS + 90);
    assert_int_equal(all.len, 0);
}

static void what_differs_in_anything_is_another_row(void **state)
{
    (void)state;
    add("a", "C", RP_INVALID, 1, 0);
    add("b", "C", RP_INVALID, 1, 0);
    add("a", "D", RP_INVALID, 1, 0);
    add("a", "C", RP_OTHER, 1, 0);
    add("a", "C", RP_INVALID, 2, 0);
    add("a", "C", RP_INVALID, 1, HOUR_MS);
    struct rp_bytes all = rows();
    expect_row(&all, 0, "a", "INVALID", "C", 1, 1, 0, 0);
    expect_row(&all, 0, "b", "INVALID", "C", 1, 1, 0, 0);
    expect_row(&all, 0, "a", "INVALID", "D", 1, 1, 0, 0);
    expect_row(&all, 0, "a", "OTHER", "C", 1, 1, 0, 0);
    expect_row(&all, 0, "a", "INVALID", "C", 2, 1, 0, 0);
    expect_row(&all, 1, "a", "INVALID", "C", 1, 1, HOUR_MS, HOUR_MS);
    assert_int_equal(all.len, 0);
}

static void null_and_empty_are_two(void **state)
{
    (void)state;
    add(NULL, "", RP_OTHER, 1, 0);
    add("", NULL, RP_OTHER, 1, 0);
    add(NULL, "", RP_OTHER, 1, 0);
    struct rp_bytes all = rows();
    expect_row(&all, 0, NULL, "OTHER", "", 1, 2, 0, 0);
    expect_row(&all, 0, "", "OTHER", NULL, 1, 1, 0, 0);
}

static void hours_before_1970_are_hours(void **state)
{
    (void)state;
    add("a", "C", RP_OTHER, 1, -1);
    add("a", "C", RP_OTHER, 1, -HOUR_MS);
    struct rp_bytes all = rows();
    expect_row(&all, -1, "a", "OTHER", "C", 1, 2, -HOUR_MS, -1);
    assert_int_equal(all.len, 0);
}

static void thousands_are_found_again(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3000; i++) {
            char type[20];
            (void)snprintf(type, sizeof type, "type-%d", i % 1500);
            add(type, "C", RP_OTHER, i % 1500, i);
        }
    assert_int_equal(counts.n, 1500);
    struct rp_bytes all = rows();
    expect_row(&all, 0, "type-0", "OTHER", "C", 0, 4, 0, 1500);
    expect_row(&all, 0, "type-1", "OTHER", "C", 1, 4, 1, 1501);
}

static void what_was_dropped_counts_no_more(void **state)
{
    (void)state;
    add("a", "C", RP_OTHER, 1, 0);
    counts_drop(&counts);
    assert_int_equal(rows().len, 0);
    add("a", "C", RP_OTHER, 1, 5);
    struct rp_bytes all = rows();
    expect_row(&all, 0, "a", "OTHER", "C", 1, 1, 5, 5);
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(nothing_counted_makes_no_rows),
        FRESH(what_is_alike_is_one_row_from_its_first_to_its_last),
        FRESH(what_differs_in_anything_is_another_row),
        FRESH(null_and_empty_are_two),
        FRESH(hours_before_1970_are_hours),
        FRESH(thousands_are_found_again),
        FRESH(what_was_dropped_counts_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
