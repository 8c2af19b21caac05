/* SPDX-License-Identifier: Apache-2.0 */
/* What the delayer holds, while memory runs out: what was taken stays, what was not is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frontier.h"
#include "hold.h"
#include "log.h"
#include "memory_fixture.h"
#include "reprise/task.h"

#define N 3000

static int n_released;

static void release(void *opaque, uint64_t handle)
{
    (void)opaque;
    (void)handle;
    n_released++;
}

/* Adds records until one is refused, and then that one again. */
static int fill_frontier(struct rp_error *err)
{
    struct frontier *f;
    bool lost, held;
    int rc = 0, n = 0;
    n_released = 0;
    if (frontier_new(1000, 60000, 0, RP_NULL_BYTES, &lost, &f, err) != 0)
        return -1;
    while (rc == 0 && n < N)
        if ((rc = frontier_add(f, n, 1000 + n, RP_NO_TIME, (uint64_t)n, &held, err)) == 0)
            n += held;
    if (rc != 0) {
        assert_int_equal(frontier_add(f, n, 1000 + n, RP_NO_TIME, (uint64_t)n, &held, NULL), 0);
        assert_true(held);
        n++;
    }
    frontier_free(f, release, NULL);
    assert_int_equal(n_released, n);
    return rc;
}

static void a_record_is_held_or_refused(void **state)
{
    (void)state;
    assert_true(starve(fill_frontier) > 5);
}

#define RECORDS 60

/* Puts twice as much as may stay in memory, then takes out what was put. */
static void fill_hold(struct hold *h)
{
    static uint8_t record[200000];
    struct rp_error err;
    struct rp_buf scratch = {0};
    struct rp_bytes back;
    uint64_t handles[RECORDS];
    for (int i = 0; i < RECORDS; i++) {
        const struct rp_bytes part = {record, sizeof record};
        record[0] = (uint8_t)i;
        if (hold_put(h, &part, 1, &handles[i], &err) != 0) {
            assert_int_equal(err.code, RP_E_NOMEM);
            assert_int_equal(err.cls, RP_RETRIABLE);
            assert_int_equal(hold_put(h, &part, 1, &handles[i], &err), 0);
        }
    }
    for (int i = 0; i < RECORDS; i++) {
        if (hold_get(h, handles[i], &scratch, &back, &err) != 0) {
            assert_int_equal(err.code, RP_E_NOMEM);
            assert_int_equal(hold_get(h, handles[i], &scratch, &back, &err), 0);
        }
        assert_int_equal(back.len, sizeof record);
        assert_int_equal(*(const uint8_t *)back.data, i);
    }
    for (int i = 0; i < RECORDS; i++)
        hold_drop(h, handles[i]);
    assert_int_equal(hold_spilled_bytes(h), 0);
    rp_buf_clear(&scratch);
}

/* Where a spill has no memory, more stays in memory. */
static void what_is_held_is_never_lost(void **state)
{
    (void)state;
    bool ended = false;
    rp_log_setup(RP_LOG_ERROR + 1, false, "test");
    for (int n = 1; !ended; n++) {
        struct rp_error err;
        struct hold *h;
        memory_fail_at(n);
        if (hold_new(6 << 20, "/tmp", &h, &err) != 0) {
            assert_int_equal(err.code, RP_E_NOMEM);
            continue;
        }
        fill_hold(h);
        hold_free(h);
        ended = !memory_failed();
    }
    memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_held_or_refused),
        cmocka_unit_test(what_is_held_is_never_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
