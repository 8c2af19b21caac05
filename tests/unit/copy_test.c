/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "copy.h"

#define IS(c, literal) is(c, literal, sizeof literal - 1)

static void is(struct copy *c, const char *expected, size_t n)
{
    assert_false(c->failed);
    assert_int_equal(c->buf.len, n);
    assert_memory_equal(c->buf.data, expected, n);
    rp_buf_clear(&c->buf);
}

static void header_and_trailer_are_those_of_the_manual(void **state)
{
    (void)state;
    assert_int_equal(copy_header.len, 19);
    assert_memory_equal(copy_header.data, "PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", 19);
    assert_int_equal(copy_trailer.len, 2);
    assert_memory_equal(copy_trailer.data, "\xff\xff", 2);
}

static void a_row_begins_with_its_number_of_columns(void **state)
{
    (void)state;
    struct copy c = {0};
    copy_row(&c, 258);
    IS(&c, "\x01\x02");
}

static void integers_go_big_end_first(void **state)
{
    (void)state;
    struct copy c = {0};
    copy_int32(&c, -2);
    copy_int64(&c, 0x0102030405060708);
    IS(&c, "\0\0\0\x04\xff\xff\xff\xfe\0\0\0\x08\x01\x02\x03\x04\x05\x06\x07\x08");
}

static void a_time_counts_microseconds_from_2000(void **state)
{
    (void)state;
    struct copy c = {0};
    copy_time(&c, INT64_C(946684800001));
    IS(&c, "\0\0\0\x08\0\0\0\0\0\0\x03\xe8");
}

static void null_differs_from_empty(void **state)
{
    (void)state;
    struct copy c = {0};
    copy_bytes(&c, RP_NULL_BYTES);
    copy_bytes(&c, rp_str(""));
    copy_bytes(&c, rp_str("ab"));
    IS(&c, "\xff\xff\xff\xff\0\0\0\0\0\0\0\x02"
           "ab");
}

static void an_array_tells_its_length_type_and_size(void **state)
{
    (void)state;
    struct copy c = {0};
    size_t begin = copy_array(&c, COPY_TEXT, 2);
    copy_bytes(&c, rp_str("x"));
    copy_bytes(&c, RP_NULL_BYTES);
    copy_array_end(&c, begin);
    IS(&c,
       "\0\0\0\x1d\0\0\0\x01\0\0\0\x01\0\0\0\x19\0\0\0\x02\0\0\0\x01\0\0\0\x01x\xff\xff\xff\xff");
}

static void an_empty_array_has_no_dimension(void **state)
{
    (void)state;
    struct copy c = {0};
    copy_array_end(&c, copy_array(&c, COPY_BYTEA, 0));
    IS(&c, "\0\0\0\x0c\0\0\0\0\0\0\0\x01\0\0\0\x11");
}

/* Its length would not fit; no record is as large. */
static void a_value_over_2_gib_fails(void **state)
{
    (void)state;
    struct copy c = {0};
    copy_bytes(&c, (struct rp_bytes){"", (size_t)INT32_MAX + 1});
    assert_true(c.failed);
    copy_array_end(&c, copy_array(&c, COPY_TEXT, 1)); /* what follows is ignored */
    assert_int_equal(c.buf.len, 0);
    rp_buf_clear(&c.buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_and_trailer_are_those_of_the_manual),
        cmocka_unit_test(a_row_begins_with_its_number_of_columns),
        cmocka_unit_test(integers_go_big_end_first),
        cmocka_unit_test(a_time_counts_microseconds_from_2000),
        cmocka_unit_test(null_differs_from_empty),
        cmocka_unit_test(an_array_tells_its_length_type_and_size),
        cmocka_unit_test(an_empty_array_has_no_dimension),
        cmocka_unit_test(a_value_over_2_gib_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
