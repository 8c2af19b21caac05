/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "parcel.h"

static struct hold *hold;

static int set_up(void **state)
{
    struct rp_error err;
    (void)state;
    return hold_new(1 << 20, "/tmp", &hold, &err);
}

static int tear_down(void **state)
{
    (void)state;
    hold_free(hold);
    return 0;
}

static struct parcel there_and_back(const struct parcel *parcel, struct rp_buf *scratch)
{
    struct rp_error err;
    struct rp_bytes bytes;
    struct parcel back;
    uint64_t handle;
    assert_int_equal(parcel_put(hold, parcel, &handle, &err), 0);
    assert_int_equal(hold_get(hold, handle, scratch, &bytes, &err), 0);
    parcel_read(bytes, &back);
    hold_drop(hold, handle);
    return back;
}

static void a_parcel_comes_back_as_it_was(void **state)
{
    struct rp_buf scratch = {0};
    const struct parcel parcel = {
        .passage = {.task_id = rp_str("t-1"),
                    .attempt = 4,
                    .due_ms = 1763700001234,
                    .first_failed_at_ms = 1763700000000,
                    .target = rp_str("work"),
                    .policy = rp_str("payment"),
                    .replay_id = rp_str("job")},
        .key = rp_str("key"),
        .value = rp_str("value"),
    };
    (void)state;
    struct parcel back = there_and_back(&parcel, &scratch);
    assert_true(rp_bytes_equal(back.passage.task_id, parcel.passage.task_id));
    assert_true(rp_bytes_equal(back.passage.target, parcel.passage.target));
    assert_true(rp_bytes_equal(back.passage.policy, parcel.passage.policy));
    assert_true(rp_bytes_equal(back.passage.replay_id, parcel.passage.replay_id));
    assert_true(rp_bytes_equal(back.key, parcel.key));
    assert_true(rp_bytes_equal(back.value, parcel.value));
    assert_int_equal(back.passage.attempt, 4);
    assert_int_equal(back.passage.due_ms, parcel.passage.due_ms);
    assert_int_equal(back.passage.first_failed_at_ms, parcel.passage.first_failed_at_ms);
    rp_buf_clear(&scratch);
}

static void null_and_empty_stay_apart(void **state)
{
    struct rp_buf scratch = {0};
    const struct parcel parcel = {.passage = {.due_ms = RP_NO_TIME}, .key = rp_str("")};
    (void)state;
    struct parcel back = there_and_back(&parcel, &scratch);
    assert_true(rp_bytes_equal(back.key, rp_str("")));
    assert_true(rp_bytes_equal(back.value, RP_NULL_BYTES));
    assert_true(rp_bytes_equal(back.passage.task_id, RP_NULL_BYTES));
    assert_int_equal(back.passage.due_ms, RP_NO_TIME);
    rp_buf_clear(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parcel_comes_back_as_it_was),
        cmocka_unit_test(null_and_empty_stay_apart),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
