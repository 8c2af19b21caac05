/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "arena.h"
#include "array.h"
#include "reprise/bytes.h"

static void null_differs_from_empty(void **state)
{
    (void)state;
    assert_false(rp_bytes_equal(RP_NULL_BYTES, rp_str("")));
    assert_true(rp_bytes_equal(rp_str(""), rp_str("")));
}

static void a_buffer_grows_and_keeps_its_bytes(void **state)
{
    (void)state;
    struct rp_buf b = {0};
    struct rp_error err;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rp_buf_append(&b, "0123456789", 10, &err), 0);
    assert_int_equal(b.len, 10000);
    assert_memory_equal(b.data + 9990, "0123456789", 10);
    rp_buf_clear(&b);
}

static void a_buffer_refuses_what_no_machine_has(void **state)
{
    (void)state;
    struct rp_buf b = {0};
    struct rp_error err;
    assert_int_equal(rp_buf_reserve(&b, SIZE_MAX, &err), -1);
    assert_int_equal(err.code, RP_E_NOMEM);
}

static void an_arena_uses_its_memory_again_after_a_reset(void **state)
{
    (void)state;
    struct rp_arena a = {0};
    for (int i = 0; i < 100; i++)
        assert_non_null(rp_arena_alloc(&a, 1000));
    rp_arena_reset(&a);
    void *first = rp_arena_alloc(&a, 1000);
    rp_arena_reset(&a);
    assert_ptr_equal(rp_arena_alloc(&a, 1000), first);
    rp_arena_clear(&a);
}

static void an_array_grows_and_keeps_its_items(void **state)
{
    (void)state;
    size_t cap = 0;
    size_t *items = NULL;
    for (size_t n = 0; n < 1000; n++) {
        items = rp_array_grow(items, n, &cap, sizeof *items);
        assert_non_null(items);
        items[n] = n;
    }
    assert_int_equal(cap, 1024);
    for (size_t n = 0; n < 1000; n++)
        assert_int_equal(items[n], n);
    free(items);
}

static void context_goes_in_front_of_an_error(void **state)
{
    (void)state;
    struct rp_error err;
    assert_int_equal(rp_fail(&err, RP_E_DECODE, RP_POISON, "byte %d", 7), -1);
    assert_int_equal(rp_fail_in(&err, "topic %s", "t"), -1);
    assert_string_equal(err.text, "topic t: byte 7");
    assert_int_equal(err.code, RP_E_DECODE);
}

static void an_error_is_passed_on_whole(void **state)
{
    (void)state;
    struct rp_error why, err;
    (void)rp_fail(&why, RP_E_KAFKA, RP_FATAL, "100%% of %d", 7);
    assert_int_equal(rp_fail_as(&err, &why), -1);
    assert_int_equal(err.code, RP_E_KAFKA);
    assert_int_equal(err.cls, RP_FATAL);
    assert_string_equal(err.text, "100% of 7");
    assert_int_equal(rp_fail_as(NULL, &why), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_differs_from_empty),
        cmocka_unit_test(a_buffer_grows_and_keeps_its_bytes),
        cmocka_unit_test(a_buffer_refuses_what_no_machine_has),
        cmocka_unit_test(an_arena_uses_its_memory_again_after_a_reset),
        cmocka_unit_test(an_array_grows_and_keeps_its_items),
        cmocka_unit_test(context_goes_in_front_of_an_error),
        cmocka_unit_test(an_error_is_passed_on_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
