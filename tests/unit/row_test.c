/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <endian.h>
#include <stdlib.h>

#include "row.h"

/* Whatever a text is, twice as long as what is kept of it. */
#define LONG (2 * ROW_TEXT_MAX)

static struct copy rows;
static struct groups groups;
static struct row_facts facts;
static struct rp_error err;
static char *nuls, *letters;

static int set_up(void **state)
{
    (void)state;
    nuls = calloc(1, LONG);
    letters = malloc(LONG);
    if (nuls == NULL || letters == NULL)
        return -1;
    memset(letters, 'x', LONG);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rp_buf_clear(&rows.buf);
    rows = (struct copy){0};
    groups_clear(&groups);
    free(nuls);
    free(letters);
    return 0;
}

/* The column of the row that was written; null where it is. */
static struct rp_bytes column(const char *name)
{
    const uint8_t *p = rows.buf.data + 2;
    for (size_t i = 0; i < row_n_columns; i++) {
        uint32_t n;
        memcpy(&n, p, sizeof n);
        n = be32toh(n);
        if (strcmp(row_columns[i], name) == 0)
            return n == UINT32_MAX ? RP_NULL_BYTES : (struct rp_bytes){p + 4, n};
        p += 4 + (n == UINT32_MAX ? 0 : n);
    }
    fail_msg("no column %s", name);
    return RP_NULL_BYTES;
}

static void write_letter(const struct rp_dead_letter *letter)
{
    const struct row_record record = {.topic = rp_str("t"), .value = rp_str("the record")};
    assert_int_equal(row_write(&rows, &record, letter, 0, &groups, &facts, &err), 0);
}

static void a_text_that_grows_too_long_is_cut_and_the_record_kept(void **state)
{
    (void)state;
    const struct rp_dead_letter letter = {
        .has_task = true, .task = {.error_message = {nuls, LONG}}, .detail = {letters, LONG}};
    write_letter(&letter);
    assert_true(facts.altered);
    assert_int_equal(column("detail").len, ROW_TEXT_MAX);
    assert_int_equal(column("error_message").len, ROW_TEXT_MAX);
    assert_true(rp_bytes_equal(column("record"), rp_str("the record")));
}

static void so_are_the_texts_of_an_array_together(void **state)
{
    enum { N = 64 };
    (void)state;
    struct rp_header headers[N];
    struct rp_cause causes[N];
    for (size_t i = 0; i < N; i++) {
        headers[i] = (struct rp_header){{letters, LONG / N}, rp_str("v")};
        causes[i] = (struct rp_cause){{letters, LONG / N}, {letters, LONG / N}};
    }
    const struct rp_dead_letter letter = {
        .has_task = true,
        .task = {.headers = headers, .n_headers = N, .causes = causes, .n_causes = N}};
    write_letter(&letter);
    assert_true(facts.altered);
    static const char *const names[] = {"header_keys", "cause_classes", "cause_messages"};
    for (size_t i = 0; i < 3; i++)
        assert_in_range(column(names[i]).len, ROW_TEXT_MAX / 2, ROW_TEXT_MAX + 1024);
}

static void a_record_that_is_too_large_is_cut_and_said_to_be(void **state)
{
    (void)state;
    const size_t size = ROW_RECORD_MAX + 1;
    char *large = calloc(1, size);
    assert_non_null(large);
    const struct row_record record = {
        .topic = rp_str("t"), .key = {large, size}, .value = {large, size}};
    assert_int_equal(row_write_bare(&rows, &record, RP_OVERSIZED, "why", 0, &groups, &facts, &err),
                     0);
    free(large);
    assert_true(facts.altered);
    assert_int_equal(column("record").len, ROW_RECORD_MAX);
    assert_int_equal(column("record_key").len, ROW_RECORD_MAX);
    assert_non_null(memmem(column("altered").data, column("altered").len, "record_key", 10));
    assert_non_null(memmem(column("altered").data, column("altered").len, "\0\0\0\6record", 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_text_that_grows_too_long_is_cut_and_the_record_kept),
        TEST(so_are_the_texts_of_an_array_together),
        TEST(a_record_that_is_too_large_is_cut_and_said_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
