/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "record_size.h"

/* That brokers count the same is for tests/integration/test_sizes.py to show. */

static void an_empty_record_is_little_more_than_its_batch(void **state)
{
    const struct rp_outgoing record = {.topic = rp_str("t")};
    (void)state;
    /* Length, attributes, two deltas, two null lengths, the number of headers. */
    assert_int_equal(rp_record_batch_bytes(&record), 61 + 7);
}

static void key_value_and_headers_come_with_their_lengths(void **state)
{
    const struct rp_header headers[] = {{rp_str("name"), rp_str("value")},
                                        {rp_str("n"), RP_NULL_BYTES}};
    const struct rp_outgoing record = {.topic = rp_str("t"),
                                       .key = rp_str("key"),
                                       .value = rp_str(""),
                                       .headers = headers,
                                       .n_headers = 2};
    (void)state;
    assert_int_equal(rp_record_batch_bytes(&record), 61 + 4 + 4 + 1 + 1 + 11 + 3);
}

static void lengths_take_seven_bits_a_byte_and_one_for_the_sign(void **state)
{
    static const char bytes[8192];
    struct rp_outgoing record = {.topic = rp_str("t"), .value = {bytes, 63}};
    (void)state;
    assert_int_equal(rp_record_batch_bytes(&record), 61 + 2 + 6 + 63);
    record.value.len = 64;
    assert_int_equal(rp_record_batch_bytes(&record), 61 + 2 + 7 + 64);
    record.value.len = 8191;
    assert_int_equal(rp_record_batch_bytes(&record), 61 + 3 + 7 + 8191);
    record.value.len = 8192;
    assert_int_equal(rp_record_batch_bytes(&record), 61 + 3 + 8 + 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_record_is_little_more_than_its_batch),
        cmocka_unit_test(key_value_and_headers_come_with_their_lengths),
        cmocka_unit_test(lengths_take_seven_bits_a_byte_and_one_for_the_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
